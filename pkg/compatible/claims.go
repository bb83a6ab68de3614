package compatible

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/model"
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

// claim is what of a provider's a consumer's pods are to dial by addresses of the provider's, though no routers are joined: its pods, or its
// Services. Both want it.
type claim struct {
	// peer is the place of the provider among a consumer's peers.
	peer     int
	provider string
	services bool
	ranges   []netip.Prefix
}

// claims are those of some peers, Services first.
func (n *Networks) claims(peers []peer) (out []claim) {
	for i, p := range peers {
		if p.state != model.CompatibilityActive || p.mode == model.Routed {
			continue
		}
		if p.services {
			out = append(out, claim{i, p.network, true, n.known[p.network].ServiceCIDRs})
		}
		if p.addresses {
			out = append(out, claim{i, p.network, false, n.subnets(p.network)})
		}
	}
	return out
}

// dial decides which of those that a consumer knows by faces its pods dial by own addresses, too, and whose Services: all that are offered and
// wanted, whose ranges mean nothing else to it. It takes nothing from anybody who is reached otherwise. Of two that have the same the one that
// had it first is dialled. Where addresses are not dialled both owners hear why.
func (n *Networks) dial(consumer string, peers []peer) {
	claims := n.claims(peers)
	if len(claims) == 0 {
		return
	}
	known := n.meanings(consumer)
	for _, c := range claims {
		r, with, overlaps := n.ambiguous(c, claims, known)
		if !overlaps {
			continue
		}
		p := &peers[c.peer]
		if c.services {
			p.services = false
		} else {
			p.addresses = false
		}
		p.problem, p.toProvider = both(p.problem, c.refused(r, with.String())), both(p.toProvider, c.refused(r, with.toProvider(consumer)))
	}
}

func (c claim) refused(r netip.Prefix, what string) model.Problem {
	only := byFacesOnly
	if c.services {
		only = byClusterIPsOnly
	}
	return *conflicting("%s: %s of Network %q overlaps %s: give one of them other addresses", only, r, c.provider, what)
}

// These begin all messages that say why pods are not dialled by their own addresses, and why Services are not by those of their Network's ranges.
const (
	byFacesOnly      = "pods are dialled by the addresses that Kubernetes knows them by, and not by their own"
	byClusterIPsOnly = "Services are dialled by their ClusterIPs, and not by addresses of the Network's own ranges"
)

// meanings are what addresses mean to a Network's pods, but for those of pods and Services that are known by faces.
func (n *Networks) meanings(consumer string) (out []meaning) {
	out = n.everybodys()
	add := func(k kind, network string, ranges []netip.Prefix) {
		for _, r := range ranges {
			out = append(out, meaning{r, k, network})
		}
	}
	add(own, consumer, n.ranges[consumer])
	add(kept, consumer, n.kept[consumer])
	for name := range n.joints.with[consumer] {
		add(joined, name, n.ranges[name])
	}
	return out
}

// everybodys are what addresses mean to the pods of all Networks.
func (n *Networks) everybodys() (out []meaning) {
	for _, r := range n.settings.Taken {
		out = append(out, meaning{r, cluster, ""})
	}
	for name := range n.flats {
		for _, r := range slices.Concat(n.ranges[name], n.kept[name]) {
			out = append(out, meaning{r, flat, ""})
		}
	}
	return out
}

// ambiguous finds the first range of a claim that means something else, and the first of what it means: whatever their order, it is the same.
func (n *Networks) ambiguous(c claim, claims []claim, known []meaning) (r netip.Prefix, with meaning, found bool) {
	for _, r := range c.ranges {
		look := func(m meaning) {
			if m.cidr.Overlaps(r) && (!found || m.before(with)) {
				with, found = m, true
			}
		}
		for _, m := range known {
			look(m)
		}
		for _, o := range claims {
			for _, theirs := range o.ranges {
				if theirs.Overlaps(r) && o.provider != c.provider && n.older(o.provider, theirs, c.provider, r) {
					look(meaning{theirs, other, o.provider})
				}
			}
		}
		if found {
			return r, with, true
		}
	}
	return netip.Prefix{}, with, false
}

// older reports whether one Network has had a range for longer than another one has had one of its own: who had it first keeps it, whatever
// the age of the Networks.
func (n *Networks) older(one string, r netip.Prefix, another string, s netip.Prefix) bool {
	a, b := n.known[one], n.known[another]
	return cmp.Or(since(a, r).Compare(since(b, s)), a.Created.Compare(b.Created), cmp.Compare(one, another)) < 0
}

// since is when a Network got a range, as the controller has noted in its status. One that is not noted yet is younger than all that are; a Network
// of which nothing is noted has had its ranges from its beginning.
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
			"%s: %s of Network %q lies in none of the ranges that Network %q lists for it in usesServiceCIDRs", byClusterIPsOnly, r, provider.Name, consumer.Name)
		p.problem, p.toProvider = both(p.problem, why), both(p.toProvider, why)
	default:
		p.problem = both(p.problem, model.Problemf(model.ReasonServiceCIDRsOffered,
			"%s: Network %q is another tenant's, has %s, and this one does not list it in its usesServiceCIDRs", byClusterIPsOnly, provider.Name, provider.ServiceCIDRs[0]))
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
