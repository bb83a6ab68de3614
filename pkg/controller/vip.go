package controller

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// vips are the virtual addresses of a Network's own: who has which address of its service ranges. Whoever gets one writes
// it on an object, and holds it again after a restart before anybody claims a new one.
type vips struct {
	// uid is that of the Network: one that is made anew under its name has given nothing yet.
	uid    string
	served []netip.Prefix
	ranges *alloc.Ranges
	// waiting owners lack an address that others have; they are looked at again when one comes free.
	waiting map[nb.Owner]struct{}
}

// vipClaim is what an owner asks of a Network's service ranges.
type vipClaim struct {
	// families are those that it needs an address of, each given by any address.
	families []netip.Addr
	// wanted are addresses that it asks for, at most one per family; in other families any will do.
	wanted []netip.Addr
}

// vipChanges is what has changed for virtual addresses since they were last looked at.
type vipChanges struct {
	// networks have other ranges, perhaps; all: the infrastructure has other addresses, too.
	networks map[string]struct{}
	all      bool
	// freed Networks have addresses again for owners that wait.
	freed map[string]struct{}
}

func newVIPChanges() vipChanges {
	return vipChanges{networks: map[string]struct{}{}, freed: map[string]struct{}{}}
}

// holdVIPs takes addresses that an earlier decision gave to an owner, as far as nobody else has them, a range still holds
// them, and the owner has none of their family. It goes before all claims.
func (s *State) holdVIPs(n *network, owner nb.Owner, former []netip.Addr) {
	for _, a := range former {
		if !slices.ContainsFunc(n.vips.ranges.Held(string(owner)), func(has netip.Addr) bool { return has.Is4() == a.Is4() }) {
			n.vips.ranges.Take(string(owner), a)
		}
	}
}

// claimVIPs gives an owner one address of each family that it claims and the Network has a range of: the one that it wants,
// else the one that it has, else the next. What is missing is said by the problem, the first if there are several; an owner
// whose wish cannot be granted keeps what it has. The addresses come IPv4 first.
func (s *State) claimVIPs(n *network, owner nb.Owner, c vipClaim) ([]netip.Addr, *model.Problem) {
	v, holder := n.vips, string(owner)
	before := v.ranges.Held(holder)
	delete(v.waiting, owner)
	var problem *model.Problem
	for _, family := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		sameFamily := func(a netip.Addr) bool { return a.Is4() == family.Is4() }
		if !slices.ContainsFunc(c.families, sameFamily) {
			v.ranges.Drop(holder, family)
			continue
		}
		var missing *model.Problem
		if i := slices.IndexFunc(c.wanted, sameFamily); i >= 0 {
			missing = s.wantVIP(n, owner, c.wanted[i])
		} else if cidr, has := v.ranges.Range(family); has {
			if _, ok := v.ranges.Next(holder, family); !ok {
				v.waiting[owner] = struct{}{}
				missing = &model.Problem{
					Reason:  model.ReasonServiceCIDRFull,
					Message: fmt.Sprintf("no address is free in service range %s of Network %q: delete Services there", cidr, n.name),
				}
			}
		}
		if problem == nil {
			problem = missing
		}
	}
	after := v.ranges.Held(holder)
	if !slices.Equal(before, after) {
		s.touched[n.name] = struct{}{}
		if len(before) > 0 {
			s.vips.freed[n.name] = struct{}{}
		}
	}
	return after, problem
}

// wantVIP gives an owner the very address that it asks for, or says why it cannot have it.
func (s *State) wantVIP(n *network, owner nb.Owner, wanted netip.Addr) *model.Problem {
	refuse := func(reason, format string, args ...any) *model.Problem {
		return &model.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	switch outcome, other := n.vips.ranges.Take(string(owner), wanted); outcome {
	case alloc.Outside:
		return refuse(model.ReasonAddressOutsideRange, "address %s is in no service range of Network %q (%s)", wanted, n.name, texts(n.vips.served))
	case alloc.Reserved:
		return refuse(model.ReasonAddressReserved, "address %s names a service range of Network %q itself, or is its last: ask for another", wanted, n.name)
	case alloc.InUse:
		n.vips.waiting[owner] = struct{}{}
		return refuse(model.ReasonAddressInUse, "address %s of Network %q is in use by %s", wanted, n.name, other)
	}
	return nil
}

// releaseVIPs gives an owner's addresses back.
func (s *State) releaseVIPs(n *network, owner nb.Owner) {
	delete(n.vips.waiting, owner)
	if len(n.vips.ranges.Held(string(owner))) == 0 {
		return
	}
	n.vips.ranges.Release(string(owner))
	s.touched[n.name], s.vips.freed[n.name] = struct{}{}, struct{}{}
}

// freedVIPs are the owners that wait in Networks where addresses have come free since it was last asked.
func (s *State) freedVIPs() map[nb.Owner]struct{} {
	out := map[nb.Owner]struct{}{}
	for name := range s.vips.freed {
		if n := s.networks[name]; n != nil {
			maps.Copy(out, n.vips.waiting)
			s.wakeGateways(name)
		}
	}
	clear(s.vips.freed)
	return out
}

// hasVIPs reports whether the Network serves ranges.
func (n *network) hasVIPs() bool { return n != nil && len(n.vips.served) > 0 }

// settleVIPs gives Networks that changed, or all when the infrastructure did, the ranges that they can serve. Whoever has
// an address of a range that stays keeps it. The Services there are looked at again.
func (s *State) settleVIPs() {
	names := s.vips.networks
	if s.vips.all {
		names = map[string]struct{}{}
		for name := range s.networks {
			names[name] = struct{}{}
		}
	}
	for name := range names {
		n := s.networks[name]
		if n == nil {
			continue
		}
		served, problems := s.serviceRanges(n)
		if !slices.Equal(problems, n.rangeProblems) {
			n.rangeProblems = problems
			s.touched[name] = struct{}{}
			for _, p := range problems {
				s.sink.NetworkEvent(name, n.model.UID, p)
			}
		}
		uid := ""
		if n.model != nil {
			uid = n.model.UID
		}
		if uid == n.vips.uid && slices.Equal(served, n.vips.served) {
			continue
		}
		n.vips = n.vips.into(uid, served)
		s.touched[name], s.vips.freed[name] = struct{}{}, struct{}{}
		s.services.touchNetwork(name)
		s.gateways.touch(concern{what: aboutNetwork, name: name})
	}
	clear(s.vips.networks)
	if s.vips.all {
		// What the addresses of load balancers mean depends on it.
		maps.Copy(s.services.dirty, s.services.published)
	}
	s.vips.all = false
}

func newVIPs(uid string, served []netip.Prefix) vips {
	ranges, err := alloc.NewRanges(served)
	if err != nil {
		// Whoever planned them has refused what no pool can serve.
		served = nil
		ranges, _ = alloc.NewRanges(nil)
	}
	return vips{uid: uid, served: served, ranges: ranges, waiting: map[nb.Owner]struct{}{}}
}

// into carries over what the same Network has given of ranges that are still there. Those that wait go on waiting.
func (v vips) into(uid string, served []netip.Prefix) vips {
	out := newVIPs(uid, served)
	if v.uid != uid {
		return out
	}
	for _, owner := range v.ranges.Owners() {
		for _, a := range v.ranges.Held(owner) {
			out.ranges.Take(owner, a)
		}
	}
	out.waiting = v.waiting
	return out
}

// serviceRanges are the ranges that a Network can serve, and why not the others: its owner's mistakes, and what is the
// infrastructure's.
func (s *State) serviceRanges(n *network) ([]netip.Prefix, []model.Problem) {
	if n.model == nil || len(n.model.ServiceCIDRs) == 0 && n.model.ServiceCIDRsError == "" {
		return nil, nil
	}
	planned, problems := compile.PlanServices(*n.model, s.defaults.cluster())
	var served []netip.Prefix
	for _, cidr := range planned {
		if what := s.infraWithin(n, cidr); what != "" {
			problems = append(problems, model.Problem{
				Reason:  model.ReasonServiceCIDROverlaps,
				Message: fmt.Sprintf("service range %s is not served: %s; give it other addresses", cidr, what),
			})
			continue
		}
		served = append(served, cidr)
	}
	return served, problems
}

// infraWithin says why the addresses of a service range must not mean something else in the Network; empty when they may. What
// else of the infrastructure's it overlaps the Network cannot dial, and says so.
func (s *State) infraWithin(n *network, cidr netip.Prefix) string {
	if n.name == s.defaults.Network {
		return "the Services of the default Network have their ClusterIPs"
	}
	return s.clusterIPsWithin(cidr)
}

// clusterWithin says what of all the infrastructure's a range overlaps, but for the nodes' addresses; empty when it is nothing.
func (s *State) clusterWithin(cidr netip.Prefix) string {
	for _, taken := range s.infrastructure() {
		if taken.cidr.Overlaps(cidr) {
			return "it overlaps " + taken.what
		}
	}
	return s.clusterIPsWithin(cidr)
}

// clusterIPsWithin says the same of the cluster's own range of Services.
func (s *State) clusterIPsWithin(cidr netip.Prefix) string {
	for _, cluster := range s.defaults.Services {
		if cluster.Overlaps(cidr) {
			return fmt.Sprintf("it overlaps %s, the cluster's own range of Services", cluster)
		}
	}
	for _, key := range s.infraServices() {
		if service := s.services.byKey[key]; service != nil {
			if i := slices.IndexFunc(service.ClusterIPs, cidr.Contains); i >= 0 {
				return fmt.Sprintf("it holds %s, the address of Service %s", service.ClusterIPs[i], key)
			}
		}
	}
	return ""
}

// ParseRanges reads ranges of addresses.
func ParseRanges(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
