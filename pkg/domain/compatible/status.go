package compatible

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// MaxStatuses bounds what a Network says of others: what is wrong comes first.
const MaxStatuses = 64

// Statuses are what a Network reports of compatibility with others: as a consumer, and as a provider. asked: it asks for any.
func (n *Networks) Statuses(name string) (out []model.CompatibilityStatus, asked bool) {
	m := n.known[name]
	if m == nil {
		return nil, false
	}
	for _, p := range n.peers[name] {
		if p.problem.Reason == model.ReasonNotUsed {
			// Only the Network that offers learns this: the owner of this one has not asked.
			continue
		}
		out = append(out, model.CompatibilityStatus{
			Network: p.network, Uses: true, Mode: p.mode, Addresses: p.addresses, ServiceAddresses: p.services, State: p.state, Problem: p.problem,
		})
	}
	for consumer := range n.consumersAsked(m) {
		if consumer == name {
			continue
		}
		if s, has := n.served(m, consumer); has {
			out = append(out, s)
		}
	}
	wrong := func(s model.CompatibilityStatus) int { return boolean(s.State == model.CompatibilityActive) }
	slices.SortFunc(out, func(a, b model.CompatibilityStatus) int {
		return cmp.Or(cmp.Compare(wrong(a), wrong(b)), cmp.Compare(a.Network, b.Network), cmp.Compare(boolean(a.Uses), boolean(b.Uses)))
	})
	return out[:min(len(out), MaxStatuses)], len(m.CompatibleWith)+len(used(m)) > 0
}

// served is what a provider reports of one that it offers itself to.
func (n *Networks) served(provider *model.Network, consumer string) (model.CompatibilityStatus, bool) {
	out := model.CompatibilityStatus{Network: consumer}
	if at, found := findPeer(n.peers[consumer], provider.Name); found {
		p := n.peers[consumer][at]
		out.Mode, out.Addresses, out.ServiceAddresses, out.State, out.Problem = p.mode, p.addresses, p.services, p.state, p.toProvider
		// A consumer to which the provider offers nothing appears only in its own status.
		return out, p.problem.Reason != model.ReasonNotOffered
	}
	if n.known[consumer] != nil || !names(provider, consumer) {
		return out, false
	}
	out.Mode, out.State, out.Problem = modeOf(provider, &model.Network{Name: consumer}), model.CompatibilityWaiting, notUsed(consumer)
	return out, true
}
