package networks

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// takePeers stores what a Network says of others, and decides anew about each Network for which something changed. A Network that
// was deleted and created again counts as another one.
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
		if n == nil {
			continue
		}
		for _, other := range s.compatible.Keep(name, n.kept()) {
			s.rejoin(other)
		}
		peering, ranges := s.serves(n), n.routable()
		if peering == n.peering && slices.Equal(ranges, n.known) {
			continue
		}
		if n.peers.OffersAddresses {
			s.PlacesChanged.Changed(name)
			for _, consumer := range n.consumers {
				s.Served.Changed(consumer)
			}
		}
		n.peering, n.known = peering, ranges
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
		addressed := s.compatible.Addressed(n.Name)
		consumers = slices.DeleteFunc(s.compatible.Consumers(n.Name), func(name string) bool { return !s.Serves(name) })
		for _, provider := range s.compatible.Providers(n.Name) {
			if p := s.networks[provider]; s.serves(p) {
				home := compile.Home{Name: provider, UID: p.Model.UID}
				if now.Uses = append(now.Uses, home); slices.Contains(addressed, provider) {
					now.Addressed = append(now.Addressed, home)
				}
				// Of ranges of which none is served the provider has no row that could hang here.
				if len(p.Layout.Services) > 0 && s.compatible.DialsServices(n.Name, provider) {
					now.Ranged = append(now.Ranged, home)
				}
			}
		}
	}
	now.Offers = n.peering && (len(consumers) > 0 || n.invites())
	now.OffersRanges = now.Offers && len(n.Model.ServiceCIDRs) > 0
	now.OffersAddresses = slices.ContainsFunc(consumers, func(consumer string) bool {
		return slices.Contains(s.compatible.Addressed(consumer), n.Name)
	})
	for _, name := range s.joined(n) {
		other := s.networks[name]
		now.Joined = append(now.Joined, compile.Joint{
			Home: compile.Home{Name: name, UID: other.Model.UID}, Ranges: other.routable(), Comes: slices.Contains(consumers, name),
		})
	}
	if !slices.Equal(consumers, n.consumers) {
		n.consumers = consumers
		s.Served.Changed(n.Name)
	}
	if now.Equal(n.peers) {
		return
	}
	n.peers, n.routed, n.providers = now, false, nil
	for _, provider := range now.Uses {
		n.providers = append(n.providers, provider.Name)
	}
	n.Layout.Through = s.through(n)
	s.Served.Changed(n.Name)
	s.PlacesChanged.Changed(n.Name)
}

// invites reports whether a Network allows others to use it. From then on it has the rows that consumers need, even without
// consumers. With these rows ovn-northd computes all logical flows anew: it does so for a new Network anyway, but then not for
// the first consumer.
func (n *Network) invites() bool { return !n.Faceless() && len(n.Model.CompatibleWith) > 0 }

// joined are the Networks whose routers are joined to a Network's, of those with rows.
func (s *Stage) joined(n *Network) []string {
	if !n.peering {
		return nil
	}
	return slices.DeleteFunc(s.compatible.Joined(n.Name), func(name string) bool { return !s.Serves(name) })
}

// routable are the ranges by which Networks know a Network's pods that are joined to it: those that it lists, which have been compared with
// their own.
func (n *Network) routable() []netip.Prefix {
	var out []netip.Prefix
	for _, subnet := range n.Layout.Listed() {
		for _, r := range subnet.Ranges {
			out = append(out, r.CIDR)
		}
	}
	return out
}

// Abroad are the ranges in which a Network's pods dial those of other Networks, and their Services, by these Networks' own addresses.
func (s *Stage) Abroad(n *Network) (out []netip.Prefix) {
	for _, j := range n.peers.Joined {
		out = append(out, j.Ranges...)
	}
	for _, provider := range n.peers.Addressed {
		if p := s.networks[provider.Name]; p != nil {
			out = append(out, p.known...)
		}
	}
	for _, provider := range n.peers.Ranged {
		if p := s.networks[provider.Name]; p != nil {
			out = append(out, p.Model.ServiceCIDRs...)
		}
	}
	return out
}

// kept are the ranges of its subnets that it does not list any more.
func (n *Network) kept() (out []netip.Prefix) {
	for _, subnet := range n.Layout.Subnets {
		if subnet.Former {
			for _, r := range subnet.Ranges {
				out = append(out, r.CIDR)
			}
		}
	}
	return out
}

// JoinedInAll is how many Networks are joined to one directly and by others, itself among them; 0 when none are.
func (s *Stage) JoinedInAll(name string) int { return s.compatible.JoinedInAll(name) }

// Joined are the Networks whose routers are joined to a Network's, sorted.
func (n *Network) Joined() []string {
	var out []string
	for _, j := range n.peers.Joined {
		out = append(out, j.Name)
	}
	return out
}

// JoinedTo reports whether the router of another Network is joined to a Network's.
func (n *Network) JoinedTo(other string) bool {
	return slices.ContainsFunc(n.peers.Joined, func(j compile.Joint) bool { return j.Name == other })
}

// peerRows are the rows by which a Network's pods reach those of others, and theirs its own.
func (s *Stage) peerRows(n *Network) nb.Facts {
	if n.peers.None() {
		return nb.Facts{}
	}
	return compile.PeerRows(n.Layout, n.peers, s.Cluster.Faces)
}

// PeerPlaces are the places of a pod with its Network's peers: of its faces, and of its own addresses where these are dialled. An
// address that nodes, or pods of all Networks, mean otherwise stays theirs.
func (s *Stage) PeerPlaces(n *Network, a model.Attachment) []nb.Member {
	out := compile.PeerPlaces(n.Layout, n.peers, a.Faces)
	if !n.peers.OffersAddresses {
		return out
	}
	return append(out, compile.AddressPlaces(n.Layout, a, func(own netip.Addr) bool {
		return contain(n.known, own) && !s.Cluster.IsNode(own) && !s.MeansInfrastructure(own)
	})...)
}

// hostChanged is called when an address becomes a node's, or is no node's any more. Networks whose service ranges hold it get
// their rows anew, since they do not refuse what is a node's. What Networks offer to others at such addresses is decided again.
func (s *Stage) hostChanged(a netip.Addr) {
	for name, n := range s.networks {
		if contain(n.Layout.Services, a) {
			n.routed = false
			s.touch(name)
		}
	}
	s.dialledChanged(func(ranges []netip.Prefix) bool { return contain(ranges, a) })
}

// infrastructureMoved has all that Networks offer to others decided again: any address may be the infrastructure's now.
func (s *Stage) infrastructureMoved() {
	s.dialledChanged(func([]netip.Prefix) bool { return true })
}

// dialledChanged has decided again what Networks offer to others, where others dial ranges of theirs that concern.
func (s *Stage) dialledChanged(concerns func(ranges []netip.Prefix) bool) {
	for name, n := range s.networks {
		if n.peers.OffersAddresses && concerns(n.known) {
			s.PlacesChanged.Changed(name)
		}
		// One that has gone offers what it did until Route.
		if n.peers.OffersRanges && n.Model != nil && concerns(n.Model.ServiceCIDRs) {
			s.Served.Changed(name)
		}
	}
}

func contain(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// Consumers are the Networks whose pods reach a Network's, sorted. The caller does not change them.
func (n *Network) Consumers() []string { return n.consumers }

// Providers are the Networks whose pods a Network's reach, sorted. The caller does not change them.
func (n *Network) Providers() []string { return n.providers }

// Offered are those of a Network's virtual addresses that others may dial: of its service ranges, since those who take these from it know
// nobody else there. An address that nodes, or pods of all Networks, mean otherwise stays theirs.
func (s *Stage) Offered(name string, of []netip.Addr) (out []netip.Addr) {
	n := s.Get(name)
	if n == nil || len(n.consumers) == 0 {
		return nil
	}
	for _, a := range of {
		if contain(n.Model.ServiceCIDRs, a) && !s.Cluster.IsNode(a) && !s.MeansInfrastructure(a) {
			out = append(out, a)
		}
	}
	return out
}

// Ways are how those know a Network that use it: see compile.Peers.Ways.
func (s *Stage) Ways(name string) []compile.Layout {
	n := s.Get(name)
	if n == nil {
		return nil
	}
	return n.peers.Ways(n.Layout)
}

// DialsServices reports whether a Network's pods dial another's Services by addresses of that one's own ranges.
func (n *Network) DialsServices(provider string) bool {
	return slices.ContainsFunc(n.peers.Ranged, func(h compile.Home) bool { return h.Name == provider })
}

// Uses reports whether a Network's pods reach another's.
func (n *Network) Uses(provider string) bool { return slices.Contains(n.providers, provider) }

// short reports whether something of a Network's compatibility with another is not as its owner asks.
func short(p model.CompatibilityStatus) bool {
	switch p.Problem.Reason {
	case model.ReasonAddressConflict:
		return true
	case model.ReasonServiceCIDRsNotUsed, model.ReasonAddressesNotUsed, model.ReasonNotJoined:
		// A consumer that hears it asks for more than the ranges that are named allow.
		return p.Uses
	}
	return p.State != model.CompatibilityActive
}

// compatibility completes a Network's status with what it has to do with others.
func (s *Stage) compatibility(n *Network, status *model.NetworkStatus) {
	var asked bool
	status.Compatibility, asked = s.compatible.Statuses(n.Name)
	status.Joined = s.compatible.JoinedInAll(n.Name)
	status.Created, status.Ranges = n.Model.Created, s.compatible.Ranges(n.Name)
	if !asked && !n.wait.peers {
		return
	}
	c := model.Condition{Type: model.ConditionCompatible, Status: true, Reason: "Compatible", Message: "pods reach each other as asked"}
	var wrong []string
	if n.wait.peers {
		c.Status, c.Reason, wrong = false, n.wait.problem.Reason, []string{n.wait.problem.Message}
	}
	for _, p := range status.Compatibility {
		if short(p) {
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
