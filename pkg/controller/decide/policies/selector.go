package policies

import (
	"slices"
	"unique"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// selector is a selector that policies use, stored once, and the pods with ports that it selects, by Network: while it is a
// subject those of all Networks, and else those of the Networks where policies need them (watch.go).
type selector struct {
	text string
	pods match.Pods
	// group is the port group of its pods.
	group compile.Group
	// users mention the selector; subjects are the users that it is the subject of. Both are counted: a policy that changes
	// counts twice for a moment.
	users, subjects map[model.PolicyKey]int
	// watched counts, by Network, the policies with rows that need the selector's pods there.
	watched map[string]int
	// isolates counts the subjects that isolate in each direction, judges those that decide anything.
	isolates [2]int
	judges   int
	// asked counts the users that ask for ports of a name.
	asked map[compile.NamedPorts]int
	// selected are the pods.
	selected pass.Index[string, *member]
	// named counts the pods with a port that is asked for, by whose they are.
	named map[nameIn]map[given]int
}

// nameIn is a name of ports in a Network.
type nameIn struct{ network, name string }

// given is a port that a tenant's pods give a name.
type given struct {
	share string
	port  model.PodPort
}

// member is what a pod with a port counts for: where, as whose, with which ports, and for which selectors. There may be many
// thousand pairs of a selector and a pod: both sides hold pointers, which are small.
type member struct {
	key     model.PodKey
	network string
	// share is its tenant, or its namespace if that has none.
	share     string
	selectors map[*selector]struct{}
	ports     []model.PodPort
}

// asks reports whether somebody asks for a port of the selector's pods.
func (sel *selector) asks(p model.PodPort) bool {
	return sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name, Protocol: p.Protocol}] > 0 ||
		sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name}] > 0
}

// portsOf are the ports with a name of the selector's pods in some Networks, by whose they are, in order.
func (sel *selector) portsOf(networks []string, ask compile.NamedPorts) []compile.Given {
	by := map[string][]model.PodPort{}
	for _, network := range networks {
		for g := range sel.named[nameIn{network, ask.Name}] {
			if ask.Protocol == "" || ask.Protocol == g.port.Protocol {
				by[g.share] = append(by[g.share], g.port)
			}
		}
	}
	var out []compile.Given
	for _, share := range pass.Sorted(by) {
		slices.SortFunc(by[share], model.PodPort.Compare)
		out = append(out, compile.Given{Tenant: share, Ports: slices.Compact(by[share])})
	}
	return out
}

// selector finds the selector with those requirements, or makes it. A new one holds no pods.
func (s *Stage) selector(pods match.Pods) *selector {
	text := pods.String()
	if sel := s.selectors[text]; sel != nil {
		return sel
	}
	sel := &selector{
		text: text, pods: pods, group: compile.PodsGroup(pods), users: map[model.PolicyKey]int{}, subjects: map[model.PolicyKey]int{},
		watched: map[string]int{}, asked: map[compile.NamedPorts]int{}, selected: pass.Index[string, *member]{},
		named: map[nameIn]map[given]int{},
	}
	s.selectors[text] = sel
	return sel
}

// forgetUnused forgets a selector that no policy mentions any more, or needs for rows that the database still has.
func (s *Stage) forgetUnused(sel *selector) {
	if len(sel.users) == 0 && len(sel.watched) == 0 {
		delete(s.selectors, sel.text)
	}
}

// settle takes a pod that has its port into the books of the selectors that select it, or brings them up to date; one that has lost it
// out of them.
func (s *Stage) settle(key model.PodKey) {
	m, a := s.members[key], s.world.Pods.Attachment(key)
	if a == nil {
		s.exit(key)
		return
	}
	p, ns := s.world.Pods.Pod(key), s.cluster.Namespaces[key.Namespace]
	share := s.cluster.Share(key.Namespace)
	if m != nil && (m.network != a.Network || m.share != share || !slices.Equal(m.ports, p.Ports)) {
		s.exit(key)
		m = nil
	}
	if m == nil {
		m = &member{key: key, network: a.Network, share: unique.Make(share).Value(), selectors: map[*selector]struct{}{}, ports: p.Ports}
		s.members[key] = m
		s.residents.Add(m.network, m)
	}
	found := s.matching(m.network, match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels, Labels: p.Labels})
	for sel := range m.selectors {
		if _, still := found[sel.text]; !still {
			s.leave(sel, m)
		}
	}
	for text := range found {
		sel := s.selectors[text]
		if _, had := m.selectors[sel]; !had {
			s.join(sel, m)
		}
	}
}

// exit takes a pod out of the books.
func (s *Stage) exit(key model.PodKey) {
	m := s.members[key]
	if m == nil {
		return
	}
	for sel := range m.selectors {
		s.leave(sel, m)
	}
	s.residents.Drop(m.network, m)
	delete(s.members, key)
}

// join and leave count a pod among those that a selector selects, and out of them.
func (s *Stage) join(sel *selector, m *member) {
	if len(sel.selected[m.network]) == 0 {
		s.recompileAll(sel.subjects, m.network)
	}
	sel.hold(m)
	s.GroupsChanged.Changed(m.key)
	s.recompileNamed(sel, m.network, sel.countNames(m, +1))
}

func (s *Stage) leave(sel *selector, m *member) {
	sel.drop(m)
	if len(sel.selected[m.network]) == 0 {
		s.recompileAll(sel.subjects, m.network)
	}
	s.GroupsChanged.Changed(m.key)
	s.recompileNamed(sel, m.network, sel.countNames(m, -1))
}

// hold and drop enter a pair of a selector and a pod in the books of both, and take it out of them.
func (sel *selector) hold(m *member) {
	m.selectors[sel] = struct{}{}
	sel.selected.Add(m.network, m)
}

func (sel *selector) drop(m *member) {
	delete(m.selectors, sel)
	sel.selected.Drop(m.network, m)
}

// recompileNamed has the policies compiled anew that ask for ports of the selector's pods in a Network, if these have others than before.
func (s *Stage) recompileNamed(sel *selector, network string, others bool) {
	if !others {
		return
	}
	s.recompileAll(sel.users, network)
	// Pods that may send there mean the same ports.
	for _, from := range s.world.Networks.Peers(network, model.PolicyIngress) {
		s.recompileAll(sel.users, from)
	}
}

// countNames counts a pod's ports with names that are asked for. It reports whether one of them is the first or was the last.
func (sel *selector) countNames(m *member, by int) (others bool) {
	for _, p := range m.ports {
		if !sel.asks(p) {
			continue
		}
		at := nameIn{m.network, p.Name}
		counts := sel.named[at]
		if counts == nil {
			counts = map[given]int{}
			sel.named[at] = counts
		}
		g := given{m.share, p}
		before := counts[g]
		tally(counts, g, by)
		others = others || toggled(before, counts[g])
		if len(counts) == 0 {
			delete(sel.named, at)
		}
	}
	return others
}

// recount counts the ports with names anew, when other names are asked for. Those who ask are compiled anew for it.
func (s *Stage) recount(sel *selector) {
	sel.named = map[nameIn]map[given]int{}
	for network, pods := range sel.selected {
		others := false
		for m := range pods {
			if slices.ContainsFunc(m.ports, sel.asks) {
				others = sel.countNames(m, +1) || others
				s.GroupsChanged.Changed(m.key)
			}
		}
		s.recompileNamed(sel, network, others)
	}
}
