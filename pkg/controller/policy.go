package controller

import (
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// policies is what the controller knows of policies, of the pods that they select, and of the port groups that they need.
//
//	policy --mentions--> selector --selects--> pods with ports, by Network
//	policy in a Network --needs--> port groups <--places-- those pods
//
// A policy has rows in a Network while it selects a pod there.
type policies struct {
	byKey     map[model.PolicyKey]*policy
	index     *match.Index
	selectors map[string]*selector
	of        map[model.PodKey]*selected
	groups    map[groupIn]*group
	// blocks are those that a Network has groups for, by its UID.
	blocks map[string]*blocks
	// dirty policies are compiled in a Network, and pods get their places, when all has been looked at.
	dirty map[policyIn]struct{}
	pods  map[model.PodKey]struct{}
	// doors are those that policies were compiled with; nodesMoved: they may have been with other nodes.
	doors      []compile.Door
	nodesMoved bool
	// asking are the policies that ask for addresses of nodes.
	asking map[model.PolicyKey]struct{}
	// answers are the endpoints of Services that answer questions for names, by Network.
	answers map[model.ServiceKey]map[string][]answer
	// logged counts the policies that log, by whom they share the bound of it with.
	logged map[string]int
}

// policy is a policy and what it needs, by Network.
type policy struct {
	*model.Policy
	in map[string]*needs
}

// needs are the port groups that a policy's rows in a Network need, and those that its rows in the database may still need.
type needs struct {
	wanted, held map[groupIn]struct{}
	// written: the database has the rows that the graph wants.
	written bool
}

type policyIn struct {
	key     model.PolicyKey
	network string
}

// groupIn is a port group of a Network; a Network that is made anew under its name has others.
type groupIn struct {
	network, uid string
	group        compile.Group
}

// group is a port group that is there for as long as anybody needs it.
type group struct {
	layout compile.Layout
	row    nb.Ref
	// of says whose ports are in it.
	of    compile.Members
	users int
}

func newPolicies() policies {
	return policies{
		byKey: map[model.PolicyKey]*policy{}, index: match.NewIndex(), selectors: map[string]*selector{},
		of: map[model.PodKey]*selected{}, groups: map[groupIn]*group{}, dirty: map[policyIn]struct{}{},
		pods: map[model.PodKey]struct{}{}, answers: map[model.ServiceKey]map[string][]answer{}, blocks: map[string]*blocks{},
		logged: map[string]int{}, asking: map[model.PolicyKey]struct{}{},
	}
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

// applyPolicies takes policies in. Their pods are those that have ports now; others come by enter.
func (s *State) applyPolicies(changed map[model.PolicyKey]*model.Policy) {
	for _, key := range slices.SortedFunc(maps.Keys(changed), model.PolicyKey.Compare) {
		p, m := s.policies.byKey[key], changed[key]
		if p == nil {
			if m == nil {
				continue
			}
			p = &policy{in: map[string]*needs{}}
			s.policies.byKey[key] = p
		}
		old := p.Policy
		p.Policy = m
		if delete(s.policies.asking, key); m != nil && asksForNodes(m) {
			s.policies.asking[key] = struct{}{}
		}
		// The new one first: a selector that both use keeps its pods, and pods that both isolate stay isolated.
		if m != nil {
			s.enlist(m, +1)
		}
		if old != nil {
			s.enlist(old, -1)
		}
		for network := range p.in {
			s.policies.dirty[policyIn{key, network}] = struct{}{}
		}
		if m == nil {
			if len(p.in) == 0 {
				delete(s.policies.byKey, key)
			}
			continue
		}
		for network := range s.policies.selectors[m.Subject.String()].in {
			s.policies.dirty[policyIn{key, network}] = struct{}{}
		}
		if old == nil || !reflect.DeepEqual(old.Problems, m.Problems) {
			for _, problem := range m.Problems {
				s.sink.PolicyEvent(key, m.UID, problem)
			}
		}
	}
}

// asksForNodes reports whether what a policy means depends on nodes and their addresses.
func asksForNodes(m *model.Policy) bool {
	return slices.ContainsFunc(slices.Concat(m.Rules[:]...), func(r model.Rule) bool {
		return slices.ContainsFunc(r.Peers, func(peer model.Peer) bool { return peer.Nodes != nil })
	})
}

// enlist counts a policy in the books of its selectors, or with -1 out of them.
func (s *State) enlist(m *model.Policy, by int) {
	if m.Log {
		s.countLogs(compile.LogsOf(*m), by)
	}
	all := mentions(m)
	for _, pods := range all {
		tally(s.selector(pods).users, m.Key, by)
	}
	subject := s.selector(m.Subject)
	tally(subject.subjects, m.Key, by)
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
		for _, keys := range subject.in {
			maps.Copy(s.policies.pods, keys)
		}
	}
	for ask, pods := range compile.Names(*m) {
		sel := s.selector(pods)
		had := sel.asked[ask]
		tally(sel.asked, ask, by)
		if toggled(had, sel.asked[ask]) {
			s.recount(sel)
		}
	}
	for _, pods := range all {
		s.unused(pods.String())
	}
}

// countLogs has what bounds logs be there while a policy logs.
func (s *State) countLogs(of string, by int) {
	tally(s.policies.logged, of, by)
	if s.policies.logged[of] > 0 {
		s.graph.Set(nb.LogOwner(of), compile.PolicyLogs(of))
	} else {
		s.graph.Delete(nb.LogOwner(of))
	}
}

// tally counts; what is not there counts nothing.
func tally[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

func toggled(before, after int) bool { return (before == 0) != (after == 0) }
