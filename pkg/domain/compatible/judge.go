package compatible

import (
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// judge decides anew whom a Network's pods would reach by faces, as far as it has to do with one that has changed. It reports whether
// anything else is true than before, and whether other pairs ask to be joined.
func (n *Networks) judge(consumer, changed string) (others, rejoin bool) {
	before := n.judged[consumer]
	var now []peer
	if m := n.known[consumer]; m == nil || consumer == changed {
		now = n.peersOf(m)
	} else {
		at, had := findPeer(before, changed)
		p, has := n.peerOf(m, changed)
		switch {
		case had && has && before[at] == p || !had && !has:
			return false, false
		case had && has:
			now = slices.Clone(before)
			now[at] = p
		case had:
			now = slices.Concat(before[:at], before[at+1:])
		default:
			now = slices.Concat(before[:at], []peer{p}, before[at:])
		}
	}
	if slices.Equal(before, now) {
		return false, false
	}
	asks := func(p peer) bool { return p.state == model.CompatibilityActive && p.mode == model.Routed }
	for _, p := range before {
		if asks(p) {
			rejoin = true
			if n.asking[pairOf(consumer, p.network)]--; n.asking[pairOf(consumer, p.network)] == 0 {
				delete(n.asking, pairOf(consumer, p.network))
			}
		}
	}
	for _, p := range now {
		if asks(p) {
			rejoin = true
			n.asking[pairOf(consumer, p.network)]++
		}
	}
	if n.judged[consumer] = now; len(now) == 0 {
		delete(n.judged, consumer)
	}
	return true, rejoin
}

// findPeer is where a Network is, or would be, among some peers.
func findPeer(peers []peer, network string) (at int, found bool) {
	return slices.BinarySearchFunc(peers, network, func(p peer, name string) int { return strings.Compare(p.network, name) })
}

// peersOf are the providers that a Network asks for, or that offer themselves to it, by their names.
func (n *Networks) peersOf(m *model.Network) []peer {
	if m == nil {
		return nil
	}
	names := map[string]struct{}{}
	for _, provider := range used(m) {
		names[provider] = struct{}{}
	}
	for _, offered := range []map[string]struct{}{n.naming[m.Name], n.admitting[m.Tenant], n.open[m.Tenant]} {
		maps.Copy(names, offered)
	}
	var out []peer
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if p, is := n.peerOf(m, name); is {
			out = append(out, p)
		}
	}
	return out
}

// peerOf is a provider as a Network sees it that asks for it, or that it offers itself to.
func (n *Networks) peerOf(m *model.Network, name string) (p peer, is bool) {
	n.work++
	within := func(i map[string]struct{}) bool {
		_, yes := i[name]
		return yes
	}
	asked := slices.Contains(used(m), name)
	if name == m.Name || !asked && !within(n.naming[m.Name]) && !within(n.admitting[m.Tenant]) && !within(n.open[m.Tenant]) {
		return peer{}, false
	}
	provider := n.known[name]
	p = peer{network: name, mode: modeOf(provider, m)}
	switch {
	case provider == nil || !offers(provider, m):
		p.state, p.problem = model.CompatibilityWaiting, notOffered(name)
	case !accepts(m, provider):
		p.state, p.problem, p.toProvider = model.CompatibilityWaiting, notUsed(m.Name), notUsed(m.Name)
	default:
		p.state = model.CompatibilityActive
		if problem := n.settings.conflict(provider, m, n.ranges); problem != nil {
			p.state, p.problem, p.toProvider = model.CompatibilityRefused, *problem, *problem
			break
		}
		if p.mode != model.Routed && asksToJoin(provider, m) {
			askToJoin(&p, provider, m)
		}
		askForAddresses(&p, provider, m)
		askForServices(&p, provider, m)
	}
	// A flat Network is not meant where a tenant's Networks or all are.
	return p, p.problem.Reason != model.ReasonFlatNetwork || asked || named(provider, m)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// named reports whether a provider names a consumer itself.
func named(provider, consumer *model.Network) bool {
	return names(provider, consumer.Name)
}

// names reports whether a provider names a consumer, which need not exist.
func names(provider *model.Network, consumer string) bool {
	return slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool { return p.Network == consumer })
}

// offers reports whether a provider wants a consumer's pods to reach its own.
func offers(provider, consumer *model.Network) bool {
	return slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool { return means(p, provider, consumer) })
}

// means reports whether what a provider says is about a consumer.
func means(p model.CompatiblePeer, provider, consumer *model.Network) bool {
	switch {
	case p.All:
		return accepts(consumer, provider)
	case p.Tenant != "":
		return p.Tenant == consumer.Tenant
	}
	return p.Network == consumer.Name
}

// modeOf is the way between a provider and a consumer: Routed if the provider asks for that, and the consumer does, too, if it is another
// tenant's, and both agree to each other's ranges. Who is joined to a Network has its own packets led to addresses that one gives itself,
// so that it is not enough to use it.
func modeOf(provider, consumer *model.Network) model.CompatibilityMode {
	if provider == nil || !asksToJoin(provider, consumer) {
		return model.ByFace
	}
	if provider.Tenant == consumer.Tenant || asksToJoin(consumer, provider) && strange(provider, consumer) == nil {
		return model.Routed
	}
	return model.ByFace
}

// strange says to which range of one of two another's owner has not agreed, which keeps them from being joined; nil: there is none.
func strange(provider, consumer *model.Network) *model.Problem {
	for _, of := range [][2]*model.Network{{provider, consumer}, {consumer, provider}} {
		has, asked := of[0], of[1]
		ranges := worldwide(has)
		if offers(has, asked) && accepts(asked, has) {
			ranges = append(ranges, has.ServiceCIDRs...)
		}
		if r, found := unnamed(asked, has, ranges); found {
			return new(notAgreed(r, has.Name, asked.Name))
		}
	}
	return nil
}

// asksToJoin reports whether anything asks for mode Routed that a Network says about another.
func asksToJoin(m, other *model.Network) bool {
	return slices.ContainsFunc(m.CompatibleWith, func(p model.CompatiblePeer) bool { return p.Mode == model.Routed && means(p, m, other) })
}

// used are the Networks of other tenants that a Network says it wants to reach, by whatever addresses. The caller does not change them.
func used(m *model.Network) []string {
	if len(m.UsesAddressesOf) == 0 && len(m.UsesServiceCIDRs) == 0 {
		return m.Uses
	}
	return slices.AppendSeq(slices.Concat(m.Uses, m.UsesAddressesOf), maps.Keys(m.UsesServiceCIDRs))
}

// accepts reports whether a consumer wants to reach a provider: its own tenant's it does, another's it must name.
func accepts(consumer, provider *model.Network) bool {
	return consumer.Tenant == provider.Tenant || slices.Contains(used(consumer), provider.Name)
}
