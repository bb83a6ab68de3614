package compile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Door is an address that pods of a vpc Network dial, where pods of other clusters reach something that rules name in other
// words: the cluster's DNS is pods there, and the Kubernetes API has its servers' addresses. Here both answer in the
// porthole, or a Service of the tenant answers questions for names. A rule that means what is behind a door means the door.
type Door struct {
	// Dial is where packets go once they have been balanced: where pods dial, or an endpoint of the tenant's Service.
	Dial     netip.AddrPort
	Protocol model.Protocol
	// Pods are behind the door, or Servers.
	Pods    []DoorPod
	Servers []netip.AddrPort
}

// DoorPod is a pod behind a door.
type DoorPod struct {
	match.Target
	// Port is the pod's that the door leads to; its name is empty when it has none.
	Port model.PodPort
	// Node is the address of a pod on its node's own network, by which rules may mean it, too.
	Node netip.Addr
}

// compileDoors makes the ACLs of the doors that the rule means.
func (c policyCompiler) compileDoors() {
	byPort := map[string][]string{}
	for _, d := range c.around.Doors {
		if c.rule.AnyPeer && c.rule.AnyPort || !c.means(d) || !c.layout.Has(d.Dial.Addr().Is4()) {
			continue
		}
		family := familyOf(d.Dial.Addr().Is4())
		key := fmt.Sprintf("%s/%s/%d", family, d.Protocol, d.Dial.Port())
		byPort[key] = append(byPort[key], d.Dial.Addr().String())
	}
	for _, key := range slices.Sorted(maps.Keys(byPort)) {
		words := strings.Split(key, "/")
		slices.Sort(byPort[key])
		c.add("door/"+key, fmt.Sprintf("%s && %s.dst == %s && %s.dst == %s",
			c.side(c.group), words[0], anyOf(slices.Compact(byPort[key])), words[1], words[2]))
	}
}

// means reports whether the rule means a door. Of several pods or servers behind it nobody can tell which one answers: what
// allows or passes must mean all of them, and what denies means the door with any.
func (c policyCompiler) means(d Door) bool {
	some, all := false, true
	for _, p := range d.Pods {
		meant := c.meansPod(p)
		some, all = some || meant, all && meant
	}
	for _, s := range d.Servers {
		meant := c.meansServer(s, d.Protocol)
		some, all = some || meant, all && meant
	}
	if c.rule.Verdict == model.Deny {
		return some
	}
	return some && all
}

func (c policyCompiler) meansPod(p DoorPod) bool {
	peer := c.rule.AnyPeer || p.Node.IsValid() && c.meansAddress(p.Node) || slices.ContainsFunc(c.rule.Peers, func(peer model.Peer) bool {
		return peer.Pods != nil && peer.Pods.Matches(p.Target)
	})
	return peer && c.rule.HasPort(p.Port)
}

func (c policyCompiler) meansServer(s netip.AddrPort, protocol model.Protocol) bool {
	return (c.rule.AnyPeer || c.meansAddress(s.Addr())) && c.rule.HasPort(model.PodPort{Protocol: protocol, Port: s.Port()})
}

// meansAddress reports whether a range of the rule's peers contains an address.
func (c policyCompiler) meansAddress(a netip.Addr) bool {
	return slices.ContainsFunc(c.rule.Peers, func(peer model.Peer) bool {
		return slices.ContainsFunc(c.blocks(peer), func(b model.Block) bool { return b.Contains(a) })
	})
}
