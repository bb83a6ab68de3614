package drain

import (
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Balancers are the load balancers of owners, and what of them is kept for a while.
type Balancers struct {
	// Elapsed names owners that are to be looked at again, since something of theirs is over.
	Elapsed *pass.Topic[nb.Owner]

	graph    *graph.Graph
	now      time.Time
	draining draining
	retained retained
	vanished vanished
}

// NewBalancers makes the load balancers of nobody, which go to g. Time passes before the stage.
func NewBalancers(g *graph.Graph, stage pass.Stage) *Balancers {
	return &Balancers{
		Elapsed: pass.NewTopic[nb.Owner](stage), graph: g, draining: newDraining(), retained: newRetained(), vanished: newVanished(),
	}
}

// Turn moves time on.
func (b *Balancers) Turn(now time.Time) {
	b.now = now
	for _, timers := range []*pass.Timers[nb.Owner]{b.draining.timers, b.retained.timers, b.vanished.timers} {
		for _, owner := range timers.Turn(now) {
			b.Elapsed.Changed(owner)
		}
	}
}

// Next is when something is over; zero: never.
func (b *Balancers) Next() time.Time {
	return pass.Earlier(pass.Earlier(b.draining.timers.Next(), b.retained.timers.Next()), b.vanished.timers.Next())
}

// Leave notes where an owner's virtual addresses lead now, and returns the draining endpoints, which nodes are to forget. Those
// in serving still serve without getting anything new.
func (b *Balancers) Leave(owner nb.Owner, leads, serving map[Endpoint]struct{}) map[Endpoint]struct{} {
	return b.draining.look(owner, leads, serving, b.now)
}

// Vanish notes which pods an owner's virtual addresses lead to by TCP now, and whether each is ending, and returns those that
// have gone without a word, which nodes are to forget. They count for the tenant. there reports whether the pod of one that they
// do not lead to any more is there.
func (b *Balancers) Vanish(owner nb.Owner, tenant string, now map[Backend]bool, there func(Backend) bool) []Backend {
	return b.vanished.look(owner, tenant, now, there, b.now)
}

// Set wants an owner's load balancers, and keeps for a while the backends that these replace. It reports whether that makes work.
func (b *Balancers) Set(owner nb.Owner, facts nb.Facts) bool {
	before, _ := b.graph.Facts(owner)
	kept := b.retained.look(owner, compile.SelectGroups(before), compile.SelectGroups(facts), b.now)
	facts.Members = append(facts.Members, compile.RetainedBackends(owner, kept)...)
	return b.graph.Set(owner, facts)
}

// Delete wants none of an owner any more.
func (b *Balancers) Delete(owner nb.Owner) {
	b.draining.note(owner, nil, time.Time{})
	b.vanished.forget(owner)
	b.retained.forget(owner)
	b.graph.Delete(owner)
}
