package controller

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// police compiles policies that changed, or whose pods did, and gives pods their places in port groups.
//
// At no moment may a packet pass that both the old policies and the new ones forbid. So a port group comes with all its
// ports, before the ACLs that need it; and it goes, and ports go from it, after the ACLs have been committed that need it no
// more.
func (s *State) police() {
	s.lookAround()
	type compiled struct {
		at    policyIn
		facts nb.Facts
		there bool
	}
	var work []compiled
	for _, at := range slices.SortedFunc(maps.Keys(s.policies.dirty), comparePolicyIn) {
		p := s.policies.byKey[at.key]
		if p == nil {
			continue
		}
		facts, there := s.compilePolicy(p, at.network)
		work = append(work, compiled{at, facts, there})
	}
	clear(s.policies.dirty)
	s.givePlaces()
	// What is there comes before what goes.
	slices.SortStableFunc(work, func(a, b compiled) int { return b2i(b.there) - b2i(a.there) })
	for _, w := range work {
		in := s.policies.byKey[w.at.key].in[w.at.network]
		if in == nil {
			continue
		}
		owner := nb.PolicyOwner(w.at.key.String(), w.at.network)
		var changed bool
		if w.there {
			changed = s.graph.Set(owner, w.facts)
		} else {
			changed = s.graph.Delete(owner)
		}
		if in.written = in.written && !changed; in.written {
			s.letGo(w.at)
		}
	}
	s.givePlaces()
}

// compilePolicy gives a policy's rows in a Network, and takes the port groups that they need. Without a pod that it selects
// there it has none.
func (s *State) compilePolicy(p *policy, network string) (nb.Facts, bool) {
	n := s.networks[network]
	in := p.in[network]
	if p.Policy == nil || !n.serves() || len(s.policies.selectors[p.Subject.String()].in[network]) == 0 {
		if in != nil {
			in.wanted = nil
		}
		return nb.Facts{}, false
	}
	if in == nil {
		in = &needs{held: map[groupIn]struct{}{}, written: true}
		p.in[network] = in
	}
	around := s.around(p.Policy, n)
	in.wanted = map[groupIn]struct{}{}
	for g, of := range compile.Groups(*p.Policy, around) {
		at := groupIn{network, n.model.UID, g}
		in.wanted[at] = struct{}{}
		if _, had := in.held[at]; !had {
			in.held[at] = struct{}{}
			s.need(at, of, n.layout)
		}
		if g == compile.JudgedGroup() {
			// It depends on the Network's IP families.
			s.graph.Set(compile.GroupOwner(n.layout, g), compile.PortGroup(n.layout, g))
		}
	}
	return compile.Policy(*p.Policy, around), true
}

// need takes a port group; the first one who needs it has it made.
func (s *State) need(at groupIn, of compile.Members, l compile.Layout) {
	g := s.policies.groups[at]
	if g == nil {
		g = &group{layout: l, row: compile.GroupRef(l, at.group), of: of}
		s.policies.groups[at] = g
		s.graph.Set(compile.GroupOwner(l, at.group), compile.PortGroup(l, at.group))
		if sel := s.policies.selectors[of.Selector]; sel != nil {
			sel.groups++
		} else {
			s.policies.blocksOf(at.uid).add(of.Block)
		}
		s.move(at, of)
		s.admitNodes(at)
	}
	g.users++
}

// move has the ports in a group written down anew, which comes or goes.
func (s *State) move(at groupIn, of compile.Members) {
	if sel := s.policies.selectors[of.Selector]; sel != nil {
		maps.Copy(s.policies.pods, sel.in[at.network])
		return
	}
	n := s.networks[at.network]
	if n == nil {
		return
	}
	for key := range n.attached {
		if p := s.pods[key]; p != nil && p.plugged && of.Block.Means(knownBy(*p.attachment)) {
			s.policies.pods[key] = struct{}{}
		}
	}
}

// admitNodes has the nodes' rows written anew when pods of the default Network begin to be judged, or end.
func (s *State) admitNodes(at groupIn) {
	home := s.networks[s.defaults.Network]
	if !home.serves() || at.network != s.defaults.Network && !s.hangs(s.networks[at.network]) || at.group != compile.JudgedGroup() {
		return
	}
	for _, n := range s.nodes {
		if n.model != nil && len(n.addresses) > 0 {
			s.nodeRows(home, n)
		}
	}
}

// letGo lets go of port groups that a policy needs no more, once no row of it in the database does.
func (s *State) letGo(at policyIn) {
	p := s.policies.byKey[at.key]
	in := p.in[at.network]
	for g := range in.held {
		if _, wanted := in.wanted[g]; !wanted {
			delete(in.held, g)
			s.giveBack(g)
		}
	}
	if len(in.held) == 0 {
		delete(p.in, at.network)
		if p.Policy == nil && len(p.in) == 0 {
			delete(s.policies.byKey, at.key)
		}
	}
}

// giveBack gives a port group back; the last one who needed it has it removed.
func (s *State) giveBack(at groupIn) {
	g := s.policies.groups[at]
	if g.users--; g.users > 0 {
		return
	}
	delete(s.policies.groups, at)
	s.graph.Delete(compile.GroupOwner(g.layout, at.group))
	s.admitNodes(at)
	s.move(at, g.of)
	if sel := s.policies.selectors[g.of.Selector]; sel != nil {
		sel.groups--
		s.unused(g.of.Selector)
		return
	}
	if blocks := s.policies.blocksOf(at.uid); blocks.remove(g.of.Block) {
		delete(s.policies.blocks, at.uid)
	}
}

// givePlaces writes down the ports of pods whose places may have changed.
func (s *State) givePlaces() {
	for key := range s.policies.pods {
		p := s.pods[key]
		if p == nil || !p.plugged {
			continue
		}
		n := s.networks[p.network]
		facts := compile.Pod(n.layout, *p.Pod, *p.attachment, s.mostConnections(p, n))
		for _, g := range s.groupsOf(key, n) {
			facts.Members = append(facts.Members, compile.GroupPlace(g, facts.Rows[0].ID()))
		}
		facts.Members = append(facts.Members, s.guardPlaces(p, n, facts.Rows[0].ID())...)
		s.graph.Set(nb.PodOwner(key.Namespace, key.Name), facts)
	}
	clear(s.policies.pods)
}

// policyWritten says that the database holds a policy's rows in a Network as the graph wants them.
func (s *State) policyWritten(at policyIn) {
	p := s.policies.byKey[at.key]
	if p == nil || p.in[at.network] == nil || s.graph.Busy(nb.PolicyOwner(at.key.String(), at.network)) {
		return
	}
	p.in[at.network].written = true
	s.letGo(at)
	s.givePlaces()
}

// Connected says that what the database holds is compared anew as a whole: nobody will say of a policy that has gone that
// the database has lost its rows.
func (s *State) Connected() {
	for key, p := range s.policies.byKey {
		for network := range p.in {
			owner := nb.PolicyOwner(key.String(), network)
			if _, there := s.graph.Facts(owner); !there {
				s.policyWritten(policyIn{key, network})
			}
		}
	}
}

// rearrange has the policies of a Network compiled anew.
func (s *policies) rearrange(network string) {
	for key, p := range s.byKey {
		if p.in[network] != nil {
			s.dirty[policyIn{key, network}] = struct{}{}
		}
	}
}

// lookAround has policies compiled anew when doors have changed, or nodes and the policies ask for these.
func (s *State) lookAround() {
	concerned := map[model.PolicyKey]struct{}{}
	if s.policies.nodesMoved {
		concerned = s.policies.asking
	}
	s.policies.nodesMoved = false
	if len(s.policies.byKey) == 0 {
		return
	}
	if doors := s.clusterDoors(); !slices.EqualFunc(doors, s.policies.doors, sameDoor) {
		s.policies.doors = doors
		for key, p := range s.policies.byKey {
			s.policies.recompile(key, p)
		}
		return
	}
	for key := range concerned {
		s.policies.recompile(key, s.policies.byKey[key])
	}
}

func (s *policies) recompile(key model.PolicyKey, p *policy) {
	for network := range p.in {
		s.dirty[policyIn{key, network}] = struct{}{}
	}
}

// around is what a policy meets in a Network.
func (s *State) around(p *model.Policy, n *network) compile.Around {
	out := compile.Around{Layout: n.layout, Named: map[compile.NamedPorts][]model.PodPort{}, Nodes: map[string][]netip.Addr{}}
	for ask, pods := range compile.Names(*p) {
		out.Named[ask] = s.policies.selectors[pods.String()].portsOf(n.name, ask)
	}
	for _, r := range p.Rules[model.PolicyEgress] {
		for _, peer := range r.Peers {
			if peer.Nodes != nil {
				out.Nodes[peer.Nodes.String()] = s.addressesOfNodes(*peer.Nodes)
			}
		}
	}
	out.Doors = s.doorsOf(n)
	if n.layout.Faces {
		out.Faces = s.defaults.Faces
	}
	return out
}

// addressesOfNodes are those of the nodes that a selector selects, in order.
func (s *State) addressesOfNodes(of match.Selector) []netip.Addr {
	var out []netip.Addr
	for _, n := range s.nodes {
		if n.model != nil && of.Matches(n.model.Labels) {
			out = append(out, n.model.Addresses...)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

func comparePolicyIn(a, b policyIn) int {
	return cmp.Or(a.key.Compare(b.key), strings.Compare(a.network, b.network))
}
