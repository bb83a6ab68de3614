package policies

import (
	"maps"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// A selector may select all pods of the cluster, and a tenant writes thousands of selectors. So a selector holds pods only where
// its policies need them: the pods of the Networks where these have rows, and of the Networks whose pods are peers there. The
// subject of a policy alone is looked for everywhere, because it decides where the policy has rows; tenants' subjects are pods of
// one namespace.

// watch is a selector and a Network whose pods it selects, for the rows of a policy in that Network or in one that has to do with it.
type watch struct{ selector, network string }

// watchesOf are those that the rows of a policy in a Network need.
func (s *Stage) watchesOf(p *model.Policy, network string) map[watch]struct{} {
	out := map[watch]struct{}{}
	for _, pods := range mentions(p) {
		out[watch{pods.String(), network}] = struct{}{}
	}
	for d, rules := range p.Rules {
		others := s.world.Networks.Peers(network, model.Direction(d))
		if len(others) == 0 {
			continue
		}
		for text := range remoteTexts(p, model.Direction(d), rules) {
			for _, other := range others {
				out[watch{text, other}] = struct{}{}
			}
		}
	}
	return out
}

// remoteTexts are the selectors of rules that may mean pods of other Networks, and those whose names for ports packets to them have.
func remoteTexts(p *model.Policy, d model.Direction, rules []model.Rule) map[string]struct{} {
	out := map[string]struct{}{}
	for _, r := range rules {
		for _, peer := range r.Peers {
			if peer.Pods != nil {
				out[peer.Pods.String()] = struct{}{}
			}
		}
	}
	if d == model.PolicyEgress {
		for ask := range compile.Names(*p) {
			out[ask.Pods] = struct{}{}
		}
	}
	return out
}

// watchFor keeps the pods at hand that the rows of a policy in a Network are made of. All policies are watched before the first
// one is compiled, so that a new watch never concerns a policy that was compiled before.
func (s *Stage) watchFor(at placement) {
	p := s.policies[at.policy]
	if p == nil {
		return
	}
	need := p.needs[at.network]
	if !s.hasRows(p, at.network) {
		if need != nil {
			need.wanted, need.watches = nil, nil
		}
		return
	}
	if need == nil {
		need = &needs{held: map[groupKey]struct{}{}, watched: map[watch]struct{}{}, written: true}
		p.needs[at.network] = need
	}
	need.watches = s.watchesOf(p.Policy, at.network)
	for w := range need.watches {
		if _, had := need.watched[w]; !had {
			need.watched[w] = struct{}{}
			s.watch(w)
		}
	}
}

// watch takes a watch; the first one has the pods found.
func (s *Stage) watch(w watch) {
	sel := s.selectors[w.selector]
	if sel.watched[w.network]++; sel.watched[w.network] > 1 {
		return
	}
	if s.watched[w.network] == nil {
		s.watched[w.network] = match.NewIndex()
	}
	s.watched[w.network].Add(sel.pods)
	for _, m := range s.selects(sel, w.network) {
		if s.find(sel, m) {
			// A Network may have become a peer of one whose group is there already.
			s.GroupsChanged.Changed(m.key)
		}
	}
}

// unwatch gives a watch back; the last one has the pods forgotten. The groups that they were in have gone before.
func (s *Stage) unwatch(w watch) {
	sel := s.selectors[w.selector]
	if tally(sel.watched, w.network, -1); sel.watched[w.network] > 0 {
		return
	}
	x := s.watched[w.network]
	if x.Remove(sel.pods); x.Empty() {
		delete(s.watched, w.network)
	}
	if len(sel.subjects) == 0 {
		s.forget(sel, w.network)
	}
	s.forgetUnused(sel)
}

// countSubject counts a policy among those that a selector is the subject of. For the first one its pods are found in all Networks.
func (s *Stage) countSubject(sel *selector, key model.PolicyKey, by int) {
	before := len(sel.subjects)
	tally(sel.subjects, key, by)
	switch {
	case before == 0 && len(sel.subjects) > 0:
		s.subjects.Add(sel.pods)
		for _, m := range s.selects(sel, "") {
			s.find(sel, m)
		}
	case before > 0 && len(sel.subjects) == 0:
		s.subjects.Remove(sel.pods)
	}
}

// narrow forgets the pods of a selector that is nobody's subject any more, but for those that are watched.
func (s *Stage) narrow(sel *selector) {
	if len(sel.subjects) > 0 {
		return
	}
	for network := range sel.selected {
		if sel.watched[network] == 0 {
			s.forget(sel, network)
		}
	}
}

// find enters a pod that was there before in a selector's books. It reports whether it was not in them.
func (s *Stage) find(sel *selector, m *member) bool {
	if _, had := m.selectors[sel]; had {
		return false
	}
	sel.hold(m)
	sel.countNames(m, +1)
	return true
}

// forget takes the pods of a Network out of a selector's books.
func (s *Stage) forget(sel *selector, network string) {
	for m := range sel.selected[network] {
		delete(m.selectors, sel)
	}
	delete(sel.selected, network)
	maps.DeleteFunc(sel.named, func(at nameIn, _ map[given]int) bool { return at.network == network })
}

// selects are the pods with ports that a selector selects, of a Network, or with "" of all.
func (s *Stage) selects(sel *selector, network string) []*member {
	var out []*member
	chosen := func(m *member) {
		ns, p := s.cluster.Namespaces[m.key.Namespace], s.world.Pods.Pod(m.key)
		if ns != nil && p != nil && sel.pods.Matches(match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels, Labels: p.Labels}) {
			out = append(out, m)
		}
	}
	in := func(name string) {
		if ns := s.cluster.Namespaces[name]; ns == nil || !sel.pods.Holds(name, ns.Labels) {
			return
		}
		for key := range s.cluster.PodsIn[name] {
			if m := s.members[key]; m != nil && (network == "" || m.network == network) {
				chosen(m)
			}
		}
	}
	switch residents := s.residents[network]; {
	case sel.pods.Namespace != "":
		in(sel.pods.Namespace)
	case network != "" && len(residents) <= len(s.cluster.PodsIn):
		// A cluster has thousands of namespaces, and most Networks have few pods.
		for m := range residents {
			chosen(m)
		}
	default:
		for name := range s.cluster.PodsIn {
			in(name)
		}
	}
	return out
}

// matching are the selectors that select a pod of a Network and hold pods there, by their texts.
func (s *Stage) matching(network string, t match.Target) map[string]match.Pods {
	found := s.subjects.Matching(t)
	if x := s.watched[network]; x != nil {
		maps.Copy(found, x.Matching(t))
	}
	return found
}
