package controller

import (
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
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
	// in are the pods.
	in map[string]map[model.PodKey]struct{}
	// named counts the pods with a port that is asked for.
	named map[string]map[model.PodPort]int
}

// selected is what a pod with a port counts for: where, and with which ports, by the texts of selectors.
type selected struct {
	network string
	by      map[string]struct{}
	ports   []model.PodPort
}

// asks reports whether somebody asks for a port of the selector's pods.
func (sel *selector) asks(p model.PodPort) bool {
	return sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name, Protocol: p.Protocol}] > 0 ||
		sel.asked[compile.NamedPorts{Pods: sel.text, Name: p.Name}] > 0
}

// portsOf are the ports with a name of the selector's pods in a Network, each once, in order.
func (sel *selector) portsOf(network string, ask compile.NamedPorts) []model.PodPort {
	var out []model.PodPort
	for p := range sel.named[network] {
		if p.Name == ask.Name && (ask.Protocol == "" || ask.Protocol == p.Protocol) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, model.PodPort.Compare)
	return out
}

// selector finds the selector with those requirements, or makes it and finds its pods.
func (s *State) selector(pods match.Pods) *selector {
	text := pods.String()
	if sel := s.policies.selectors[text]; sel != nil {
		return sel
	}
	sel := &selector{
		text: text, pods: pods, group: compile.PodsGroup(pods), users: map[model.PolicyKey]int{}, subjects: map[model.PolicyKey]int{},
		asked: map[compile.NamedPorts]int{}, in: map[string]map[model.PodKey]struct{}{}, named: map[string]map[model.PodPort]int{},
	}
	s.policies.selectors[text] = sel
	s.policies.index.Add(pods)
	for name, keys := range s.byNamespace {
		ns := s.namespaces[name]
		if ns == nil || !pods.Holds(name, ns.Labels) {
			continue
		}
		for key := range keys {
			if of := s.policies.of[key]; of != nil && pods.Labels.Matches(s.pods[key].Labels) {
				s.join(sel, key, of)
			}
		}
	}
	return sel
}

// unused forgets a selector that no policy mentions any more, and no port group is made of.
func (s *State) unused(text string) {
	sel := s.policies.selectors[text]
	if sel == nil || len(sel.users) > 0 || sel.groups > 0 {
		return
	}
	for _, keys := range sel.in {
		for key := range keys {
			delete(s.policies.of[key].by, text)
		}
	}
	s.policies.index.Remove(sel.pods)
	delete(s.policies.selectors, text)
}

// enter takes a pod that has its port into the books of the selectors that select it, or brings them up to date.
func (s *State) enter(p *pod, ns *model.Namespace) {
	s.policies.pods[p.Key] = struct{}{}
	found := s.policies.index.Matching(match.Target{Namespace: ns.Name, NamespaceLabels: ns.Labels, Labels: p.Labels})
	of := s.policies.of[p.Key]
	if of != nil && (of.network != p.network || !slices.Equal(of.ports, p.Ports)) {
		s.exit(p.Key)
		of = nil
	}
	if of == nil {
		of = &selected{network: p.network, by: map[string]struct{}{}, ports: p.Ports}
		s.policies.of[p.Key] = of
	}
	for text := range of.by {
		if _, still := found[text]; !still {
			s.part(s.policies.selectors[text], p.Key, of)
		}
	}
	for text := range found {
		if _, had := of.by[text]; !had {
			s.join(s.policies.selectors[text], p.Key, of)
		}
	}
}

// exit takes a pod that has lost its port out of the books.
func (s *State) exit(key model.PodKey) {
	of := s.policies.of[key]
	if of == nil {
		return
	}
	for text := range of.by {
		s.part(s.policies.selectors[text], key, of)
	}
	delete(s.policies.of, key)
}

func (s *State) join(sel *selector, key model.PodKey, of *selected) {
	of.by[sel.text] = struct{}{}
	s.policies.pods[key] = struct{}{}
	if add(sel.in, of.network, key); len(sel.in[of.network]) == 1 {
		s.policies.touch(sel.subjects, of.network)
	}
	for _, p := range of.ports {
		if sel.asks(p) {
			s.policies.name(sel, of.network, p, +1)
		}
	}
}

func (s *State) part(sel *selector, key model.PodKey, of *selected) {
	delete(of.by, sel.text)
	s.policies.pods[key] = struct{}{}
	if drop(sel.in, of.network, key); len(sel.in[of.network]) == 0 {
		s.policies.touch(sel.subjects, of.network)
	}
	for _, p := range of.ports {
		if sel.asks(p) {
			s.policies.name(sel, of.network, p, -1)
		}
	}
}

// name counts a port with a name; the first one and the last concern the policies that ask for it.
func (s *policies) name(sel *selector, network string, p model.PodPort, by int) {
	counts := sel.named[network]
	if counts == nil {
		counts = map[model.PodPort]int{}
		sel.named[network] = counts
	}
	before := counts[p]
	counts[p] += by
	if counts[p] == 0 {
		delete(counts, p)
	}
	if before == 0 || counts[p] == 0 {
		s.touch(sel.users, network)
	}
	if len(counts) == 0 {
		delete(sel.named, network)
	}
}

// recount counts the ports with names anew, when other names are asked for.
func (s *State) recount(sel *selector) {
	sel.named = map[string]map[model.PodPort]int{}
	for network, keys := range sel.in {
		for key := range keys {
			for _, p := range s.policies.of[key].ports {
				if sel.asks(p) {
					s.policies.name(sel, network, p, +1)
					s.policies.pods[key] = struct{}{}
				}
			}
		}
	}
}

// touch marks policies to be compiled in a Network.
func (s *policies) touch(keys map[model.PolicyKey]int, network string) {
	for key := range keys {
		s.dirty[policyIn{key, network}] = struct{}{}
	}
}

// groupsOf are the port groups that a pod's port is in, in the order of their UUIDs: of those that policies need in its
// Network.
func (s *State) groupsOf(key model.PodKey, n *network) []nb.Ref {
	of := s.policies.of[key]
	if of == nil {
		return nil
	}
	groups := map[nb.Ref]struct{}{}
	enter := func(at compile.Group) {
		if g := s.policies.groups[groupIn{n.name, n.model.UID, at}]; g != nil {
			groups[g.row] = struct{}{}
		}
	}
	for text := range of.by {
		sel := s.policies.selectors[text]
		enter(sel.group)
		for _, p := range of.ports {
			enter(compile.NamedGroup(sel.pods, p))
		}
		for _, d := range []model.Direction{model.PolicyIngress, model.PolicyEgress} {
			if sel.isolates[d] > 0 {
				enter(compile.IsolatedGroup(d))
			}
		}
		if sel.judges > 0 {
			enter(compile.JudgedGroup())
		}
	}
	if of := s.policies.blocks[n.model.UID]; of != nil {
		for _, b := range of.meaning(knownBy(*s.pods[key].attachment)) {
			enter(compile.BlockGroup(b))
		}
	}
	return slices.SortedFunc(maps.Keys(groups), func(a, b nb.Ref) int { return strings.Compare(a.UUID, b.UUID) })
}
