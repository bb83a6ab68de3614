package policies

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Pods of other Networks are peers of a Network's policies where the Networks have to do with each other (World.Networks.Peers):
// those that reach it in Ingress, and those that it reaches in Egress. They are found as its own pods are, by selectors and their
// books of each Network. Subjects they never are.

// reverse is the direction in which the other end of a connection sees it.
func reverse(d model.Direction) model.Direction {
	if d == model.PolicyIngress {
		return model.PolicyEgress
	}
	return model.PolicyIngress
}

// seenBy are the addresses by which the policies of a Network see a pod of another: its faces, to which all is translated that goes from
// one Network to the other by way of the node; and its own, if the two are joined.
func (s *Stage) seenBy(network string, a model.Attachment) []netip.Addr {
	out := slices.Clone(a.Faces)
	if slices.Contains(s.world.Networks.Joined(network), a.Network) {
		for _, own := range a.Addresses {
			out = append(out, own.Addr())
		}
	}
	return out
}

// neighbours are what decides which pods of other Networks are in a Network's groups, as it was when these were last looked at.
type neighbours struct {
	peers  [2][]string
	joined []string
	ranges []netip.Prefix
}

func (s *Stage) neighboursOf(network string) neighbours {
	n, layout := s.world.Networks.Served(network)
	if n == nil {
		return neighbours{}
	}
	var out neighbours
	for d := range out.peers {
		out.peers[d] = s.world.Networks.Peers(network, model.Direction(d))
	}
	if len(out.peers[0])+len(out.peers[1]) == 0 {
		return neighbours{}
	}
	out.joined = s.world.Networks.Joined(network)
	for _, r := range layout.Ranges() {
		out.ranges = append(out.ranges, r.CIDR)
	}
	out.ranges = append(out.ranges, layout.Services...)
	return out
}

// lookAtNeighbours decides anew about the places of pods that became peers of a Network's policies, or stopped being peers. The
// policies themselves are compiled anew, as always when the Network serves something else.
func (s *Stage) lookAtNeighbours() {
	for network := range s.served.Take() {
		before, now := s.neighbours[network], s.neighboursOf(network)
		if len(now.peers[0])+len(now.peers[1]) == 0 {
			delete(s.neighbours, network)
		} else {
			s.neighbours[network] = now
		}
		all := !slices.Equal(before.ranges, now.ranges)
		for key := range s.remote[network] {
			members := s.groups[key].members
			was, is := before.peers[members.Direction], now.peers[members.Direction]
			for _, peer := range slices.Concat(was, is) {
				if all || slices.Contains(was, peer) != slices.Contains(is, peer) ||
					slices.Contains(before.joined, peer) != slices.Contains(now.joined, peer) {
					s.tellGroups(s.selectors[members.Selector].selected[peer])
				}
			}
		}
	}
}

// tellRemote tells of the pods that are in a remote group which comes or goes.
func (s *Stage) tellRemote(network string, members compile.Members) {
	for _, peer := range s.world.Networks.Peers(network, members.Direction) {
		s.tellGroups(s.selectors[members.Selector].selected[peer])
	}
}

// RemotePlacesOf are the places of a pod with that attachment in the groups that policies of other Networks need, in order.
func (s *Stage) RemotePlacesOf(key model.PodKey, a model.Attachment) []nb.Member {
	m := s.members[key]
	if m == nil {
		return nil
	}
	var out []nb.Member
	for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
		for _, network := range s.world.Networks.Peers(a.Network, reverse(d)) {
			if len(s.remote[network]) == 0 {
				continue
			}
			n, layout := s.world.Networks.Served(network)
			if n == nil {
				continue
			}
			enter := func(words compile.Group) {
				words = compile.RemoteGroup(d, words)
				if s.groups[groupKey{network, n.UID, words}] != nil {
					out = append(out, compile.RemotePlaces(layout, words, s.seenBy(network, a))...)
				}
			}
			for sel := range m.selectors {
				s.enterBy(sel, m, enter)
			}
		}
	}
	slices.SortFunc(out, func(a, b nb.Member) int {
		return cmp.Or(strings.Compare(a.Row.UUID, b.Row.UUID), strings.Compare(a.Value, b.Value))
	})
	return out
}
