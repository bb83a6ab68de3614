package inspect

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// compareBindings finds ports that are not up on their pod's node.
func (w desired) compareBindings(have map[string]ovsdb.Binding) []Difference {
	var out []Difference
	for _, p := range w.ports() {
		if w.pending[p.owner] {
			continue
		}
		b, there := have[p.name]
		ours := boundOn(b, p.node, w.objects.Nodes)
		if there && ours && b.Up {
			continue
		}
		d := Difference{
			Owner: p.owner, Place: PlaceSouthbound, Kind: NotBound, Object: "Port_Binding " + p.name, Want: "up on " + p.node,
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

// boundOn reports whether the chassis that has bound a port is a node's. It may be called like the node, or its host: ovn-controller
// takes either for requested-chassis.
// (ovn-nb(5).) The host is what the chassis says of itself, and no word against its name when that is another node's: OVN's role holds
// names to certificates.
func boundOn(b ovsdb.Binding, node string, nodes map[string]*model.Node) bool {
	return b.Chassis == node || b.Hostname == node && nodes[b.Chassis] == nil
}

// compareInterfaces finds what of the pods of a node is not in its Open vSwitch, and what is there of no pod.
func (w desired) compareInterfaces(node string, have []vswitch.Port) []Difference {
	byID := map[string]vswitch.Port{}
	for _, i := range have {
		byID[i.IfaceID] = i
	}
	var out []Difference
	for _, p := range w.ports() {
		if p.node != node || w.pending[p.owner] {
			continue
		}
		d := Difference{Owner: p.owner, Place: PlaceNode, Kind: InterfaceDiffers}
		i, there := byID[p.name]
		d.Object = "Interface " + i.Name
		switch {
		case !there:
			d.Kind, d.Object, d.Want = InterfaceMissing, "Interface", "iface-id="+p.name
		case i.IfaceIDVer != p.uid:
			d.Column, d.Want, d.Have = "external_ids", "iface-id-ver="+p.uid, "iface-id-ver="+i.IfaceIDVer
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
