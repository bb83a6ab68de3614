package networks

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/isolation"
	"github.com/atoll-net/atoll/pkg/model"
)

// isolation judges a Network that is known to be in the database; nil: it is not.
func (s *Stage) isolation(n *Network, judge func(isolation.Network) model.Isolation) *model.Isolation {
	if !s.serves(n) || !n.written || n.denied != nil {
		return nil
	}
	verdict := judge(isolation.Network{
		Network: n.Model, Default: n.Default,
		Consumers: s.owned(s.compatible.Consumers(n.Name)), Providers: s.owned(s.compatible.Providers(n.Name)),
	})
	return &verdict
}

// owned says of Networks whose they are.
func (s *Stage) owned(names []string) (out []isolation.Peer) {
	for _, name := range names {
		out = append(out, isolation.Peer{Network: name, Tenant: tenantOf(s.Model(name))})
	}
	return out
}

// tellIsolation tells a Network's owner of a verdict that is not the one that he was told before, by this controller or by an earlier one.
func (s *Stage) tellIsolation(n *Network, now *model.Isolation) {
	if now == nil {
		return
	}
	if p := isolation.Changed(cmp.Or(n.isolated, n.Model.Isolated), now); p != nil {
		s.Sink.NetworkEvent(n.Name, n.Model.UID, *p)
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
