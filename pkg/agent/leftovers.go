package agent

import (
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/netdev"
	"github.com/atoll-net/atoll/pkg/vswitch"
)

// inventory is what a sweep looks at. Everything in it is ours.
type inventory struct {
	ports []vswitch.Port
	links []netdev.Owned
	// netnsGone reports whether a path leads to no network namespace any more.
	netnsGone func(path string) bool
	// podOf finds a pod of this node by its UID.
	podOf func(uid string) (pod, bool)
}

// leftovers is what does not fit together.
type leftovers struct {
	// ports whose pod has gone with its network namespace.
	ports []vswitch.Port
	// links without a port that nobody needs.
	links []netdev.Owner
	// lost are links whose port has vanished from the database although their pod lives.
	lost []netdev.Owner
}

// leftovers compares ports, links and pods.
//
// A port is stale only when its link and its network namespace are both gone: either alone may be a matter of
// what the agent can see. A link without a port is stale when its pod has gone, or has a port through another
// link; else the database has lost the port. Of several links of one pod the newest is the one in use.
func (i inventory) leftovers() leftovers {
	linked := make(map[string]bool, len(i.links))
	for _, l := range i.links {
		linked[l.HostName()] = true
	}
	plugged := make(map[string]bool, len(i.ports))
	bound := make(map[string]bool, len(i.ports))
	var found leftovers
	for _, p := range i.ports {
		if !linked[p.Name] && i.netnsGone(p.Netns) {
			found.ports = append(found.ports, p)
			continue
		}
		plugged[p.Name] = true
		bound[p.IfaceID] = true
	}
	newest := map[model.AttachmentKey]netdev.Owned{}
	for _, l := range i.links {
		if plugged[l.HostName()] {
			continue
		}
		p, lives := i.podOf(l.PodUID)
		id := p.attachment(l.Interface)
		if !lives || bound[id.PortName()] {
			found.links = append(found.links, l.Owner)
			continue
		}
		other, has := newest[id]
		switch {
		case !has:
			newest[id] = l
		case other.Index < l.Index:
			found.links = append(found.links, other.Owner)
			newest[id] = l
		default:
			found.links = append(found.links, l.Owner)
		}
	}
	for _, l := range i.links {
		p, _ := i.podOf(l.PodUID)
		if newest[p.attachment(l.Interface)] == l {
			found.lost = append(found.lost, l.Owner)
		}
	}
	return found
}
