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
	// virtual are the Services that have an address themselves, and reverse those that have an endpoint there. Both are sorted.
	virtual map[netip.Addr][]ServiceKey
	reverse map[netip.Addr][]hosts
}

// maxPointers bounds the names of an address that a Zone tells. EndpointSlices that users write may give one address to all endpoints that
// there are, each by another name.
const maxPointers = 64

// hosts are the names that a Service gives an address: at most maxPointers, the least in order.
type hosts struct {
	service ServiceKey
	names   []string
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
		virtual:    map[netip.Addr][]ServiceKey{},
		reverse:    map[netip.Addr][]hosts{},
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
	z.point(key, r)
}

// point notes what the addresses of a Service stand for. Nothing is noted of this Service before. ClusterIPs are dialled even where the
// name stands for others.
func (z *Zone) point(key ServiceKey, r *records) {
	for _, a := range slices.Concat(r.virtual, r.service.ClusterIPs) {
		if at, found := slices.BinarySearchFunc(z.virtual[a], key, ServiceKey.compare); !found {
			z.virtual[a] = slices.Insert(z.virtual[a], at, key)
		}
	}
	for addr, names := range r.named() {
		at, _ := slices.BinarySearchFunc(z.reverse[addr], key, hosts.compare)
		z.reverse[addr] = slices.Insert(z.reverse[addr], at, hosts{key, names})
	}
}

// unpoint forgets what point noted.
func (z *Zone) unpoint(key ServiceKey, old *records) {
	for _, a := range slices.Concat(old.virtual, old.service.ClusterIPs) {
		if at, found := slices.BinarySearchFunc(z.virtual[a], key, ServiceKey.compare); found {
			z.virtual[a] = slices.Delete(z.virtual[a], at, at+1)
		}
		if len(z.virtual[a]) == 0 {
			delete(z.virtual, a)
		}
	}
	for addr := range old.named() {
		if at, found := slices.BinarySearchFunc(z.reverse[addr], key, hosts.compare); found {
			z.reverse[addr] = slices.Delete(z.reverse[addr], at, at+1)
		}
		if len(z.reverse[addr]) == 0 {
			delete(z.reverse, addr)
		}
	}
}

func (s ServiceKey) compare(o ServiceKey) int {
	return cmp.Or(strings.Compare(s.Namespace, o.Namespace), strings.Compare(s.Name, o.Name))
}

func (h hosts) compare(service ServiceKey) int { return h.service.compare(service) }

// pointersOf are the names that an address has, sorted, and at most maxPointers. A Service's own address has that one name only.
func (z *Zone) pointersOf(addr netip.Addr) (out []pointer) {
	if of := z.virtual[addr]; len(of) > 0 {
		return []pointer{{service: of[0]}}
	}
	for _, h := range z.reverse[addr] {
		for _, name := range h.names {
			if len(out) == maxPointers {
				return out
			}
			out = append(out, pointer{h.service, name})
		}
	}
	return out
}
