package policies

import (
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// policy is a policy and what it needs, by Network. Without its object it has gone, and has rows in the database still.
type policy struct {
	*model.Policy
	needs map[string]*needs
}

// needs are the port groups that a policy's rows in a Network need (wanted), and those that its rows in the database may still need (held).
type needs struct {
	wanted, held map[groupKey]struct{}
	// watches are the selectors' pods that these groups are made of, in the same way.
	watches, watched map[watch]struct{}
	// written: the database has the rows that the graph wants.
	written bool
	// beyond: the policy's owner was told that some of it is beyond a bound in the Network.
	beyond bool
}

// mentions are the selectors that a policy uses.
func mentions(p *model.Policy) []match.Pods {
	all := map[string]match.Pods{p.Subject.String(): p.Subject}
	for _, rules := range p.Rules {
		for _, r := range rules {
			for _, peer := range r.Peers {
				if peer.Pods != nil {
					all[peer.Pods.String()] = *peer.Pods
				}
			}
		}
	}
	for _, pods := range compile.Names(*p) {
		all[pods.String()] = pods
	}
	out := make([]match.Pods, 0, len(all))
	for _, text := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[text])
	}
	return out
}

// take takes policies in. Their pods are those whose ports are known; the moved ones are settled later.
func (s *Stage) take(changed map[model.PolicyKey]*model.Policy) {
	for _, key := range slices.SortedFunc(maps.Keys(changed), model.PolicyKey.Compare) {
		p, m := s.policies[key], changed[key]
		if p == nil {
			if m == nil {
				continue
			}
			p = &policy{needs: map[string]*needs{}}
			s.policies[key] = p
		}
		old := p.Policy
		p.Policy = m
		if delete(s.asking, key); m != nil && asksForNodes(m) {
			s.asking[key] = struct{}{}
		}
		// The new one first: a selector that both use keeps its pods, and pods that both isolate stay isolated.
		if m != nil {
			s.enlist(m, +1)
		}
		if old != nil {
			s.enlist(old, -1)
		}
		s.recompile(key)
		if m == nil {
			if len(p.needs) == 0 {
				delete(s.policies, key)
			}
			continue
		}
		for network := range s.selectors[m.Subject.String()].selected {
			s.unsettled.Mark(placement{key, network})
		}
		if old == nil || !reflect.DeepEqual(old.Problems, m.Problems) {
			for _, problem := range m.Problems {
				s.world.Sink.Event(m.Ref(), problem)
			}
		}
	}
}

// asksForNodes reports whether what a policy means may depend on nodes and their addresses.
func asksForNodes(m *model.Policy) bool {
	return slices.ContainsFunc(slices.Concat(m.Rules[:]...), func(r model.Rule) bool {
		return slices.ContainsFunc(r.Peers, func(peer model.Peer) bool { return peer.Nodes != nil || peer.Block != nil })
	})
}

// enlist counts a policy in the books of its selectors, or with -1 out of them.
func (s *Stage) enlist(m *model.Policy, by int) {
	if m.Log {
		s.countLogs(compile.LogsOf(*m), by)
	}
	all := mentions(m)
	for _, pods := range all {
		tally(s.selector(pods).users, m.Key, by)
	}
	subject := s.selector(m.Subject)
	s.countSubject(subject, m.Key, by)
	before, judged := subject.isolates, subject.judges
	for d, isolates := range m.Isolates {
		if isolates {
			subject.isolates[d] += by
		}
	}
	if m.Judges() {
		subject.judges += by
	}
	if toggled(before[0], subject.isolates[0]) || toggled(before[1], subject.isolates[1]) || toggled(judged, subject.judges) {
		for _, pods := range subject.selected {
			s.tellGroups(pods)
		}
	}
	// A policy may ask for thousands of names of the same pods, which are all pods of the cluster.
	others := map[*selector]struct{}{}
	for ask, pods := range compile.Names(*m) {
		sel := s.selector(pods)
		had := sel.asked[ask]
		tally(sel.asked, ask, by)
		if toggled(had, sel.asked[ask]) {
			others[sel] = struct{}{}
		}
	}
	for sel := range others {
		s.recount(sel)
	}
	if by < 0 {
		s.narrow(subject)
	}
	for _, pods := range all {
		if sel := s.selectors[pods.String()]; sel != nil {
			s.forgetUnused(sel)
		}
	}
}

// countLogs has what bounds logs be there while a policy logs.
func (s *Stage) countLogs(sharers string, by int) {
	tally(s.logged, sharers, by)
	if s.logged[sharers] > 0 {
		s.graph.Set(nb.LogOwner(sharers), compile.PolicyLogs(sharers))
	} else {
		s.graph.Delete(nb.LogOwner(sharers))
	}
}

// tellGroups tells of pods whose port groups may be others.
func (s *Stage) tellGroups(pods map[*member]struct{}) {
	for m := range pods {
		s.GroupsChanged.Changed(m.key)
	}
}

// Refused says that the database does not accept a policy's rows in a Network.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	key := placementOf(owner).policy
	if p := s.policies[key]; p != nil && p.Policy != nil {
		s.world.Sink.Event(p.Ref(), problem)
	}
}

// tally counts; what is not there counts nothing.
func tally[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

func toggled(before, after int) bool { return (before == 0) != (after == 0) }
