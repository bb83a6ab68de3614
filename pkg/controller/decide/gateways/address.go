package gateways

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// Claim asks the ledger for addresses of their Networks, for the Gateways that something has changed about.
func (s *Stage) Claim() {
	for key := range s.queue.Marked() {
		// Whom it puts beyond the quota, or brings back, is marked, too.
		s.count(key)
	}
	keys := s.queue.Take()
	s.rows.MarkAll(keys)
	for key := range keys {
		s.forget(key)
		if g := s.gateways[key]; g != nil {
			s.claim(g)
		}
	}
}

// count enters a Gateway among those of its tenant, if it is ours.
func (s *Stage) count(key model.GatewayKey) {
	if g := s.gateways[key]; g != nil && s.isOurs(g) {
		s.Quotas.Enter(key, key.Namespace, g.Created)
	} else {
		s.Quotas.Leave(key)
	}
}

// isOurs reports whether a Gateway's class is.
func (s *Stage) isOurs(g *gateway) bool {
	class := s.classes[g.Class]
	return class != nil && !class.Parameters
}

// claim finds out whether a Gateway is ours and where, and says what it asks for there.
func (s *Stage) claim(g *gateway) {
	g.ours = s.isOurs(g)
	g.listeners = listenersOf(*g.Gateway)
	s.reads.classes.Note(g.Key, g.Class)
	s.reads.namespaces.Note(g.Key, g.Key.Namespace)
	g.network = s.networkOf(g)
	if g.ours && s.unserved(g) == nil && g.accepted().Status {
		s.Virtual.Claim(ownerOf(g.Key), g.claimIn(s.Networks.Layout(g.network)))
	} else {
		s.Virtual.Withdraw(ownerOf(g.Key))
	}
}

// networkOf is the name of the Network that a Gateway belongs to: its namespace's; flat ones share the default one's.
func (s *Stage) networkOf(g *gateway) string {
	ns := s.Cluster.Namespaces[g.Key.Namespace]
	if ns == nil {
		return ""
	}
	home := s.Cluster.HomeOf(*ns)
	network := s.Networks.Space(home)
	// Which one that is depends on whether the namespace's is flat.
	s.reads.networks.Note(g.Key, home)
	s.reads.networks.Note(g.Key, network)
	return network
}

// claimIn is what a Gateway asks of its Network: addresses of the IP families that the Network has.
func (g *gateway) claimIn(n compile.Layout) ledger.Claim {
	return ledger.Claim{
		UID: g.UID, Network: g.network, NetworkUID: n.UID, Created: g.Created, Shared: true,
		Known: len(g.former) > 0, Former: slices.DeleteFunc(slices.Clone(g.former), func(a netip.Addr) bool { return !g.asksFor(a) }),
		IPv4: g.wish(n, true), IPv6: g.wish(n, false),
	}
}

// asksFor reports whether an address is one that the Gateway asks for, or any will do.
func (g *gateway) asksFor(a netip.Addr) bool {
	return len(g.Addresses) == 0 || slices.ContainsFunc(g.Addresses, func(wish model.GatewayAddress) bool {
		return wish.Addr == a || !wish.Addr.IsValid()
	})
}

// wish is what a Gateway asks of one IP family.
func (g *gateway) wish(n compile.Layout, ipv4 bool) ledger.Wish {
	w, anyWillDo := ledger.Wish{}, len(g.Addresses) == 0
	for _, wish := range g.Addresses {
		if a := wish.Addr; !a.IsValid() {
			anyWillDo = true
		} else if a.Is4() == ipv4 {
			w.Asked = append(w.Asked, a)
		}
	}
	if anyWillDo && n.Has(ipv4) {
		w.Otherwise = ledger.Any
	}
	return w
}

// address finds out which addresses a Gateway has, and why not others.
func (s *Stage) address(g *gateway) {
	g.unusable, g.wanting = nil, s.unserved(g)
	claim, grant, claims := s.Virtual.GrantTo(ownerOf(g.Key))
	g.addresses = grant.Addresses
	if len(g.addresses) > 0 {
		g.former = g.addresses
	}
	if !claims {
		return
	}
	if refused := slices.Concat(s.refused(g, claim.IPv4, grant), s.refused(g, claim.IPv6, grant)); len(refused) > 0 {
		g.unusable = &model.Problem{Reason: model.ReasonAddressNotUsable, Message: strings.Join(refused, "; ")}
	} else if len(g.addresses) == 0 {
		g.wanting = new(model.Problemf(model.ReasonAddressNotAssigned,
			"no address is free for Gateways of Network %q in %s: others have them, or subnets of the Network hold them",
			g.network, ledger.List(s.Virtual.Usable(g.network))))
	}
}

// refused says which addresses that a Gateway asks for it does not get, and why.
func (s *Stage) refused(g *gateway, w ledger.Wish, grant ledger.Grant) []string {
	var out []string
	got := false
	for _, a := range w.Asked {
		if i := slices.IndexFunc(grant.Refusals, func(r ledger.Refusal) bool { return r.Asked == a }); i >= 0 {
			out = append(out, fmt.Sprintf("%s %s", a, s.why(g, grant.Refusals[i])))
		} else if got {
			out = append(out, fmt.Sprintf("%s is a second address of its IP family", a))
		} else {
			got = true
		}
	}
	return out
}

// why says why an address cannot be had.
func (s *Stage) why(g *gateway, r ledger.Refusal) string {
	switch r.Outcome {
	case alloc.Reserved:
		return "is the range's own, or in a subnet of the Network"
	case alloc.InUse:
		return "belongs to " + ledger.Describe(r.Holder)
	}
	return fmt.Sprintf("is in no range of Gateways of Network %q (%s)", g.network, ledger.List(s.Virtual.Usable(g.network)))
}

// unserved returns why a Gateway cannot be served, whatever it asks for: no Gateway of its namespace can, or its tenant has too
// many. It is nil when the Gateway can be served.
func (s *Stage) unserved(g *gateway) *model.Problem {
	ns := s.Cluster.Namespaces[g.Key.Namespace]
	if ns == nil {
		return new(model.Problemf(model.ReasonPending, "the namespace is not known yet"))
	}
	return cmp.Or(s.Quotas.Beyond(g.Key), s.Networks.Refusal(*ns, g.network))
}
