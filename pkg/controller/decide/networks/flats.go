package networks

import (
	"cmp"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
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

// noteFlat takes note of a Network that was planned anew.
func (s *Stage) noteFlat(n *Network) {
	if _, was := s.flats.names[n.Name]; was || n.hangs() || n.Default {
		s.flats.stale = true
	}
	if n.hangs() {
		s.flats.names[n.Name] = struct{}{}
	} else {
		delete(s.flats.names, n.Name)
		n.home = nil
	}
}

// flatPlan is what a flat Network asks for, and what of that is served.
type flatPlan struct {
	layout   compile.Layout
	problems []model.Problem
	served   []compile.SubnetLayout
}

// PlanFlats decides what flat Networks serve, the older before the younger: their addresses are those of one space, with the
// nodes', the faces and the cluster's Services. What overlaps is left out, and says so. A range that is served already stays when
// a Node has an address in it, since a kubelet writes its Node's addresses: it would take the Network from all its pods.
func (s *Stage) PlanFlats() {
	if !s.flats.stale {
		return
	}
	s.flats.stale = false
	order := make([]*Network, 0, len(s.flats.names))
	for name := range s.flats.names {
		order = append(order, s.networks[name])
	}
	slices.SortFunc(order, func(a, b *Network) int {
		return cmp.Or(a.Model.Created.Compare(b.Model.Created), cmp.Compare(a.Name, b.Name))
	})
	var ranges []netip.Prefix
	held := s.infrastructure()
	plans := make([]flatPlan, len(order))
	for i, n := range order {
		layout, problems := compile.Plan(*n.Model, s.Cluster.Layout())
		if problem := s.overQuota(n); problem != nil {
			layout.Subnets, problems = nil, slices.Insert(problems, 0, *problem)
		}
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
				if problem := s.unroutable(n, subnet, held, len(ranges)); problem != nil {
					if !former {
						plan.problems = append(plan.problems, *problem)
					}
					continue
				}
				plan.served = append(plan.served, subnet)
				for _, r := range subnet.Ranges {
					ranges = append(ranges, r.CIDR)
					held = append(held, taken{cidr: r.CIDR, what: fmt.Sprintf("%s of Network %q", r.CIDR, n.Name)})
				}
			}
		}
	}
	home := s.home()
	homeless := home == nil || len(home.Layout.Subnets) == 0
	if homeless {
		ranges = nil
	}
	for i, n := range order {
		plan := plans[i]
		layout, problems := plan.layout, plan.problems
		if homeless {
			layout.Subnets = nil
			problems = append(problems, model.Problemf(model.ReasonSubnetInvalid,
				"nothing is served: flat Networks share the router of the default Network %q, which is not there", s.Cluster.Network))
		} else {
			layout.Subnets = plan.served
			n.home, layout.Home = home, &compile.Home{Name: home.Name, UID: home.Model.UID}
		}
		if reflect.DeepEqual(n.Layout, layout) && reflect.DeepEqual(n.Problems, problems) && n.told.uid == n.Model.UID {
			// Its status may tell since when it has its subnets.
			s.number(n)
			continue
		}
		n.Layout, n.Problems, n.routed = layout, problems, false
		s.noteFormer(n)
		s.planned(n)
		s.touch(n.Name)
		s.replanned[n.Name] = struct{}{}
		s.unserved.Mark(n.Name)
		s.Served.Changed(n.Name)
		s.Planned.Changed(n.Name)
	}
	if !slices.Equal(ranges, s.flats.ranges) {
		s.flats.ranges, s.guard.stale = ranges, true
		s.HomeChanged.Changed(struct{}{})
	}
}

// unroutable says why a subnet cannot be part of the space that flat Networks share; nil when it can.
func (s *Stage) unroutable(n *Network, subnet compile.SubnetLayout, held []taken, ranges int) *model.Problem {
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
		for _, services := range s.Cluster.Services {
			if services.Overlaps(r.CIDR) {
				return refuse(model.ReasonSubnetsOverlap, "%s overlaps %s, the cluster's own range of Services; give it other addresses", r.CIDR,
					services)
			}
		}
		if a, many := s.Cluster.NodesWithin(r.CIDR); many > 0 && !n.servesRange(r.CIDR) {
			return refuse(model.ReasonSubnetsOverlap, "%s holds %s, the address of a node; give it other addresses", r.CIDR, a)
		}
	}
	return nil
}

// servesRange reports whether the Network already serves a range: its status says so, or its layout while the status is not
// written yet.
func (n *Network) servesRange(cidr netip.Prefix) bool {
	if slices.ContainsFunc(n.Model.Served, func(r model.ServedRange) bool { return r.CIDR == cidr }) {
		return true
	}
	if n.Layout.UID != n.Model.UID {
		return false
	}
	for _, r := range n.Layout.Ranges() {
		if r.CIDR == cidr {
			return true
		}
	}
	return false
}

// houseFlats has flat Networks get their rows, or lose them, with the default one.
func (s *Stage) houseFlats() {
	if housed := s.serves(s.home()); housed != s.flats.housed {
		s.flats.housed = housed
		for name := range s.flats.names {
			s.networks[name].routed = false
			s.touch(name)
		}
	}
}

// Flats are the flat Networks beside the default one, by name.
func (s *Stage) Flats() []*Network {
	out := make([]*Network, 0, len(s.flats.names))
	for _, name := range pass.Sorted(s.flats.names) {
		out = append(out, s.networks[name])
	}
	return out
}

// FlatRanges are what they serve. The caller does not change them.
func (s *Stage) FlatRanges() []netip.Prefix { return s.flats.ranges }
