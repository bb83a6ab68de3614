package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// takePeers takes in what a Network says of others, and has those looked at about which something else is true now. One that is made anew
// is another.
func (s *Stage) takePeers(n *Network, m *model.Network) {
	var changed []string
	if n.Model != nil && m != nil && n.Model.UID != m.UID {
		changed = s.compatible.Set(n.Name, nil)
	}
	for _, other := range append(changed, s.compatible.Set(n.Name, m)...) {
		s.rejoin(other)
	}
	if tenantOf(n.Model) != tenantOf(m) {
		s.tenantMoved(n.Name)
	}
}

// rejoin has it decided anew whom a Network serves and uses.
func (s *Stage) rejoin(name string) {
	s.rejoined[name] = struct{}{}
	s.touch(name)
}

// joinPeers decides which Networks serve others, and which use them, of those that something has changed about. Only Networks with rows
// count.
func (s *Stage) joinPeers() {
	for _, name := range slices.Collect(maps.Keys(s.unrouted.Marked())) {
		n := s.networks[name]
		if n == nil || s.serves(n) == n.peering {
			continue
		}
		n.peering = s.serves(n)
		for _, other := range slices.Concat([]string{name}, s.compatible.Providers(name), s.compatible.Consumers(name)) {
			s.rejoin(other)
		}
	}
	for name := range s.rejoined {
		if n := s.networks[name]; n != nil {
			s.joinPeer(n)
		}
	}
	clear(s.rejoined)
}

// joinPeer decides about one Network.
func (s *Stage) joinPeer(n *Network) {
	var now compile.Peers
	var consumers []string
	if n.peering {
		consumers = slices.DeleteFunc(s.compatible.Consumers(n.Name), func(name string) bool { return !s.Serves(name) })
		for _, provider := range s.compatible.Providers(n.Name) {
			if p := s.networks[provider]; s.serves(p) {
				now.Uses = append(now.Uses, compile.Home{Name: provider, UID: p.Model.UID})
			}
		}
	}
	now.Offers = len(consumers) > 0
	if !slices.Equal(consumers, n.consumers) {
		n.consumers = consumers
		s.Served.Changed(n.Name)
	}
	if now.Offers == n.peers.Offers && slices.Equal(now.Uses, n.peers.Uses) {
		return
	}
	n.peers, n.routed = now, false
	s.Served.Changed(n.Name)
	s.PlacesChanged.Changed(n.Name)
}

// peerRows are the rows by which a Network's pods reach those of others, and theirs its own.
func (s *Stage) peerRows(n *Network) nb.Facts {
	if n.peers.None() {
		return nb.Facts{}
	}
	return compile.PeerRows(n.Layout, n.peers, s.Cluster.Faces)
}

// PeerPlaces are the places of a pod's faces with its Network's peers.
func (s *Stage) PeerPlaces(n *Network, faces []netip.Addr) []nb.Member {
	return compile.PeerPlaces(n.Layout, n.peers, faces)
}

// Consumers are the Networks whose pods reach a Network's, sorted. The caller does not change them.
func (n *Network) Consumers() []string { return n.consumers }

// Offered are the service ranges of a Network that others use: a virtual address of theirs means the same to those others, since compatibility
// is refused where it would not. Of the ranges that all Networks have for their Gateways, each to itself, that cannot be said.
func (s *Stage) Offered(name string) []netip.Prefix {
	n := s.Get(name)
	if n == nil || len(n.consumers) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Model.ServiceCIDRs), func(offered netip.Prefix) bool {
		return slices.ContainsFunc(s.Cluster.Gateways, offered.Overlaps)
	})
}

// Uses reports whether a Network's pods reach another's.
func (n *Network) Uses(provider string) bool {
	return slices.ContainsFunc(n.peers.Uses, func(p compile.Home) bool { return p.Name == provider })
}

// compatibility completes a Network's status with what it has to do with others.
func (s *Stage) compatibility(n *Network, status *model.NetworkStatus) {
	var asked bool
	status.Compatibility, asked = s.compatible.Statuses(n.Name)
	if !asked {
		return
	}
	c := model.Condition{Type: model.ConditionCompatible, Status: true, Reason: "Compatible", Message: "pods reach each other as asked"}
	var wrong []string
	for _, p := range status.Compatibility {
		if p.State != model.CompatibilityActive {
			c.Status = false
			if len(wrong) == 0 {
				c.Reason = p.Problem.Reason
			}
			wrong = append(wrong, p.Problem.Message)
		}
	}
	if more := len(wrong) - named; more > 0 {
		wrong = append(wrong[:named], fmt.Sprintf("and %d more in status.compatibility", more))
	}
	if len(wrong) > 0 {
		c.Message = strings.Join(wrong, "; ")
	}
	status.Conditions = append(status.Conditions, c)
}
