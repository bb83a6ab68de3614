package controller

import (
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/nb"
)

// successions remember by which groups owners' virtual addresses led a short while ago: these are kept until all nodes lead by
// the new ones. (compile.Former says why.)
type successions struct {
	now time.Time
	of  map[nb.Owner][]former
	timers
}

// former is a group that nothing needs any more since then.
type former struct {
	compile.SelectGroup
	since time.Time
}

func newSuccessions() successions {
	return successions{of: map[nb.Owner][]former{}, timers: newTimers()}
}

const (
	// keepFormer is how long a group is kept at least. Open vSwitch looks at all that it has cached within 2 s, or caches less.
	// (ofproto-dpif-upcall.c, udpif_revalidator.)
	keepFormer = 3 * time.Second
	// maxFormer bounds how many groups of an owner are kept in one Network: where endpoints change all the time, the last ones.
	maxFormer = 4
)

// over is when a group is kept no longer: at a full second, so that what many Services leave goes in one transaction.
func (f former) over() time.Time {
	at := f.since.Add(keepFormer)
	if full := at.Truncate(time.Second); full.Before(at) {
		return full.Add(time.Second)
	}
	return at
}

// look notes which groups an owner needed and needs now, and returns those to be kept.
func (s *successions) look(owner nb.Owner, was, now map[compile.SelectGroup]struct{}) []compile.SelectGroup {
	needed := func(f former) bool { _, yes := now[f.SelectGroup]; return yes }
	kept := slices.DeleteFunc(s.of[owner], func(f former) bool { return needed(f) || !f.over().After(s.now) })
	var fresh []former
	for g := range was {
		if f := (former{g, s.now}); !needed(f) && g.Keepable() {
			fresh = append(fresh, f)
		}
	}
	slices.SortFunc(fresh, func(a, b former) int { return strings.Compare(a.Of+a.Backends, b.Of+b.Backends) })
	for _, f := range fresh {
		kept = slices.DeleteFunc(kept, func(k former) bool { return k.SelectGroup == f.SelectGroup })
		kept = append(kept, f)
	}
	of := map[string]int{}
	for i, f := range slices.Backward(kept) {
		if of[f.Of]++; of[f.Of] > maxFormer {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	s.forget(owner)
	if len(kept) == 0 {
		return nil
	}
	s.of[owner] = kept
	s.set(owner, kept[0].over())
	out := make([]compile.SelectGroup, 0, len(kept))
	for _, f := range kept {
		out = append(out, f.SelectGroup)
	}
	return out
}

// forget drops an owner that has no virtual addresses any more.
func (s *successions) forget(owner nb.Owner) {
	delete(s.of, owner)
	s.set(owner, time.Time{})
}

// setBalancers wants an owner's load balancers, and keeps for a while what these replace. It reports whether that makes work.
func (s *State) setBalancers(owner nb.Owner, facts nb.Facts) bool {
	before, _ := s.graph.Facts(owner)
	kept := s.successions.look(owner, compile.SelectGroups(before), compile.SelectGroups(facts))
	facts.Members = append(facts.Members, compile.Former(owner, kept)...)
	return s.graph.Set(owner, facts)
}

// noBalancers wants none of an owner any more.
func (s *State) noBalancers(owner nb.Owner) {
	s.departures.forget(owner)
	s.successions.forget(owner)
	s.graph.Delete(owner)
}
