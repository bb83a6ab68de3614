package compile

import (
	"net/netip"
	"strconv"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Pod gives the rows of a pod's interface a in the Network l: one port of the subnet's switch, and its faces among those
// that the Network's pods can dial.
//
// Port security confines the pod to its own MAC and IP addresses. The port is bound by the pod's node only
// (requested-chassis) and by this very pod only (iface-id-ver is its UID), so neither another node nor a
// successor of the same name can have it by mistake or by intent. (ovn-nb(5).)
//
// Its node follows no more than most connections of the port at a time, whoever began them; 0 is any number. OVN knows that since
// 24.09.
func Pod(l Layout, p model.Pod, a model.Attachment, most uint32) nb.Facts {
	address := portAddress(a.MAC, a.Addresses)
	port := &nb.LogicalSwitchPort{
		UUID:         nb.UUID(nb.TableLogicalSwitchPort, p.UID+"/"+a.Interface),
		Name:         model.AttachmentKey{Pod: p.Key, Interface: a.Interface}.PortName(),
		Addresses:    []string{address},
		PortSecurity: []string{address},
		Options: map[string]string{
			"requested-chassis": p.Node,
			"iface-id-ver":      p.UID,
		},
		ExternalIDs: ids(nb.PodOwner(p.Key.Namespace, p.Key.Name), p.UID, l.Name),
	}
	if subnet, ok := l.Subnet(a.Subnet); ok {
		askForKey(port, subnet, a.Addresses)
	}
	if most > 0 {
		port.Options["ct-zone-limit"] = strconv.FormatUint(uint64(most), 10)
	}
	facts := nb.Facts{
		Rows:    []nb.Row{port},
		Members: []nb.Member{switchRef(l, a.Subnet).Holds(nb.ColumnPorts, port.UUID)},
	}
	facts.Members = append(facts.Members, facesOfPod(l, a)...)
	return facts
}

// askForKey has a port ask for its number in the switch of a subnet. The port has options.
func askForKey(port *nb.LogicalSwitchPort, subnet SubnetLayout, prefixes []netip.Prefix) {
	addresses := make([]netip.Addr, 0, len(prefixes))
	for _, p := range prefixes {
		addresses = append(addresses, p.Addr())
	}
	if key := subnet.portKey(addresses...); key != "" {
		port.Options[nb.KeyTunnelKey] = key
	}
}
