package controller

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// maxFlatRanges bounds the ranges of flat Networks beside the default one's: each node has them in its annotation.
const maxFlatRanges = 32

// flats are the Networks of type flat beside the default one, on whose router their subnets hang.
type flats struct {
	names map[string]struct{}
	// stale: what they serve is to be judged anew.
	stale bool
	// housed: the default Network has rows.
	housed bool
	// ranges are those that are served, in order.
	ranges []netip.Prefix
}

// hangs reports whether a Network's subnets hang on the default Network's router.
func (s *State) hangs(n *network) bool {
	return n != nil && n.model != nil && n.model.Type == model.Flat && !n.standard
}

// faceless reports whether a Network's pods are known by their own addresses.
func (s *State) faceless(n *network) bool { return n.standard || s.hangs(n) }

// space is the Network whose load balancers a Network's pods meet: flat Networks share the default one's.
func (s *State) space(name string) string {
	if s.hangs(s.networks[name]) {
		return s.defaults.Network
	}
	return name
}

// noteFlat takes note of a Network that was planned anew.
func (s *State) noteFlat(n *network) {
	if _, was := s.flats.names[n.name]; was || s.hangs(n) || n.standard {
		s.flats.stale = true
	}
	if s.hangs(n) {
		s.flats.names[n.name] = struct{}{}
	} else {
		delete(s.flats.names, n.name)
		n.home = nil
	}
}

// flatPlan is what a flat Network asks for, and what of that is served.
type flatPlan struct {
	layout   compile.Layout
	problems []model.Problem
	served   []compile.SubnetLayout
}

// planFlats decides what flat Networks serve, the older before the younger: their addresses are those of one space, with the nodes', the
// faces and the cluster's Services. What overlaps is left out, and says so.
func (s *State) planFlats(dirty map[model.PodKey]struct{}) {
	if !s.flats.stale {
		return
	}
	s.flats.stale = false
	order := make([]*network, 0, len(s.flats.names))
	for name := range s.flats.names {
		order = append(order, s.networks[name])
	}
	slices.SortFunc(order, func(a, b *network) int {
		return cmp.Or(a.model.Created.Compare(b.model.Created), cmp.Compare(a.name, b.name))
	})
	var ranges []netip.Prefix
	held := s.infrastructure()
	plans := make([]flatPlan, len(order))
	for i, n := range order {
		layout, problems := compile.Plan(*n.model, s.defaults.cluster())
		plans[i] = flatPlan{layout: layout, problems: problems}
	}
	// What any of them lists comes before what another one does not list any more.
	for _, former := range []bool{false, true} {
		for i, n := range order {
			plan := &plans[i]
			for _, subnet := range plan.layout.Subnets {
				if subnet.Former != former {
					continue
				}
				if problem := s.unroutable(subnet, held, len(ranges)); problem != nil {
					if !former {
						plan.problems = append(plan.problems, *problem)
					}
					continue
				}
				plan.served = append(plan.served, subnet)
				for _, r := range subnet.Ranges {
					ranges = append(ranges, r.CIDR)
					held = append(held, taken{cidr: r.CIDR, what: fmt.Sprintf("%s of Network %q", r.CIDR, n.name)})
				}
			}
		}
	}
	home := s.networks[s.defaults.Network]
	homeless := home == nil || len(home.layout.Subnets) == 0
	if homeless {
		ranges = nil
	}
	for i, n := range order {
		old, plan := n.layout, plans[i]
		layout, problems := plan.layout, plan.problems
		if homeless {
			layout.Subnets = nil
			problems = append(problems, model.Problem{
				Reason:  model.ReasonSubnetInvalid,
				Message: fmt.Sprintf("nothing is served: flat Networks share the router of the default Network %q, which is not there", s.defaults.Network),
			})
		} else {
			layout.Subnets = plan.served
			n.home, layout.Home = home, &compile.Home{Name: home.name, UID: home.model.UID}
		}
		if reflect.DeepEqual(old, layout) && reflect.DeepEqual(n.problems, problems) && n.pools != nil {
			continue
		}
		n.layout, n.problems, n.placed = layout, problems, false
		s.noteFormer(n)
		s.planned(n, old)
		s.touchPlanned(n, dirty)
	}
	if !slices.Equal(ranges, s.flats.ranges) {
		s.flats.ranges, s.guard.stale = ranges, true
		for name := range s.nodes {
			s.moved[name] = struct{}{}
		}
	}
}

// unroutable says why a subnet cannot be part of the space that flat Networks share; nil when it can.
func (s *State) unroutable(subnet compile.SubnetLayout, held []taken, ranges int) *model.Problem {
	refuse := func(reason, format string, args ...any) *model.Problem {
		return &model.Problem{Reason: reason, Message: fmt.Sprintf("subnet %q is not served: ", subnet.Name) + fmt.Sprintf(format, args...)}
	}
	if ranges+len(subnet.Ranges) > maxFlatRanges {
		return refuse(model.ReasonSubnetInvalid, "flat Networks have more than %d ranges", maxFlatRanges)
	}
	for _, r := range subnet.Ranges {
		for _, t := range held {
			if t.cidr.Overlaps(r.CIDR) {
				return refuse(model.ReasonSubnetsOverlap, "%s overlaps %s, and flat Networks share one space; give it other addresses", r.CIDR, t.what)
			}
		}
		for _, services := range s.defaults.Services {
			if services.Overlaps(r.CIDR) {
				return refuse(model.ReasonSubnetsOverlap, "%s overlaps %s, the cluster's own range of Services; give it other addresses", r.CIDR, services)
			}
		}
		if a, many := s.nodesWithin(r.CIDR); many > 0 {
			return refuse(model.ReasonSubnetsOverlap, "%s holds %s, the address of a node; give it other addresses", r.CIDR, a)
		}
	}
	return nil
}

// houseFlats has flat Networks get their rows, or lose them, with the default one.
func (s *State) houseFlats() {
	if housed := s.networks[s.defaults.Network].serves(); housed != s.flats.housed {
		s.flats.housed = housed
		for name := range s.flats.names {
			s.networks[name].placed, s.touched[name] = false, struct{}{}
		}
	}
}

// touchPlanned has looked at again what hangs on what a Network serves.
func (s *State) touchPlanned(n *network, dirty map[model.PodKey]struct{}) {
	s.touched[n.name], s.replanned[n.name] = struct{}{}, struct{}{}
	s.services.touchNetwork(s.defaults.Network)
	s.policies.rearrange(n.name)
	maps.Copy(dirty, n.attached)
	for key := range n.failing {
		dirty[key] = struct{}{}
	}
}
