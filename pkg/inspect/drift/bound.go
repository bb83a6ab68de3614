package drift

import (
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// CompareBindings finds ports that are not up on their pod's node.
func (w Desired) CompareBindings(have map[string]ovsdb.Binding) []Difference {
	var out []Difference
	for _, p := range w.Ports() {
		if w.pending[p.owner] {
			continue
		}
		b, there := have[p.Name]
		ours := snapshot.BoundOn(b, p.Node, w.objects.Nodes)
		if there && ours && b.Up {
			continue
		}
		d := Difference{
			Owner: p.owner, Place: PlaceSouthbound, Kind: NotBound, Object: "Port_Binding " + p.Name, Want: "up on " + p.Node,
		}
		switch {
		case !there:
			d.Have = "no such row"
		case b.Chassis == "":
			d.Have = "on no chassis"
		case !ours:
			d.Have = "on chassis " + b.Chassis
		default:
			d.Have = "not up"
		}
		out = append(out, d)
	}
	return out
}

// CompareInterfaces finds what of the pods of a node is not in its Open vSwitch, and what is there of no pod.
func (w Desired) CompareInterfaces(node string, have []vswitch.Port) []Difference {
	byID := map[string]vswitch.Port{}
	for _, i := range have {
		byID[i.IfaceID] = i
	}
	var out []Difference
	for _, p := range w.Ports() {
		if p.Node != node || w.pending[p.owner] {
			continue
		}
		d := Difference{Owner: p.owner, Place: PlaceNode, Kind: InterfaceDiffers}
		i, there := byID[p.Name]
		d.Object = "Interface " + i.Name
		switch {
		case !there:
			d.Kind, d.Object, d.Want = InterfaceMissing, "Interface", "iface-id="+p.Name
		case i.IfaceIDVer != p.UID:
			d.Column, d.Want, d.Have = "external_ids", "iface-id-ver="+p.UID, "iface-id-ver="+i.IfaceIDVer
		case i.Problem != "":
			d.Column, d.Want, d.Have = "error", nothing, i.Problem
		case !i.Installed:
			d.Column, d.Want, d.Have = "external_ids", "ovn-installed=true", nothing
		default:
			continue
		}
		out = append(out, d)
	}
	pods := map[string]bool{}
	for key, pod := range w.objects.Pods {
		pods[key.String()] = pod.Node == node
	}
	for _, i := range have {
		twin := byID[i.IfaceID].Name != i.Name
		if pods[i.Pod] && !twin {
			continue
		}
		out = append(out, Difference{
			Owner: podOwner(i.Pod), Place: PlaceNode, Kind: InterfaceSurplus, Object: "Interface " + i.Name,
			Have: "iface-id=" + i.IfaceID,
		})
	}
	return out
}
