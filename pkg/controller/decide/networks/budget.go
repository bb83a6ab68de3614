package networks

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ovn-northd computes everything anew when a switch, a router, a route or an access list comes or goes, and when a consumer ends
// its use of a provider. One ovn-northd works for all tenants, so a tenant's Networks change changesAtOnce times at once, and
// once more every changeEvery. ovn-northd takes some seconds for that in a large cluster and computes together what has changed
// meanwhile, so what a tenant changes within changesTogether counts as one change. However much a tenant has taken away, what it
// adds waits for longestWait at most.
const (
	changesAtOnce   = 8
	changeEvery     = 30 * time.Second
	changesTogether = 3 * time.Second
	longestWait     = 10 * time.Minute
)

// budget bounds how often the Networks of a tenant change.
type budget struct {
	// now is when this pass is, and atOnce how many changes a tenant may make at once.
	now    time.Time
	atOnce int
	// begun: the first Networks were taken in. Their rows are in the database already, or go there together.
	begun bool
	// spent has the tenants that may not make all their changes at once.
	spent map[string]spending
	// waiting are the Networks of which a part waits, as their owners wrote them, and waitingOf those of each tenant. unsaid are those that
	// do not say yet until when.
	waiting   map[string]*model.Network
	waitingOf pass.Index[string, string]
	unsaid    map[string]struct{}
}

// spending is what a tenant has changed.
type spending struct {
	// full is when the tenant may make all its changes at once again. Each change moves it on by changeEvery. What ends never waits,
	// and moves it on, too, so it may be further away than atOnce changes.
	full time.Time
	// together is until when all changes count as the last one. granted: what is added does so, too.
	together time.Time
	granted  bool
}

func newBudget(atOnce int) budget {
	return budget{
		atOnce: cmp.Or(atOnce, changesAtOnce), spent: map[string]spending{},
		waiting: map[string]*model.Network{}, waitingOf: pass.Index[string, string]{}, unsaid: map[string]struct{}{},
	}
}

// opens is when a tenant may add something.
func (b *budget) opens(tenant string) time.Time {
	return b.spent[tenant].full.Add(-time.Duration(b.atOnce-1) * changeEvery)
}

// grants reports whether a tenant may add something now.
func (b *budget) grants(tenant string) bool {
	s := b.spent[tenant]
	return s.granted && b.now.Before(s.together) || !b.opens(tenant).After(b.now)
}

// spend counts a change of a tenant's.
func (b *budget) spend(tenant string) {
	if tenant == "" {
		return
	}
	s, granted := b.spent[tenant], b.grants(tenant)
	if b.now.Before(s.together) && (s.granted || !granted) {
		return
	}
	if s.full.Before(b.now) {
		s.full = b.now
	}
	full := s.full.Add(changeEvery)
	if furthest := b.now.Add(longestWait + time.Duration(b.atOnce-1)*changeEvery); full.After(furthest) {
		full = furthest
	}
	b.spent[tenant] = spending{full: full, together: b.now.Add(changesTogether), granted: granted}
	maps.Copy(b.unsaid, b.waitingOf[tenant])
}

// wait has a part of a Network wait.
func (b *budget) wait(m *model.Network) {
	b.waiting[m.Name] = m
	b.waitingOf.Add(m.Tenant, m.Name)
	b.unsaid[m.Name] = struct{}{}
}

// end returns a Network of which a part waited, and forgets it; nil: none waited.
func (b *budget) end(name string) *model.Network {
	m := b.waiting[name]
	if m != nil {
		b.waitingOf.Drop(m.Tenant, name)
		delete(b.waiting, name)
		delete(b.unsaid, name)
	}
	return m
}

// turn moves time on, and forgets tenants that may make all their changes again.
func (b *budget) turn(now time.Time) {
	b.now = now
	for tenant, s := range b.spent {
		if !s.full.After(now) && !s.together.After(now) {
			delete(b.spent, tenant)
		}
	}
}

// next is when something that waits is taken in; zero: nothing waits.
func (b *budget) next() (due time.Time) {
	for tenant := range b.waitingOf {
		due = pass.Earlier(due, b.opens(tenant))
	}
	return due
}

// Turn moves time on.
func (s *Stage) Turn(now time.Time) { s.budget.turn(now) }

// Next is when the Stage takes in what waits; zero: nothing waits.
func (s *Stage) Next() time.Time { return s.budget.next() }

// afford returns what the Stage takes in now: the Networks that changed, and those that waited and need not any more. Of a
// Network whose tenant changes Networks too often it returns what the Network keeps.
func (s *Stage) afford(changed map[string]*model.Network) map[string]*model.Network {
	b := &s.budget
	if !b.begun {
		b.begun = true
		return changed
	}
	out := make(map[string]*model.Network, len(changed))
	for _, name := range pass.Sorted(changed) {
		out[name] = s.affordOne(name, changed[name])
	}
	for _, tenant := range pass.Sorted(b.waitingOf) {
		if !b.grants(tenant) {
			continue
		}
		for _, name := range pass.Sorted(b.waitingOf[tenant]) {
			out[name] = s.affordOne(name, b.waiting[name])
		}
	}
	return out
}

// affordOne returns what the Stage takes in of one Network.
func (s *Stage) affordOne(name string, m *model.Network) *model.Network {
	b := &s.budget
	before := s.Model(name)
	waited := b.end(name)
	if before != nil && !before.Deleting && (m == nil || m.UID != before.UID || m.Deleting) && s.Serves(name) {
		b.spend(before.Tenant)
	}
	if m == nil || m.Tenant == "" || name == s.Cluster.Network {
		return m
	}
	if before != nil && before.UID != m.UID {
		before = nil
	}
	kept, d := s.keep(before, m)
	granted := !d.adds() || b.grants(m.Tenant)
	if d.ends || d.adds() && granted {
		b.spend(m.Tenant)
	}
	if granted {
		return m
	}
	b.wait(m)
	if waited == nil || waited.UID != m.UID {
		s.Sink.Event(m.Ref(), s.waits(m))
	}
	return kept
}

// waits says why a part of a Network waits, and until when.
func (s *Stage) waits(m *model.Network) model.Problem {
	opens := s.budget.opens(m.Tenant).Add(time.Second - 1).UTC().Format(time.RFC3339)
	return model.Problemf(model.ReasonChangesTooOften,
		"what was added to the Network is served from %s on: the Networks of Tenant %q change too often, and each time the network of "+
			"all tenants is computed anew; a tenant may change its Networks every %d s, and %d times at once", opens, m.Tenant,
		int(changeEvery.Seconds()), s.budget.atOnce)
}

// noteWaiting notes in Networks why a part of them waits. That lasts longer when something else of the tenant's ends meanwhile.
func (s *Stage) noteWaiting() {
	for name := range s.budget.unsaid {
		n, m := s.networks[name], s.budget.waiting[name]
		_, d := s.keep(n.Model, m)
		n.wait = wait{problem: s.waits(m), subnets: d.subnets, ranges: d.ranges, peers: d.peers}
		n.late = true
		s.unreported.Mark(name)
		s.Planned.Changed(name)
	}
	clear(s.budget.unsaid)
}

// wait says why and which part of a Network waits; the zero value: none does.
type wait struct {
	problem                model.Problem
	subnets, ranges, peers bool
}

// problems are those of a part that waits.
func (w wait) problems(part bool) []model.Problem {
	if part {
		return []model.Problem{w.problem}
	}
	return nil
}

// Withheld says why not all of what a Network lists is served.
func (n *Network) Withheld() []model.Problem {
	return append(slices.Clip(n.Problems), n.wait.problems(n.wait.subnets)...)
}

// asWanted notes that the database has a Network as its owner wants it, unless a part waits.
func (s *Stage) asWanted(n *Network) {
	if _, waits := s.budget.waiting[n.Name]; !waits {
		n.observed, n.late = n.Model.Generation, false
	}
}
