package agent

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// inventory is what a sweep looks at. Everything in it is ours.
type inventory struct {
	ports []vswitch.Port
	links []netdev.Owned
	// netnsGone reports whether a path leads to no network namespace any more.
	netnsGone func(path string) bool
	// podOf finds a pod of this node by its UID.
	podOf func(uid string) (pod, bool)
	// wanted is the port that a link should have; false when its pod has gone.
	wanted func(netdev.Owner) (vswitch.Port, bool)
}

// leftovers is what does not fit together.
type leftovers struct {
	// ports whose pod has gone with its network namespace.
	ports []vswitch.Port
	// links without a port that nobody needs.
	links []netdev.Owner
	// lost are links whose port has vanished from the database although their pod lives.
	lost []netdev.Owner
	// changed are links whose port says something else than it should.
	changed []netdev.Owner
	// twins are ports of links of which the same interface of the same pod has a newer one, with a port.
	twins []vswitch.Port
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
	plugged := make(map[string]vswitch.Port, len(i.ports))
	bound := make(map[string]bool, len(i.ports))
	var found leftovers
	for _, p := range i.ports {
		if !linked[p.Name] && i.netnsGone(p.Netns) {
			found.ports = append(found.ports, p)
			continue
		}
		plugged[p.Name] = p
		bound[p.IfaceID] = true
	}
	i.usedPorts(plugged, bound, &found)
	newest := map[model.AttachmentKey]netdev.Owned{}
	for _, l := range i.links {
		if _, has := plugged[l.HostName()]; has {
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

// usedPorts compares the ports that living pods' links have with what they should say, and adds to bound whom they belong to,
// whatever they say.
func (i inventory) usedPorts(plugged map[string]vswitch.Port, bound map[string]bool, found *leftovers) {
	used := map[model.AttachmentKey]netdev.Owned{}
	each := func(do func(l netdev.Owned, id model.AttachmentKey, p vswitch.Port)) {
		for _, l := range i.links {
			pod, lives := i.podOf(l.PodUID)
			if p, has := plugged[l.HostName()]; has && lives {
				do(l, pod.attachment(l.Interface), p)
			}
		}
	}
	each(func(l netdev.Owned, id model.AttachmentKey, _ vswitch.Port) {
		bound[id.PortName()] = true
		if other, has := used[id]; !has || other.Index < l.Index {
			used[id] = l
		}
	})
	each(func(l netdev.Owned, id model.AttachmentKey, p vswitch.Port) {
		want, lives := i.wanted(l.Owner)
		should, _ := p.Unlike(want)
		switch {
		case used[id] != l:
			found.twins = append(found.twins, p)
		case lives && len(should) > 0:
			found.changed = append(found.changed, l.Owner)
		}
	})
}
