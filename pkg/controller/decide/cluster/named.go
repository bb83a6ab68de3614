package cluster

import (
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// named finds the addresses that EndpointSlices name as endpoints, whether a pod has them or not.
//
// The old Endpoints objects do not count. kube-proxy, cluster DNS and Atoll read slices alone. kube-controller-manager writes
// slices for the Endpoints of a Service without a selector, and these count; it leaves out Endpoints with the label
// endpointslice.kubernetes.io/skip-mirror and those of a Service with a selector, and then nobody leads clients by them. The API
// server reads Endpoints for services/proxy, and dials an address only if a pod of that namespace has it.
type named map[netip.Addr]naming

// naming is who names an address.
type naming struct {
	namers []namer
	freed  Freed
}

// Freed says of which namespace the last pod was that gave an address back while slices named it, and when; zero: none has,
// as far as this controller knows.
type Freed struct {
	Namespace string
	Since     time.Time
}

// namer counts the endpoints by which the slices of a namespace name an address.
type namer struct {
	namespace string
	times     int
}

// takeNames notes what slices name instead of what they named before. The new names come first: an address that goes from
// one slice to another keeps the time at which it was freed.
func (c *Catalog) takeNames(changed map[model.SliceKey]*model.Slice) {
	before := func(key model.SliceKey) *model.Slice { return c.slices[c.serviceOf[key]][key] }
	for key, now := range changed {
		if !sameAddresses(before(key), now) {
			c.note(key.Namespace, now, 1)
		}
	}
	for key, now := range changed {
		if old := before(key); !sameAddresses(old, now) {
			c.note(key.Namespace, old, -1)
		}
	}
}

// sameAddresses reports whether two slices name the same addresses in the same order: most changes of a slice are of conditions.
func sameAddresses(a, b *model.Slice) bool {
	same := func(a, b model.Endpoint) bool { return a.Address == b.Address }
	return a == b || a != nil && b != nil && slices.EqualFunc(a.Endpoints, b.Endpoints, same)
}

func (c *Catalog) note(namespace string, s *model.Slice, more int) {
	if s == nil {
		return
	}
	for _, e := range s.Endpoints {
		if c.named.count(e.Address, namespace, more); !c.Named(e.Address) {
			c.AddressFreed.Changed(e.Address)
		}
	}
}

// count counts the endpoints by which a namespace's slices name an address.
func (n named) count(a netip.Addr, namespace string, more int) {
	entry := n[a]
	i := slices.IndexFunc(entry.namers, func(n namer) bool { return n.namespace == namespace })
	if i < 0 {
		i, entry.namers = len(entry.namers), append(entry.namers, namer{namespace: namespace})
	}
	if entry.namers[i].times += more; entry.namers[i].times == 0 {
		entry.namers = slices.Delete(entry.namers, i, i+1)
	}
	if n[a] = entry; len(entry.namers) == 0 {
		delete(n, a)
	}
}

// Named reports whether any EndpointSlice names an address as an endpoint. Whoever goes by slices, as kube-proxy does, leads
// clients to whichever pod has it.
func (c *Catalog) Named(a netip.Addr) bool {
	_, is := c.named[a]
	return is
}

// NamedBy are the namespaces whose slices name an address, and the pod that gave it back.
func (c *Catalog) NamedBy(a netip.Addr) (namespaces []string, freed Freed) {
	entry := c.named[a]
	for _, n := range entry.namers {
		namespaces = append(namespaces, n.namespace)
	}
	return namespaces, entry.freed
}

// Free notes that a pod gave addresses back. Of those that no slice names nothing is kept.
func (c *Catalog) Free(addresses []netip.Addr, freed Freed) {
	for _, a := range addresses {
		if entry, is := c.named[a]; is {
			entry.freed = freed
			c.named[a] = entry
		}
	}
}
