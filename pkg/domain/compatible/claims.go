package compatible

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// meaning is a range whose addresses mean something to a consumer's pods already.
type meaning struct {
	cidr netip.Prefix
	kind kind
	// network has it, if it is a Network's.
	network string
}

// kind is what has a range, in the order in which messages name them.
type kind int

const (
	own kind = iota
	kept
	cluster
	flat
	joined
	other
)

// String says whose it is to the consumer's owner.
func (m meaning) String() string {
	switch m.kind {
	case own:
		return fmt.Sprintf("%s of Network %q", m.cidr, m.network)
	case kept:
		return fmt.Sprintf("%s, which Network %q does not list and has pods of", m.cidr, m.network)
	case cluster:
		return fmt.Sprintf("%s, which is the cluster's own", m.cidr)
	case flat:
		return fmt.Sprintf("%s of a flat Network", m.cidr)
	case joined:
		return fmt.Sprintf("%s of Network %q, which it is joined to", m.cidr, m.network)
	}
	return fmt.Sprintf("%s of Network %q, which had it first", m.cidr, m.network)
}

// toProvider says the same to a provider's owner, who has nothing to do with a third Network.
func (m meaning) toProvider(consumer string) string {
	if m.kind == other || m.kind == joined {
		return fmt.Sprintf("what Network %q reaches already in another Network", consumer)
	}
	return m.String()
}

func (m meaning) before(o meaning) bool {
	return cmp.Or(cmp.Compare(m.kind, o.kind), cmp.Compare(m.network, o.network), m.cidr.Compare(o.cidr)) < 0
}

// claim is what of a provider's a consumer's pods are to dial by addresses of the provider's, though no routers are joined: its pods, or
// its Services. Both want it.
type claim struct {
	// peer is the place of the provider among a consumer's peers.
	peer     int
	provider string
	part     part
	extent   *extent
}

// order puts claims in the order in which dial looks at them.
func (c claim) order(o claim) int {
	return cmp.Or(cmp.Compare(c.provider, o.provider), cmp.Compare(o.part, c.part))
}

// claims are those of some peers, by their names, Services first.
func (n *Networks) claims(peers []peer) (out []claim) {
	for i, p := range peers {
		if p.state != model.CompatibilityActive || p.mode == model.Routed {
			continue
		}
		if p.services {
			out = append(out, claim{i, p.network, ofServices, n.extents[p.network]})
		}
		if p.addresses {
			out = append(out, claim{i, p.network, ofPods, n.extents[p.network]})
		}
	}
	return out
}

// dial decides which of those that a consumer knows by faces its pods dial by own addresses, too, and whose Services: all that are offered
// and wanted, whose ranges mean nothing else to it. It takes nothing from anybody who is reached otherwise. Of two that have the same the
// one that had it first is dialled. Where addresses are not dialled both owners hear why.
func (n *Networks) dial(consumer string, peers []peer) {
	v := n.view(consumer, n.claims(peers))
	for i, c := range v.claims {
		against := v.verdicts[i]
		if against.place == 0 {
			continue
		}
		p := &peers[c.peer]
		if c.part == ofServices {
			p.services = false
		} else {
			p.addresses = false
		}
		r := c.extent.parts[c.part][against.place-1].cidr
		p.problem = both(p.problem, c.refused(r, against.with.String()))
		p.toProvider = both(p.toProvider, c.refused(r, against.with.toProvider(consumer)))
	}
}

func (c claim) refused(r netip.Prefix, what string) model.Problem {
	only := byFacesOnly
	if c.part == ofServices {
		only = byClusterIPsOnly
	}
	return *conflicting("%s: %s of Network %q overlaps %s: give one of them other addresses", only, r, c.provider, what)
}

// These begin all messages that say why pods are not dialled by their own addresses, and why Services are not by those of their Network's
// ranges.
const (
	byFacesOnly      = "pods are dialled by the addresses that Kubernetes knows them by, and not by their own"
	byClusterIPsOnly = "Services are dialled by their ClusterIPs, and not by addresses of the Network's own ranges"
)

// since is when a Network got a range, as the controller has noted in its status. One that is not noted yet is younger than all that are;
// a Network of which nothing is noted has had its ranges from its beginning.
func since(m *model.Network, r netip.Prefix) time.Time {
	switch at, noted := m.Since[r]; {
	case noted:
		return at
	case len(m.Since) == 0:
		return m.Created
	}
	return time.Unix(1<<40, 0)
}

// Ranges are all ranges of a Network of which others may dial addresses, each once, in the order in which its owner wrote them.
func (n *Networks) Ranges(name string) []netip.Prefix {
	if m := n.known[name]; m == nil || m.Type != model.VPC || name == n.settings.Default {
		return nil
	}
	var out []netip.Prefix
	for _, r := range n.ranges[name] {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// askForServices notes on a provider that a consumer reaches whether its Services are to be dialled by addresses of its own ranges: its own
// tenant's are, and another's only in ranges that the consumer names. What it does not name means to its pods what it meant before.
func askForServices(p *peer, provider, consumer *model.Network) {
	if len(provider.ServiceCIDRs) == 0 {
		return
	}
	_, lists := consumer.UsesServiceCIDRs[provider.Name]
	r, found := unnamed(consumer, provider, provider.ServiceCIDRs)
	switch {
	case provider.Tenant == consumer.Tenant || !found:
		p.services = true
	case lists:
		why := model.Problemf(model.ReasonServiceCIDRsNotUsed,
			"%s: %s of Network %q lies in none of the ranges that Network %q lists for it in usesServiceCIDRs", byClusterIPsOnly, r, provider.Name,
			consumer.Name)
		p.problem, p.toProvider = both(p.problem, why), both(p.toProvider, why)
	default:
		p.problem = both(p.problem, model.Problemf(model.ReasonServiceCIDRsOffered,
			"%s: Network %q is another tenant's, has %s, and this one does not list it in its usesServiceCIDRs", byClusterIPsOnly, provider.Name,
			provider.ServiceCIDRs[0]))
		p.toProvider = both(p.toProvider, model.Problemf(model.ReasonServiceCIDRsNotUsed,
			"%s: Network %q is another tenant's, and does not list this one in its usesServiceCIDRs", byClusterIPsOnly, consumer.Name))
	}
}

// Ranged are the Networks whose Services a Network's pods dial by addresses of these Networks' own ranges, sorted.
func (n *Networks) Ranged(consumer string) []string {
	var out []string
	for _, p := range n.peers[consumer] {
		if p.services {
			out = append(out, p.network)
		}
	}
	slices.Sort(out)
	return out
}

// DialsServices reports whether a consumer's pods dial a provider's Services by addresses of the provider's own ranges.
func (n *Networks) DialsServices(consumer, provider string) bool {
	return slices.ContainsFunc(n.peers[consumer], func(p peer) bool { return p.network == provider && p.services })
}
