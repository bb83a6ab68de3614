package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Spare chooses addresses for pods and nodes that have none.
//
// A pod goes, and EndpointSlices name its address for some time, or for ever: those of a Service that has lost its selector,
// those written by hand, or all while the endpoint controller is away. kube-proxy leads a node port, or the address of a
// load balancer, to whoever has that address now. So an address that any slice names is given only where nothing else is
// free. Nobody waits for that reason: who may write slices can name all addresses, and takes nothing from others by it.
type Spare struct {
	Cluster *cluster.Cluster
	Catalog *cluster.Catalog
}

// maxPassed bounds how many addresses are passed over in one search, since slices name them.
const maxPassed = 8192

// Next gives holder, who is of a namespace, or of none, a free address of a pool that passes: one that no slice names, if
// there is any. passes may be nil. Next returns false when none is free.
func (s Spare) Next(pool *Pool, holder nb.Owner, passes func(netip.Addr) bool) (netip.Addr, bool) {
	a, ok, named := s.search(pool, holder, passes)
	if ok || len(named) == 0 {
		return a, ok
	}
	a = s.leastMissed(named, holder)
	outcome, _ := pool.Take(a, holder)
	return a, outcome == alloc.Taken
}

// Unnamed is Next without the addresses that slices name.
func (s Spare) Unnamed(pool *Pool, holder nb.Owner, passes func(netip.Addr) bool) (netip.Addr, bool) {
	a, ok, _ := s.search(pool, holder, passes)
	return a, ok
}

// search takes an address that no slice names, and returns those which it has passed over since slices do.
func (s Spare) search(pool *Pool, holder nb.Owner, passes func(netip.Addr) bool) (a netip.Addr, ok bool, named []netip.Addr) {
	var passed []netip.Addr
	defer func() { Release([]*Pool{pool}, passed, holder) }()
	for len(named) < maxPassed {
		if a, ok = pool.Next(holder); !ok {
			return a, ok, named
		}
		switch {
		case passes != nil && !passes(a):
		case s.Catalog.Named(a):
			named = append(named, a)
		default:
			return a, ok, nil
		}
		passed = append(passed, a)
	}
	return netip.Addr{}, false, named
}

// candidate is a free address that slices name.
type candidate struct {
	address netip.Addr
	// foreign: others than the holder's own tenant name it, too.
	foreign bool
	// names is how many of the candidates that one of its tenants names who names the fewest.
	names int
	// freed is when a pod gave it back; zero: not that anybody knows, and long ago if a pod has ever had it.
	freed time.Time
}

// leastMissed is the one of addresses that slices name which is given first: one that the holder's own tenant names alone,
// which leads its own clients astray; else one of the tenant that names most, so that nobody has others' addresses given
// away by naming many; and of these the one that was freed first.
func (s Spare) leastMissed(named []netip.Addr, holder nb.Owner) netip.Addr {
	own := s.Cluster.Share(holder.Namespace)
	shares, names := make([]map[string]struct{}, len(named)), map[string]int{}
	list := make([]candidate, len(named))
	for i, a := range named {
		namespaces, freed := s.Catalog.NamedBy(a)
		list[i], shares[i] = candidate{address: a, freed: freed.Since}, map[string]struct{}{}
		for _, namespace := range namespaces {
			shares[i][s.Cluster.Share(namespace)] = struct{}{}
		}
		for share := range shares[i] {
			names[share]++
			list[i].foreign = list[i].foreign || share != own
		}
	}
	for i := range list {
		for share := range shares[i] {
			if n := names[share]; list[i].names == 0 || n < list[i].names {
				list[i].names = n
			}
		}
	}
	return slices.MinFunc(list, func(a, b candidate) int {
		switch {
		case a.foreign != b.foreign && b.foreign:
			return -1
		case a.foreign != b.foreign:
			return 1
		}
		return cmp.Or(-cmp.Compare(a.names, b.names), a.freed.Compare(b.freed), a.address.Compare(b.address))
	}).address
}
