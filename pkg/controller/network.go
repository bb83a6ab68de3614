package controller

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/alloc"
	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// network is a Network, what it serves and who is in it. Pods may name one that does not exist: then model is
// nil and they are all refused.
type network struct {
	name string
	// standard: it is the cluster's default one.
	standard bool
	model    *model.Network
	layout   compile.Layout
	problems []model.Problem
	// leaving are its subnets that are not listed any more and still served, and why.
	leaving []model.Problem
	// conflicts are its ranges that overlap the infrastructure's.
	conflicts []string
	// home is the default Network, on whose router the subnets of a flat one hang; nil of any other.
	home *network
	// pools hold the addresses of each range of each subnet of the layout.
	pools map[string][]*alloc.Pool
	// vips are the virtual addresses of the Network's own; rangeProblems say why service ranges are not served.
	vips          vips
	rangeProblems []model.Problem
	// gates are the addresses of its Gateways that come from the controller's ranges; nil until one wants some.
	gates *alloc.Ranges
	// attached pods hold addresses.
	attached map[model.PodKey]struct{}
	// failing pods have no port, and why; of them, the waiting ones need an address that others hold.
	failing map[model.PodKey]model.Problem
	waiting map[model.PodKey]struct{}
	// strangers named the Network, which does not exist or does not admit them: they are looked at again when it changes,
	// and are nothing to it otherwise.
	strangers map[model.PodKey]struct{}
	// placed: the graph has its rows as the layout says.
	placed bool
	// written: its rows are in the database; denied: why the database refused them.
	written bool
	denied  *model.Problem
	// changed: the database does not have all its rows as they are wanted now. observed is the generation with which it had.
	changed  bool
	observed int64
	// seen is the state that views were last compared with.
	seen string
	// deniedPods: why the database refused the rows of pods.
	deniedPods map[model.PodKey]model.Problem
}

func (s *State) network(name string) *network {
	n := s.networks[name]
	if n == nil {
		n = &network{
			name:       name,
			standard:   name == s.defaults.Network,
			attached:   map[model.PodKey]struct{}{},
			failing:    map[model.PodKey]model.Problem{},
			waiting:    map[model.PodKey]struct{}{},
			strangers:  map[model.PodKey]struct{}{},
			deniedPods: map[model.PodKey]model.Problem{},
			vips:       newVIPs("", nil),
		}
		s.networks[name] = n
	}
	return n
}

// applyNetworks takes Networks in and marks the pods that they decide about. A Network's fate may hang on
// another's when both claim a vpcID.
func (s *State) applyNetworks(changed map[string]*model.Network, dirty map[model.PodKey]struct{}) {
	replan := map[string]struct{}{}
	if len(changed) > 0 {
		clear(s.admitting)
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		n, m := s.network(name), changed[name]
		for _, vpc := range []string{vpcOf(n.model), vpcOf(m)} {
			if vpc != "" {
				maps.Copy(replan, s.byVPC[vpc])
			}
		}
		if vpc := vpcOf(n.model); vpc != "" {
			drop(s.byVPC, vpc, name)
		}
		if vpc := vpcOf(m); vpc != "" {
			add(s.byVPC, vpc, name)
		}
		if n.model != nil && n.model.DNS == model.DNSService {
			drop(s.answered, model.ServiceKey(n.model.DNSService), name)
		}
		if m != nil && m.DNS == model.DNSService {
			add(s.answered, model.ServiceKey(m.DNSService), name)
		}
		if n.model != nil && (m == nil || n.model.UID != m.UID) {
			// What pods have of it is nothing to the next one of its name.
			n.written, n.observed, n.pools, n.gates = false, 0, nil, nil
			maps.Copy(dirty, n.attached)
			clear(n.attached)
		}
		n.model = m
		s.touchViewers(n)
		replan[name] = struct{}{}
	}
	for _, name := range slices.Sorted(maps.Keys(replan)) {
		s.replan(s.network(name), dirty)
	}
}

func vpcOf(m *model.Network) string {
	if m == nil {
		return ""
	}
	return m.VPCID
}

// replan compiles a Network anew and marks its pods.
func (s *State) replan(n *network, dirty map[model.PodKey]struct{}) {
	s.touched[n.name], s.replanned[n.name], s.vips.networks[n.name] = struct{}{}, struct{}{}, struct{}{}
	n.placed = false
	s.noteFlat(n)
	s.services.touchNetwork(n.name)
	s.gateways.touch(concern{what: aboutNetwork, name: n.name})
	s.policies.rearrange(n.name)
	if n.model != nil && n.model.DNS == model.DNSService {
		s.services.dirty[model.ServiceKey(n.model.DNSService)] = struct{}{}
	}
	maps.Copy(dirty, n.attached)
	maps.Copy(dirty, n.strangers)
	for key := range n.failing {
		dirty[key] = struct{}{}
	}
	if n.model == nil {
		n.layout, n.problems, n.leaving, n.pools, n.gates, n.denied = compile.Layout{}, nil, nil, nil, nil, nil
		return
	}
	if !n.model.Finalized && !n.model.Deleting {
		s.sink.WriteFinalizer(n.name, n.model.UID, true)
	}
	if s.hangs(n) {
		// planFlats decides about all of them.
		return
	}
	old := n.layout
	n.layout, n.problems = compile.Plan(*n.model, s.defaults.cluster())
	s.noteFormer(n)
	n.layout.Faces = !s.faceless(n)
	n.layout.Through = s.through(n)
	if first := s.firstWith(n.model.VPCID); first != "" && first != n.name {
		n.layout.Subnets = nil
		n.problems = append(n.problems, model.Problem{
			Reason: model.ReasonVPCIDInUse,
			Message: fmt.Sprintf("vpcID %q belongs to Network %q, which is older; nothing of this Network is served: give it a vpcID of its own or none",
				n.model.VPCID, first),
		})
	}
	s.planned(n, old)
}

// planned says what is wrong with a Network, and brings its pools in line with what it serves.
func (s *State) planned(n *network, old compile.Layout) {
	for _, p := range n.problems {
		s.sink.NetworkEvent(n.name, n.model.UID, p)
	}
	if n.pools == nil || !reflect.DeepEqual(old.Subnets, n.layout.Subnets) {
		n.pools, n.gates = poolsOf(n.layout), nil
		if n.name == s.defaults.Network {
			s.rehold(n)
		}
	}
}

// firstWith is the Network that a vpcID belongs to: the oldest that claims it.
func (s *State) firstWith(vpc string) string {
	var first *model.Network
	for name := range s.byVPC[vpc] {
		m := s.networks[name].model
		if first == nil || m.Created.Before(first.Created) || (m.Created.Equal(first.Created) && m.Name < first.Name) {
			first = m
		}
	}
	if first == nil {
		return ""
	}
	return first.Name
}

func poolsOf(l compile.Layout) map[string][]*alloc.Pool {
	pools := map[string][]*alloc.Pool{}
	for _, s := range l.Subnets {
		for _, r := range s.Ranges {
			// Plan has refused what no pool can serve.
			if p, err := alloc.New(r.CIDR, r.Given()); err == nil {
				pools[s.Name] = append(pools[s.Name], p)
			}
		}
	}
	return pools
}

// place gives each Network that was touched its rows, or takes them: a Network that was deleted has them until
// its last pod has gone. Names that nothing refers to any more are forgotten.
func (s *State) place() {
	for name := range s.touched {
		n := s.networks[name]
		if n == nil {
			continue
		}
		owner := nb.NetworkOwner(name)
		if n.serves() {
			// Most that happens to a Network is a pod that comes or goes, which changes none of its own rows.
			if !n.placed {
				s.placeNetwork(n)
			}
			continue
		}
		n.placed = false
		s.services.touchNetwork(name)
		s.gateways.touch(concern{what: aboutNetwork, name: name})
		s.policies.rearrange(name)
		_, had := s.graph.Facts(owner)
		s.graph.Delete(owner)
		switch {
		case n.model == nil && n.empty():
			delete(s.networks, name)
		case n.mayGo() && !had:
			// With rows, Committed lets it go once they have left the database.
			s.release(n)
		}
	}
}

// placeNetwork gives a Network its rows.
func (s *State) placeNetwork(n *network) {
	facts := compile.Network(n.layout)
	if s.guard.of != nil && (s.guards(n) || n.layout.Home != nil) {
		facts.Add(compile.WayPlaces(n.layout))
		if len(s.flats.ranges) > 0 {
			facts.Add(compile.Apart(n.layout))
		}
	}
	owner := nb.NetworkOwner(n.name)
	n.placed, n.changed = true, s.graph.Set(owner, facts) || n.changed
	if n.written && !n.changed {
		n.observed = n.model.Generation
	}
}

// empty reports whether no pod names the Network.
func (n *network) empty() bool { return len(n.attached)+len(n.failing)+len(n.strangers) == 0 }

// mayGo reports whether the Network is being deleted, and no pod has addresses of it any more.
func (n *network) mayGo() bool { return n.model != nil && n.model.Deleting && len(n.attached) == 0 }

// release lets a deleted Network go: nothing of it is in the database any more.
func (s *State) release(n *network) {
	if n.model.Finalized {
		s.sink.WriteFinalizer(n.name, n.model.UID, false)
	}
}

// Committed says that the database now holds what the graph wanted for owner. If it wants something else since, more follows.
func (s *State) Committed(owner nb.Owner) {
	if key, ok := podOf(owner); ok {
		s.accepted(key)
		return
	}
	if key, ok := gatewayOf(owner); ok {
		s.gatewayCommitted(key)
		return
	}
	if at, ok := policyOf(owner); ok {
		s.policyWritten(at)
		return
	}
	name, ok := networkOf(owner)
	if !ok || s.networks[name] == nil || s.networks[name].model == nil || s.graph.Busy(owner) {
		return
	}
	n := s.networks[name]
	_, wanted := s.graph.Facts(owner)
	if !wanted && n.mayGo() {
		s.release(n)
	}
	n.changed = false
	if n.written == wanted && n.denied == nil && n.observed == n.model.Generation {
		return
	}
	n.written, n.denied, n.observed = wanted, nil, n.model.Generation
	s.touched[name] = struct{}{}
	s.report()
}

// accepted says that the database has the rows of a pod as they are wanted.
func (s *State) accepted(key model.PodKey) {
	p := s.pods[key]
	if p == nil || s.networks[p.network] == nil {
		return
	}
	n := s.networks[p.network]
	delete(s.knowledge.unwritten, key)
	if _, was := n.deniedPods[key]; was {
		delete(n.deniedPods, key)
		s.touched[n.name] = struct{}{}
		s.report()
	}
}

// Refused says that the database does not accept what the graph wants for owner.
func (s *State) Refused(owner nb.Owner, why string) {
	problem := model.Problem{Reason: model.ReasonDatabaseRefused, Message: "OVN's northbound database refused it: " + why}
	if name, ok := networkOf(owner); ok {
		if n := s.networks[name]; n != nil && n.model != nil {
			n.denied = &problem
			s.sink.NetworkEvent(name, n.model.UID, problem)
			s.touched[name] = struct{}{}
		}
	}
	if name, ok := nodeOf(owner); ok {
		if n := s.nodes[name]; n != nil && n.model != nil {
			s.nodeProblem(n, problem)
		}
	}
	if key, ok := serviceOf(owner); ok {
		if service := s.services.byKey[key]; service != nil {
			s.sink.ServiceEvent(key, service.UID, problem)
		}
	}
	if key, ok := gatewayOf(owner); ok {
		s.gatewayRefused(key, problem)
	}
	if at, ok := policyOf(owner); ok {
		if p := s.policies.byKey[at.key]; p != nil && p.Policy != nil {
			s.sink.PolicyEvent(at.key, p.UID, problem)
		}
	}
	if key, ok := podOf(owner); ok {
		delete(s.knowledge.unwritten, key)
		if p := s.pods[key]; p != nil {
			s.sink.PodEvent(key, p.UID, problem)
			if n := s.networks[p.network]; n != nil {
				n.deniedPods[key] = problem
				s.touched[n.name] = struct{}{}
			}
		}
	}
	s.report()
}
