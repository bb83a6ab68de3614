package policies

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// placement is a policy in a Network.
type placement struct {
	policy  model.PolicyKey
	network string
}

func (p placement) owner() nb.Owner { return compile.PolicyOwner(p.policy, p.network) }

// placementOf is the policy that owner is, and the Network.
func placementOf(owner nb.Owner) placement {
	return placement{model.PolicyKey{Kind: model.PolicyKind(owner.Kind), Namespace: owner.Namespace, Name: owner.Name}, owner.Part}
}

func (p placement) compare(other placement) int {
	return cmp.Or(p.policy.Compare(other.policy), strings.Compare(p.network, other.network))
}

// compiled are the rows of a policy in a Network, if it has any there.
type compiled struct {
	placement
	facts nb.Facts
	some  bool
}

// recompile marks a policy in all Networks where it has rows, recompileIn all policies with rows in a Network, and recompileAll some
// policies in a Network.
func (s *Stage) recompile(key model.PolicyKey) {
	for network := range s.policies[key].needs {
		s.unsettled.Mark(placement{key, network})
	}
}

func (s *Stage) recompileIn(network string) {
	for key, p := range s.policies {
		if p.needs[network] != nil {
			s.unsettled.Mark(placement{key, network})
		}
	}
}

func (s *Stage) recompileAll(keys map[model.PolicyKey]int, network string) {
	for key := range keys {
		s.unsettled.Mark(placement{key, network})
	}
}

// lookAround has policies compiled anew when doors have changed, or nodes that they mean.
func (s *Stage) lookAround() {
	changed := s.lookAtHosts()
	if len(s.policies) == 0 {
		return
	}
	if doors := s.clusterDoors(); !slices.EqualFunc(doors, s.doors, sameDoor) {
		s.doors = doors
		for key := range s.policies {
			s.recompile(key)
		}
		return
	}
	if len(changed) == 0 {
		return
	}
	for key := range s.asking {
		if s.policies[key].meansNodes(changed) {
			s.recompile(key)
		}
	}
}

// lookAtHosts takes in which nodes there are, and returns what those were and are that changed.
func (s *Stage) lookAtHosts() []compile.Host {
	names := maps.Clone(s.changed.Take())
	if s.moves {
		s.moves = false
		for name, host := range s.hosts {
			if !slices.Equal(host.Seen, s.world.Nodes.Seen(name)) {
				if names == nil {
					names = map[string]struct{}{}
				}
				names[name] = struct{}{}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	var changed []compile.Host
	for name := range names {
		old := s.hosts[name]
		delete(s.hosts, name)
		var host compile.Host
		if node := s.cluster.Node(name); node != nil {
			host = compile.Host{Seen: s.world.Nodes.Seen(name), Known: node.Addresses}
			s.hosts[name] = host
		}
		changed = append(changed, old, host)
	}
	s.ordered = nil
	for _, name := range slices.Sorted(maps.Keys(s.hosts)) {
		s.ordered = append(s.ordered, s.hosts[name])
	}
	return changed
}

// meansNodes reports whether rules select nodes, or have blocks that concern one of these.
func (p *policy) meansNodes(hosts []compile.Host) bool {
	return p.Policy != nil && slices.ContainsFunc(slices.Concat(p.Rules[:]...), func(r model.Rule) bool {
		return slices.ContainsFunc(r.Peers, func(peer model.Peer) bool {
			return peer.Nodes != nil || peer.Block != nil && slices.ContainsFunc(hosts, func(h compile.Host) bool { return h.Concerns(*peer.Block) })
		})
	})
}

// compileUnsettled compiles the policies that are to be looked at.
func (s *Stage) compileUnsettled() {
	work := slices.SortedFunc(maps.Keys(s.unsettled.Take()), placement.compare)
	for _, at := range work {
		s.watchFor(at)
	}
	for _, at := range work {
		if p := s.policies[at.policy]; p != nil {
			facts, some := s.compile(p, at.network)
			s.compiled = append(s.compiled, compiled{at, facts, some})
		}
	}
}

// hasRows reports whether a policy has rows in a Network: while it selects a pod there.
func (s *Stage) hasRows(p *policy, network string) bool {
	n, _ := s.world.Networks.Served(network)
	return p.Policy != nil && n != nil && len(s.selectors[p.Subject.String()].selected[network]) > 0
}

// compile gives a policy's rows in a Network, if it has any there, and takes the port groups that they need.
func (s *Stage) compile(p *policy, network string) (nb.Facts, bool) {
	if !s.hasRows(p, network) {
		return nb.Facts{}, false
	}
	n, layout := s.world.Networks.Served(network)
	need := p.needs[network]
	around := s.around(p.Policy, n, layout)
	s.tellBeyond(p.Policy, need, around)
	need.wanted = map[groupKey]struct{}{}
	for g, members := range compile.Groups(*p.Policy, around) {
		key := groupKey{network, n.UID, g}
		need.wanted[key] = struct{}{}
		if _, had := need.held[key]; !had {
			need.held[key] = struct{}{}
			s.acquire(key, members, layout, p.Key.Namespace)
		}
		if g == compile.JudgedGroup() {
			// It depends on the Network's IP families.
			s.graph.Set(compile.GroupOwner(layout, g), compile.PortGroup(layout, g))
		}
	}
	return compile.Policy(*p.Policy, around), true
}

// tellBeyond tells a policy's owner when some of it begins to be beyond a bound in a Network.
func (s *Stage) tellBeyond(p *model.Policy, need *needs, around compile.Around) {
	problems := compile.Beyond(*p, around)
	if !need.beyond {
		for _, problem := range problems {
			s.world.Sink.Event(p.Ref(), problem)
		}
	}
	need.beyond = len(problems) > 0
}

// around is what a policy meets in a Network.
func (s *Stage) around(p *model.Policy, n *model.Network, layout compile.Layout) compile.Around {
	out := compile.Around{
		Layout: layout, Nodes: map[string][]netip.Addr{}, Hosts: s.ordered,
		Named: map[compile.NamedPorts][]compile.Given{}, RemoteNamed: map[compile.NamedPorts][]compile.Given{},
	}
	for d := range out.Remote {
		out.Remote[d] = len(s.world.Networks.Peers(n.Name, model.Direction(d))) > 0
	}
	// Pods to which the Network's may send mean ports by name, too.
	here, there := []string{n.Name}, s.world.Networks.Peers(n.Name, model.PolicyEgress)
	for ask := range compile.Names(*p) {
		sel := s.selectors[ask.Pods]
		out.Named[ask], out.RemoteNamed[ask] = sel.portsOf(here, ask), sel.portsOf(there, ask)
	}
	for _, r := range p.Rules[model.PolicyEgress] {
		for _, peer := range r.Peers {
			if peer.Nodes != nil {
				out.Nodes[peer.Nodes.String()] = s.cluster.NodeAddresses(*peer.Nodes)
			}
		}
	}
	out.Doors = s.doorsOf(n)
	if layout.Faces {
		out.Faces = s.cluster.Faces
	}
	return out
}

// Write writes what was compiled: what is there before what goes.
func (s *Stage) Write() {
	work := s.compiled
	s.compiled = nil
	for _, some := range []bool{true, false} {
		for _, w := range work {
			p := s.policies[w.policy]
			if w.some != some || p == nil || p.needs[w.network] == nil {
				continue
			}
			need := p.needs[w.network]
			var changed bool
			if some {
				changed = s.graph.Set(w.owner(), w.facts)
			} else {
				changed = s.graph.Delete(w.owner())
			}
			if need.written = need.written && !changed; need.written {
				s.releaseUnneeded(w.placement)
			}
		}
	}
}

// Committed says that the database holds a policy's rows in a Network as the graph wanted them.
func (s *Stage) Committed(owner nb.Owner) {
	at := placementOf(owner)
	p := s.policies[at.policy]
	if p == nil || p.needs[at.network] == nil || s.graph.Busy(owner) {
		return
	}
	p.needs[at.network].written = true
	s.releaseUnneeded(at)
}

// Connected says that what the database holds is compared anew as a whole: nobody will say of a policy that has gone that the database
// has lost its rows.
func (s *Stage) Connected() {
	for key, p := range s.policies {
		for network := range p.needs {
			owner := compile.PolicyOwner(key, network)
			if _, there := s.graph.Facts(owner); !there {
				s.Committed(owner)
			}
		}
	}
}

// releaseUnneeded gives back port groups that a policy needs no more, and then the pods in them, since no row of it in the database does.
func (s *Stage) releaseUnneeded(at placement) {
	p := s.policies[at.policy]
	need := p.needs[at.network]
	for key := range need.held {
		if _, wanted := need.wanted[key]; !wanted {
			delete(need.held, key)
			s.release(key, at.policy.Namespace)
		}
	}
	for w := range need.watched {
		if _, wanted := need.watches[w]; !wanted {
			delete(need.watched, w)
			s.unwatch(w)
		}
	}
	if len(need.held) == 0 {
		delete(p.needs, at.network)
		if p.Policy == nil && len(p.needs) == 0 {
			delete(s.policies, at.policy)
		}
	}
}
