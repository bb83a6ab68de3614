package attach

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// fill takes one address of each family of a subnet, wanted among them if it is valid. It returns nothing when
// the subnet is full. Addresses of Services, and of Nodes in a space that they share, are passed over.
func (s *Stage) fill(
	n *networks.Network, p *pod, subnet compile.SubnetLayout, wanted netip.Addr, next choose,
) ([]netip.Addr, *model.Problem) {
	pools, holder := s.Subnets.Pools(n.Name, subnet.Name), ledger.Pod(p.Key)
	if wanted.IsValid() {
		if problem := cmp.Or(s.ofServices(n, subnet, wanted), s.rests(n, p, wanted)); problem != nil {
			return nil, problem
		}
		if problem := take(pools, (*ledger.Pool).Take, wanted, holder, n.Name, subnet.Name); problem != nil {
			return nil, problem
		}
		if sharesNumber(pools, wanted) {
			ledger.Release(pools, []netip.Addr{wanted}, holder)
			return nil, new(model.Problemf(model.ReasonAddressInUse,
				"address %s of Network %q has the port number of another address that is in use or reserved, as addresses have that are a "+
					"multiple of %d apart: ask for another",
				wanted, n.Name, model.PortNumbers))
		}
	}
	addresses := make([]netip.Addr, 0, len(pools))
	for _, pool := range pools {
		if wanted.IsValid() && pool.Prefix().Contains(wanted) {
			addresses = append(addresses, wanted)
			continue
		}
		a, ok := next(pool, holder, func(a netip.Addr) bool { return n.Default || !s.has(n, a) })
		if !ok {
			ledger.Release(pools, append(addresses, wanted), holder)
			return nil, nil
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

// sharesNumber reports whether an address that is asked for would have its port ask for another one's number. Of a subnet
// with both families those of IPv4 count, as package compile has it.
func sharesNumber(pools []*ledger.Pool, wanted netip.Addr) bool {
	is4 := func(p *ledger.Pool) bool { return p.Prefix().Addr().Is4() }
	if wanted.Is6() && slices.ContainsFunc(pools, is4) {
		return false
	}
	return slices.ContainsFunc(pools, func(p *ledger.Pool) bool { return p.SharesNumber(wanted) })
}

// has reports whether a Service has an address, or, in a space that nodes share, a Node.
func (s *Stage) has(n *networks.Network, a netip.Addr) bool {
	return s.Catalog.HasClusterIP(a) || n.Faceless() && s.Cluster.IsNode(a)
}

// choose is how an address is chosen among the free ones of a pool: Spare.Next or Spare.Unnamed.
type choose func(pool *ledger.Pool, holder nb.Owner, passes func(netip.Addr) bool) (netip.Addr, bool)

// ofServices says why a pod cannot have an address of a subnet that the cluster's Services have, or may get; nil when it can.
func (s *Stage) ofServices(n *networks.Network, subnet compile.SubnetLayout, wanted netip.Addr) *model.Problem {
	for _, r := range subnet.Ranges {
		for _, services := range r.Withheld {
			if services.Contains(wanted) {
				return new(model.Problemf(model.ReasonAddressReserved,
					"address %s of Network %q lies in %s, the cluster's own range of Services, of which no pod gets an address: ask for another", wanted,
					n.Name, services))
			}
		}
	}
	if has := s.Catalog.HasClusterIP(wanted); has && !n.Default {
		return new(model.Problemf(model.ReasonAddressInUse,
			"address %s of Network %q is that of a Service of the cluster: ask for another", wanted, n.Name))
	}
	return nil
}

// take holds one address, by Take or by Keep, or says why it cannot be had.
func take(pools []*ledger.Pool, how func(*ledger.Pool, netip.Addr, nb.Owner) (alloc.Outcome, nb.Owner),
	a netip.Addr, holder nb.Owner, network, subnet string,
) *model.Problem {
	for _, pool := range pools {
		switch outcome, other := how(pool, a, holder); outcome {
		case alloc.Taken:
			return nil
		case alloc.Reserved:
			return new(model.Problemf(model.ReasonAddressReserved,
				"address %s of Network %q is reserved: it is the gateway's, excluded (excludeIPs), or names the subnet itself", a, network))
		case alloc.InUse:
			return new(model.Problemf(model.ReasonAddressInUse, "address %s of Network %q is in use by %s", a, network, ledger.Describe(other)))
		}
	}
	return new(model.Problemf(model.ReasonAddressOutsideSubnet, "address %s is outside of subnet %q of Network %q", a, subnet, network))
}
