package policies

import (
	"slices"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
)

// selector is a selector that policies use, stored once, and the pods with ports that it selects, by Network.
type selector struct {
	text string
	pods match.Pods
	// group is the port group of its pods.
	group compile.Group
	// users mention the selector; subjects are the users that it is the subject of. Both are counted: a policy that changes
	// counts twice for a moment.
	users, subjects map[model.PolicyKey]int
	// groups counts the port groups that are made of it.
	groups int
	// isolates counts the subjects that isolate in each direction, judges those that decide anything.
	isolates [2]int
	judges   int
	// asked counts the users that ask for ports of a name.
	asked map[compile.NamedPorts]int
	// selected are the pods.
	selected map[string]map[model.PodKey]struct{}
	// named counts the pods with a port that is asked for.
	named map[nameIn]map[model.PodPort]int
}

// nameIn is a name of ports in a Network.
type nameIn struct{ network, name string }

// member is what a pod with a port counts for: where, and with which ports, by the texts of selectors.
type member struct {
	network   string
	selectors map[string]struct{}
	ports     []model.PodPort
}

// asks reports whether somebody asks for a port of the selector's pods.
func (sel *selector) asks(p model.PodPort) bool {
	return sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name, Protocol: p.Protocol}] > 0 ||
		sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name}] > 0
}

// portsOf are the ports with a name of the selector's pods in a Network, each once, in order.
func (sel *selector) portsOf(network string, ask compile.NamedPorts) []model.PodPort {
	var out []model.PodPort
	for p := range sel.named[nameIn{network, ask.Name}] {
		if ask.Protocol == "" || ask.Protocol == p.Protocol {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, model.PodPort.Compare)
	return out
}

// selector finds the selector with those requirements, or makes it and finds its pods.
func (s *Stage) selector(pods match.Pods) *selector {
	text := pods.String()
	if sel := s.selectors[text]; sel != nil {
		return sel
	}
	sel := &selector{
		text: text, pods: pods, group: compile.PodsGroup(pods), users: map[model.PolicyKey]int{}, subjects: map[model.PolicyKey]int{},
		asked: map[compile.NamedPorts]int{}, selected: map[string]map[model.PodKey]struct{}{}, named: map[nameIn]map[model.PodPort]int{},
	}
	s.selectors[text] = sel
	s.index.Add(pods)
	for name, keys := range s.cluster.PodsIn {
		ns := s.cluster.Namespaces[name]
		if ns == nil || !pods.Holds(name, ns.Labels) {
			continue
		}
		for key := range keys {
			if m := s.members[key]; m != nil && pods.Labels.Matches(s.world.Pods.Pod(key).Labels) {
				s.join(sel, key, m)
			}
		}
	}
	return sel
}

// forgetUnused forgets a selector that no policy mentions any more, and no port group is made of.
func (s *Stage) forgetUnused(text string) {
	sel := s.selectors[text]
	if sel == nil || len(sel.users) > 0 || sel.groups > 0 {
		return
	}
	for _, keys := range sel.selected {
		for key := range keys {
			delete(s.members[key].selectors, text)
		}
	}
	s.index.Remove(sel.pods)
	delete(s.selectors, text)
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
	if m != nil && (m.network != a.Network || !slices.Equal(m.ports, p.Ports)) {
		s.exit(key)
		m = nil
	}
	if m == nil {
		m = &member{network: a.Network, selectors: map[string]struct{}{}, ports: p.Ports}
		s.members[key] = m
	}
	found := s.index.Matching(match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels, Labels: p.Labels})
	for text := range m.selectors {
		if _, still := found[text]; !still {
			s.leave(s.selectors[text], key, m)
		}
	}
	for text := range found {
		if _, had := m.selectors[text]; !had {
			s.join(s.selectors[text], key, m)
		}
	}
}

// exit takes a pod out of the books.
func (s *Stage) exit(key model.PodKey) {
	m := s.members[key]
	if m == nil {
		return
	}
	for text := range m.selectors {
		s.leave(s.selectors[text], key, m)
	}
	delete(s.members, key)
}

// join and leave count a pod among those that a selector selects, and out of them.
func (s *Stage) join(sel *selector, key model.PodKey, m *member) {
	m.selectors[sel.text] = struct{}{}
	s.GroupsChanged.Changed(key)
	pods := sel.selected[m.network]
	if pods == nil {
		pods = map[model.PodKey]struct{}{}
		sel.selected[m.network] = pods
		s.recompileAll(sel.subjects, m.network)
	}
	pods[key] = struct{}{}
	s.countNames(sel, m, +1)
}

func (s *Stage) leave(sel *selector, key model.PodKey, m *member) {
	delete(m.selectors, sel.text)
	s.GroupsChanged.Changed(key)
	pods := sel.selected[m.network]
	if delete(pods, key); len(pods) == 0 {
		delete(sel.selected, m.network)
		s.recompileAll(sel.subjects, m.network)
	}
	s.countNames(sel, m, -1)
}

// countNames counts a pod's ports with names; the first one and the last concern the policies that ask for it.
func (s *Stage) countNames(sel *selector, m *member, by int) {
	for _, p := range m.ports {
		if !sel.asks(p) {
			continue
		}
		at := nameIn{m.network, p.Name}
		counts := sel.named[at]
		if counts == nil {
			counts = map[model.PodPort]int{}
			sel.named[at] = counts
		}
		before := counts[p]
		tally(counts, p, by)
		if toggled(before, counts[p]) {
			s.recompileAll(sel.users, m.network)
			// Pods that may send there mean the same ports.
			for _, network := range s.world.Networks.Peers(m.network, model.PolicyIngress) {
				s.recompileAll(sel.users, network)
			}
		}
		if len(counts) == 0 {
			delete(sel.named, at)
		}
	}
}

// recount counts the ports with names anew, when other names are asked for.
func (s *Stage) recount(sel *selector) {
	sel.named = map[nameIn]map[model.PodPort]int{}
	for _, keys := range sel.selected {
		for key := range keys {
			if m := s.members[key]; slices.ContainsFunc(m.ports, sel.asks) {
				s.countNames(sel, m, +1)
				s.GroupsChanged.Changed(key)
			}
		}
	}
}
