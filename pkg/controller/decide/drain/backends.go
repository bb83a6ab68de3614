package drain

import (
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// retained remembers by which groups owners' virtual addresses led a short while ago: these are kept until all nodes lead by
// the new ones. (compile.RetainedBackends says why.)
type retained struct {
	owners map[nb.Owner][]former
	timers *pass.Timers[nb.Owner]
}

// former is a group that nothing needs any more since then.
type former struct {
	compile.SelectGroup
	since time.Time
}

func newRetained() retained {
	return retained{owners: map[nb.Owner][]former{}, timers: pass.NewTimers[nb.Owner]()}
}

const (
	// keepFormer is how long a group is kept at least. Open vSwitch looks at all that it has cached within 2 s, or caches less.
	// (ofproto-dpif-upcall.c, udpif_revalidator.)
	keepFormer = 3 * time.Second
	// maxFormer bounds how many groups of an owner are kept in one Network: where endpoints change all the time, the last ones.
	maxFormer = 4
)

// over is when a group is kept no longer: at a full second, so that what many Services leave goes in one transaction.
func (f former) over() time.Time { return fullSecond(f.since.Add(keepFormer)) }

// look notes which groups an owner needed and needs now, and returns those to be kept.
func (r *retained) look(owner nb.Owner, was, now map[compile.SelectGroup]struct{}, at time.Time) []compile.SelectGroup {
	needed := func(f former) bool { _, yes := now[f.SelectGroup]; return yes }
	kept := slices.DeleteFunc(r.owners[owner], func(f former) bool { return needed(f) || !f.over().After(at) })
	var fresh []former
	for g := range was {
		if f := (former{g, at}); !needed(f) && g.Retainable() {
			fresh = append(fresh, f)
		}
	}
	slices.SortFunc(fresh, func(a, b former) int {
		return strings.Compare(a.LoadBalancerGroup+a.Backends, b.LoadBalancerGroup+b.Backends)
	})
	for _, f := range fresh {
		kept = slices.DeleteFunc(kept, func(k former) bool { return k.SelectGroup == f.SelectGroup })
		kept = append(kept, f)
	}
	perNetwork := map[string]int{}
	for i, f := range slices.Backward(kept) {
		if perNetwork[f.LoadBalancerGroup]++; perNetwork[f.LoadBalancerGroup] > maxFormer {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	r.forget(owner)
	if len(kept) == 0 {
		return nil
	}
	r.owners[owner] = kept
	r.timers.Set(owner, kept[0].over())
	out := make([]compile.SelectGroup, 0, len(kept))
	for _, f := range kept {
		out = append(out, f.SelectGroup)
	}
	return out
}

// forget drops an owner that has no virtual addresses any more.
func (r *retained) forget(owner nb.Owner) {
	delete(r.owners, owner)
	r.timers.Set(owner, time.Time{})
}
