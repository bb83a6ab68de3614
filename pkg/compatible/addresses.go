package compatible

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

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
	}
	return fmt.Sprintf("%s of Network %q, which it reaches, too", m.cidr, m.network)
}

// toProvider says the same to a provider's owner, who has nothing to do with a third Network.
func (m meaning) toProvider(consumer string) string {
	if m.kind == other {
		return fmt.Sprintf("what Network %q reaches already in another Network", consumer)
	}
	return m.String()
}

// dial decides which of those that a consumer knows by faces its pods dial by own addresses, too: all that are offered and wanted, the older
// first, whose subnets mean nothing else to it. It takes nothing from anybody who is reached otherwise. Of a provider whose addresses are not
// dialled both owners hear why.
func (n *Networks) dial(consumer string, peers []peer) {
	var known []meaning
	for i, p := range peers {
		if !p.addresses || p.mode == model.Routed {
			continue
		}
		if known == nil {
			known = n.meanings(consumer, peers)
		}
		if subnet, with, overlaps := ambiguous(n.subnets(p.network), known); overlaps {
			peers[i].addresses = false
			peers[i].problem, peers[i].toProvider = both(p.problem, notDialled(subnet, p.network, with.String())), both(p.toProvider, notDialled(subnet, p.network, with.toProvider(consumer)))
			continue
		}
		for _, subnet := range n.subnets(p.network) {
			known = append(known, meaning{subnet, other, p.network})
		}
	}
}

func notDialled(subnet netip.Prefix, provider, what string) model.Problem {
	return *conflicting("%s: %s of Network %q overlaps %s: give one of them other addresses", byFacesOnly, subnet, provider, what)
}

// byFacesOnly begins all messages that say why pods are not dialled by their own addresses.
const byFacesOnly = "pods are dialled by the addresses that Kubernetes knows them by, and not by their own"

// meanings are what addresses mean to a Network's pods, but for those of pods that are known by faces.
func (n *Networks) meanings(consumer string, peers []peer) (out []meaning) {
	add := func(k kind, network string, ranges ...netip.Prefix) {
		for _, r := range ranges {
			out = append(out, meaning{r, k, network})
		}
	}
	add(own, consumer, n.ranges[consumer]...)
	add(kept, consumer, n.kept[consumer]...)
	add(cluster, "", n.settings.Taken...)
	for name := range n.flats {
		add(flat, "", n.ranges[name]...)
		add(flat, "", n.kept[name]...)
	}
	for name := range n.joints.with[consumer] {
		add(other, name, n.ranges[name]...)
	}
	for _, p := range peers {
		if p.state == model.CompatibilityActive {
			add(other, p.network, n.known[p.network].ServiceCIDRs...)
		}
	}
	return out
}

// ambiguous finds the first subnet that means something else, and the first of what it means: whatever their order, it is the same.
func ambiguous(subnets []netip.Prefix, known []meaning) (subnet netip.Prefix, with meaning, found bool) {
	for _, subnet := range subnets {
		for _, k := range known {
			if k.cidr.Overlaps(subnet) && (!found || k.before(with)) {
				with, found = k, true
			}
		}
		if found {
			return subnet, with, true
		}
	}
	return subnet, with, false
}

func (m meaning) before(o meaning) bool {
	return cmp.Or(cmp.Compare(m.kind, o.kind), cmp.Compare(m.network, o.network), m.cidr.Compare(o.cidr)) < 0
}

// subnets are what addresses of a Network's pods are from.
func (n *Networks) subnets(name string) []netip.Prefix {
	all := n.ranges[name]
	return all[:len(all)-len(n.known[name].ServiceCIDRs)]
}

// both are two things that an owner is told at once; either may be nothing.
func both(first, second model.Problem) model.Problem {
	if first.Reason == "" {
		return second
	}
	if second.Reason != "" {
		first.Message += "; " + second.Message
	}
	return first
}

// offersAddresses reports whether anything says so that a provider says of a consumer.
func offersAddresses(provider, consumer *model.Network) bool {
	return slices.ContainsFunc(provider.CompatibleWith, func(p model.CompatiblePeer) bool { return p.Addresses && means(p, provider, consumer) })
}

// wantsAddresses reports whether a consumer has what it sends to a provider's addresses led there, whatever these will be: its own tenant's
// it does, another's it must name.
func wantsAddresses(consumer, provider *model.Network) bool {
	return consumer.Tenant == provider.Tenant || slices.Contains(consumer.UsesAddressesOf, provider.Name)
}

// askForAddresses notes on a provider that a consumer reaches whether its pods are to be dialled by their own addresses, or who does not
// want it.
func askForAddresses(p *peer, provider, consumer *model.Network) {
	switch offered := offersAddresses(provider, consumer); {
	case offered && wantsAddresses(consumer, provider):
		p.addresses = true
	case offered:
		p.toProvider = both(p.toProvider, addressesNotUsed(consumer.Name))
	case slices.Contains(consumer.UsesAddressesOf, provider.Name):
		p.problem = both(p.problem, addressesNotOffered(provider.Name))
	}
}

func addressesNotUsed(consumer string) model.Problem {
	return model.Problemf(model.ReasonAddressesNotUsed,
		"%s: Network %q is another tenant's, and does not list this one in its usesAddressesOf", byFacesOnly, consumer)
}

func addressesNotOffered(provider string) model.Problem {
	return model.Problemf(model.ReasonAddressesNotOffered,
		"%s: Network %q does not offer them in its compatibleWith", byFacesOnly, provider)
}

// Addressed are the Networks that a Network's pods know by faces, and whose pods they dial by their own addresses, too, sorted.
func (n *Networks) Addressed(consumer string) []string {
	var out []string
	for _, p := range n.peers[consumer] {
		if p.addresses && p.mode != model.Routed {
			out = append(out, p.network)
		}
	}
	slices.Sort(out)
	return out
}

// flatChanged takes note of a flat Network's addresses, which pods of all others dial, and adds to touched the consumers of addresses
// when they are others than before.
func (n *Networks) flatChanged(name string, before []netip.Prefix, touched map[string]struct{}) {
	m := n.known[name]
	if m != nil && (m.Type != model.VPC || name == n.settings.Default) {
		n.flats[name] = struct{}{}
	} else if _, was := n.flats[name]; was {
		delete(n.flats, name)
	} else {
		return
	}
	if !slices.Equal(before, n.ranges[name]) {
		n.askAgain(touched)
	}
}

// askAgain adds all consumers of addresses.
func (n *Networks) askAgain(touched map[string]struct{}) {
	for _, consumer := range slices.Collect(maps.Keys(n.judged)) {
		if slices.ContainsFunc(n.judged[consumer], func(p peer) bool { return p.addresses }) {
			touched[consumer] = struct{}{}
		}
	}
}

// Keep says which ranges a Network has addresses of beside those that it lists: of subnets that it lists no more, and that pods are in still. It
// returns the Networks about which something else is true than before, sorted.
func (n *Networks) Keep(name string, ranges []netip.Prefix) (changed []string) {
	if slices.Equal(n.kept[name], ranges) {
		return nil
	}
	if n.kept[name] = ranges; len(ranges) == 0 {
		delete(n.kept, name)
	}
	touched, told := map[string]struct{}{name: {}}, map[string]struct{}{}
	if _, is := n.flats[name]; is {
		n.askAgain(touched)
	}
	for consumer := range touched {
		n.settle(consumer, told)
	}
	return slices.Sorted(maps.Keys(told))
}
