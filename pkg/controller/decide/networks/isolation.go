package networks

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/isolation"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// walls are the verdicts on a Network, towards all others and towards other tenants, and what they were drawn from.
type walls struct {
	drawn        isolation.Network
	all, outward model.Isolation
	// levels is how often the privileged namespaces had changed.
	levels int
}

// isolation judges a Network that is known to be in the database; nil: it is not. Nobody changes what it returns: pods come and
// go far more often than verdicts, and it is drawn anew only for what it was not drawn from.
func (s *Stage) isolation(n *Network) *walls {
	// The nodes' DNS goes by what the owner wants already. So there is no verdict while a consent waits.
	if !s.serves(n) || !n.written || n.denied != nil || n.wait.peers {
		return nil
	}
	from := isolation.Network{
		Network: n.Model, Default: n.Default,
		Consumers: s.owned(s.compatible.Consumers(n.Name)), Providers: s.owned(s.compatible.Providers(n.Name)),
		Answering: s.owned(s.Resolvers.Answering(model.ServiceKey(n.Model.DNSService), n.Name).From),
	}
	if n.walls != nil && n.walls.levels == s.levels && n.walls.drawn.Network == from.Network && n.walls.drawn.Default == from.Default {
		from.Privileged = n.walls.drawn.Privileged
	} else {
		from.Privileged = s.privilegedIn(n)
	}
	from.Beyond, from.BeyondPods = s.beyondIn(n)
	if n.walls == nil || !n.walls.drawn.Equal(from) {
		n.walls = &walls{drawn: from, all: isolation.OfNetwork(from), outward: isolation.TowardsOthers(from)}
	}
	n.walls.levels = s.levels
	return n.walls
}

// privilegedIn are the namespaces whose privileged pods a Network admits, sorted.
func (s *Stage) privilegedIn(n *Network) (out []string) {
	for _, name := range pass.Sorted(s.privileged) {
		if !s.Cluster.IsInfrastructure(name) && n.Admits(*s.Cluster.Namespaces[name]) {
			out = append(out, name)
		}
	}
	return out
}

// beyondIn are the namespaces, sorted, whose pods in a Network have more of their nodes than the Pod Security level baseline
// gives, and how many pods that are. They ran before their namespace was held to it.
func (s *Stage) beyondIn(n *Network) (out []string, pods int) {
	beyond := s.Pods.Members(n.Name).Beyond
	for _, name := range pass.Sorted(beyond) {
		if !s.Cluster.IsInfrastructure(name) {
			out, pods = append(out, name), pods+len(beyond[name])
		}
	}
	return out, pods
}

// levelMoved has all Networks judged anew when a namespace is privileged, or was: any may admit it.
func (s *Stage) levelMoved(name string) {
	_, was := s.privileged[name]
	ns := s.Cluster.Namespaces[name]
	is := ns != nil && ns.Privileged()
	if is {
		s.privileged[name] = struct{}{}
	} else {
		delete(s.privileged, name)
	}
	if is || was {
		s.levels++
		s.reportAll()
	}
}

// towardsAll and towardsTenants are nil of nothing.
func (w *walls) towardsAll() *model.Isolation {
	if w == nil {
		return nil
	}
	return &w.all
}

func (w *walls) towardsTenants() *model.Isolation {
	if w == nil {
		return nil
	}
	return &w.outward
}

// owned says of Networks whose they are.
func (s *Stage) owned(names []string) (out []isolation.Peer) {
	for _, name := range names {
		out = append(out, isolation.Peer{Network: name, Tenant: tenantOf(s.Model(name))})
	}
	return out
}

// tellIsolation sends a Network's owner an Event if the verdict differs from the last one, of this controller or of an earlier one.
func (s *Stage) tellIsolation(n *Network, now *model.Isolation) {
	if now == nil {
		return
	}
	if p := isolation.Changed(cmp.Or(n.isolated, n.Model.Isolated), now); p != nil {
		s.Sink.Event(n.Model.Ref(), *p)
	}
	n.isolated = now.Overall
}

// Isolation is how a Network was last reported to be isolated from other tenants; nil while that is not known.
func (s *Stage) Isolation(name string) *model.Isolation {
	if n := s.Get(name); n != nil {
		return n.outward
	}
	return nil
}

// tenantMoved has those judged anew that a Network reaches or is reached by: it may be another tenant's now.
func (s *Stage) tenantMoved(name string) {
	for _, other := range slices.Concat(s.compatible.Providers(name), s.compatible.Consumers(name)) {
		s.unreported.Mark(other)
	}
}
