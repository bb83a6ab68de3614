package dns

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Zone is what the pods of one Network find under the cluster's domain, and the reverse names of its addresses. It may
// be changed while it is asked.
type Zone struct {
	// domain is the cluster's, such as "cluster.local.".
	domain string
	// servers are the addresses of the DNS server itself.
	servers []netip.Addr

	mu         sync.RWMutex
	complete   bool
	serial     uint32
	services   map[ServiceKey]*records
	namespaces map[string]*namespace
	reverse    map[netip.Addr][]pointer
}

// namespace counts why a namespace exists in the Zone.
type namespace struct {
	// home: its pods belong to this Network unless they choose otherwise.
	home     bool
	services int
}

// pointer is what an address stands for: an endpoint, or with no host the Service itself.
type pointer struct {
	service ServiceKey
	host    string
}

// newZone makes an empty Zone for a cluster's domain; servers are the addresses that pods ask.
func newZone(domain string, servers []netip.Addr) *Zone {
	return &Zone{
		domain:     strings.ToLower(dns.Fqdn(domain)),
		servers:    servers,
		services:   map[ServiceKey]*records{},
		namespaces: map[string]*namespace{},
		reverse:    map[netip.Addr][]pointer{},
	}
}

// setComplete says that the Zone holds all that there is: from now on what is missing does not exist.
func (z *Zone) setComplete() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.complete = true
}

// setHome says whether a namespace exists even without Services.
func (z *Zone) setHome(name string, home bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	ns := z.namespaces[name]
	if ns == nil {
		ns = &namespace{}
		z.namespaces[name] = ns
	}
	ns.home = home
	z.forget(name, ns)
	z.serial++
}

func (z *Zone) forget(name string, ns *namespace) {
	if !ns.home && ns.services == 0 {
		delete(z.namespaces, name)
	}
}

// set replaces the records of one Service; nil removes them.
func (z *Zone) set(key ServiceKey, r *records) {
	z.mu.Lock()
	defer z.mu.Unlock()
	old := z.services[key]
	if old == nil && r == nil {
		return
	}
	z.serial++
	if old != nil {
		z.unpoint(key, old)
	}
	switch {
	case r == nil:
		delete(z.services, key)
		ns := z.namespaces[key.Namespace]
		ns.services--
		z.forget(key.Namespace, ns)
		return
	case old == nil:
		ns := z.namespaces[key.Namespace]
		if ns == nil {
			ns = &namespace{}
			z.namespaces[key.Namespace] = ns
		}
		ns.services++
	}
	z.services[key] = r
	for p, addr := range r.pointers(key) {
		if at := z.reverse[addr]; !slices.Contains(at, p) {
			z.reverse[addr] = append(at, p)
		}
	}
}

func (z *Zone) unpoint(key ServiceKey, old *records) {
	for _, addr := range old.pointers(key) {
		left := slices.DeleteFunc(z.reverse[addr], func(p pointer) bool { return p.service == key })
		if len(left) == 0 {
			delete(z.reverse, addr)
		} else {
			z.reverse[addr] = left
		}
	}
}

// pointers yields what the reverse names of a Service's addresses point to.
func (r *records) pointers(key ServiceKey) func(yield func(pointer, netip.Addr) bool) {
	return func(yield func(pointer, netip.Addr) bool) {
		// ClusterIPs are dialled even where the name stands for others.
		for _, a := range slices.Concat(r.virtual, r.service.ClusterIPs) {
			if !yield(pointer{service: key}, a) {
				return
			}
		}
		for _, e := range r.endpoints {
			if !yield(pointer{service: key, host: e.host}, e.addr) {
				return
			}
		}
	}
}

// pointersOf are the names that an address has, sorted. A Service's own address has that one name only.
func (z *Zone) pointersOf(addr netip.Addr) []pointer {
	at := slices.SortedFunc(slices.Values(z.reverse[addr]), func(a, b pointer) int {
		return cmp.Or(strings.Compare(a.service.Namespace, b.service.Namespace),
			strings.Compare(a.service.Name, b.service.Name), strings.Compare(a.host, b.host))
	})
	if i := slices.IndexFunc(at, func(p pointer) bool { return p.host == "" }); i >= 0 {
		return at[i : i+1]
	}
	return at
}
