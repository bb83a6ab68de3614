package dns

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/model"
)

// apiService is the Kubernetes API's Service: the one name of another Network that exists in a Network with access to
// the infrastructure.
var apiService = ServiceKey{Namespace: "default", Name: "kubernetes"}

// Directory holds what the cluster has, and keeps the Zones of the Networks that this node serves in step with it. A
// Network sees
//
//   - the Services of the namespaces whose pods belong to it unless they choose otherwise, if they may attach,
//   - the Services that have endpoints in it, wherever they are,
//   - the Kubernetes API's, unless infraAccess is none.
type Directory struct {
	domain  string
	servers []netip.Addr

	mu         sync.Mutex
	complete   bool
	namespaces map[string]*model.Namespace
	services   map[string]map[string]*Service // by namespace and name
	slices     map[SliceKey]*Slice
	behind     map[ServiceKey]map[string]map[SliceKey]*Slice // by Network
	within     map[string]map[ServiceKey]int                 // slices by Network and Service
	members    map[string]map[string]struct{}                // namespaces by the Network that they chose
	served     map[string]*served
}

// served is a Network with pods on this node.
type served struct {
	network *model.Network
	zone    *Zone
}

// NewDirectory makes an empty Directory. servers are the addresses at which pods ask, domain is the cluster's.
func NewDirectory(domain string, servers []netip.Addr) *Directory {
	return &Directory{
		domain:     domain,
		servers:    servers,
		namespaces: map[string]*model.Namespace{},
		services:   map[string]map[string]*Service{},
		slices:     map[SliceKey]*Slice{},
		behind:     map[ServiceKey]map[string]map[SliceKey]*Slice{},
		within:     map[string]map[ServiceKey]int{},
		members:    map[string]map[string]struct{}{},
		served:     map[string]*served{},
	}
}

// SetComplete says that all that the cluster holds has been handed over once. Before that, names that are not known are
// failures.
func (d *Directory) SetComplete() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.complete = true
	for _, s := range d.served {
		s.zone.setComplete()
	}
}

// SetNamespace takes over a namespace as it is now.
func (d *Directory) SetNamespace(ns *model.Namespace) { d.setNamespace(ns.Name, ns) }

// RemoveNamespace takes a namespace away.
func (d *Directory) RemoveNamespace(name string) { d.setNamespace(name, nil) }

func (d *Directory) setNamespace(name string, ns *model.Namespace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.namespaces[name]
	var touched []string
	if old != nil {
		touched = append(touched, old.Network())
		remove(d.members, old.Network(), name)
		delete(d.namespaces, name)
	}
	if ns != nil {
		touched = append(touched, ns.Network())
		put(d.members, ns.Network(), name, struct{}{})
		d.namespaces[name] = ns
	}
	slices.Sort(touched)
	for _, network := range slices.Compact(touched) {
		if s := d.served[network]; s != nil {
			d.refreshNamespace(s, name)
		}
	}
}

// SetService takes over a Service as it is now.
func (d *Directory) SetService(service *Service) { d.setService(service.ServiceKey, service) }

// RemoveService takes a Service away.
func (d *Directory) RemoveService(key ServiceKey) { d.setService(key, nil) }

func (d *Directory) setService(key ServiceKey, service *Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if service == nil {
		remove(d.services, key.Namespace, key.Name)
	} else {
		put(d.services, key.Namespace, key.Name, service)
	}
	if key == apiService {
		for _, s := range d.served {
			d.refresh(s, key)
		}
		return
	}
	for network := range d.behind[key] {
		if s := d.served[network]; s != nil {
			d.refresh(s, key)
		}
	}
	if ns := d.namespaces[key.Namespace]; ns != nil {
		if s := d.served[ns.Network()]; s != nil {
			d.refresh(s, key)
		}
	}
}

// SetSlice takes over endpoints as they are now.
func (d *Directory) SetSlice(key SliceKey, slice *Slice) { d.setSlice(key, slice) }

// RemoveSlice takes endpoints away.
func (d *Directory) RemoveSlice(key SliceKey) { d.setSlice(key, nil) }

func (d *Directory) setSlice(key SliceKey, slice *Slice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.slices[key]
	if old != nil {
		d.unlink(key, old)
	}
	if slice != nil {
		d.link(key, slice)
	}
	if old != nil && (slice == nil || old.Network != slice.Network || old.Service != slice.Service) {
		if s := d.served[old.Network]; s != nil {
			d.refresh(s, old.Service)
		}
	}
	if slice != nil {
		if s := d.served[slice.Network]; s != nil {
			d.refresh(s, slice.Service)
		}
	}
}

func (d *Directory) link(key SliceKey, slice *Slice) {
	d.slices[key] = slice
	networks := d.behind[slice.Service]
	if networks == nil {
		networks = map[string]map[SliceKey]*Slice{}
		d.behind[slice.Service] = networks
	}
	put(networks, slice.Network, key, slice)
	put(d.within, slice.Network, slice.Service, d.within[slice.Network][slice.Service]+1)
}

func (d *Directory) unlink(key SliceKey, slice *Slice) {
	delete(d.slices, key)
	remove(d.behind[slice.Service], slice.Network, key)
	if len(d.behind[slice.Service]) == 0 {
		delete(d.behind, slice.Service)
	}
	if left := d.within[slice.Network][slice.Service] - 1; left > 0 {
		d.within[slice.Network][slice.Service] = left
	} else {
		remove(d.within, slice.Network, slice.Service)
	}
}

// Serve makes the Zone of a Network, or brings it in step with a change of the Network.
func (d *Directory) Serve(network *model.Network) *Zone {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.served[network.Name]
	if s == nil {
		s = &served{zone: newZone(d.domain, d.servers)}
		d.served[network.Name] = s
	}
	s.network = network
	for key := range d.within[network.Name] {
		d.refresh(s, key)
	}
	for name := range d.members[network.Name] {
		d.refreshNamespace(s, name)
	}
	d.refresh(s, apiService)
	if d.complete {
		s.zone.setComplete()
	}
	return s.zone
}

// Leave forgets a Network's Zone.
func (d *Directory) Leave(network string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.served, network)
}

// refreshNamespace brings the records of a namespace's Services in step. The caller holds mu.
func (d *Directory) refreshNamespace(s *served, name string) {
	s.zone.setHome(name, d.home(s, name))
	for service := range d.services[name] {
		d.refresh(s, ServiceKey{Namespace: name, Name: service})
	}
}

// home reports whether pods of a namespace belong to the Network unless they choose otherwise.
func (d *Directory) home(s *served, name string) bool {
	ns := d.namespaces[name]
	return ns != nil && ns.Network() == s.network.Name && s.network.Admits(*ns)
}

// refresh brings the records of one Service in one Network in step. The caller holds mu.
func (d *Directory) refresh(s *served, key ServiceKey) {
	service := d.services[key.Namespace][key.Name]
	behind := slices.Collect(maps.Values(d.behind[key][s.network.Name]))
	api := key == apiService && s.network.Infra != model.InfraNone
	if service == nil || !api && !inhabited(behind) && !d.home(s, key.Namespace) {
		s.zone.set(key, nil)
		return
	}
	s.zone.set(key, newRecords(service, d.virtual(s, service), behind))
}

// virtual are the addresses that a Service's name stands for in a Network: its ClusterIPs, but where it has an address of
// the Network's own, that one instead of the ClusterIP of the same IP family. It has some in the Network of its namespace
// only, and out of that Network's ranges: so much of what is written on a Service is checked here again.
//
// The Kubernetes API has an address that pods of a Network of IPv6 alone can dial, if the cluster gave it none.
func (d *Directory) virtual(s *served, service *Service) []netip.Addr {
	own, n := service.Own, s.network
	if service.ServiceKey == apiService && n.OnlyIPv6() && !model.HasIPv6(service.ClusterIPs) {
		return []netip.Addr{model.APIAddress6()}
	}
	if own == nil || own.Network != n.Name || own.NetworkUID != n.UID || !d.home(s, service.Namespace) {
		return service.ClusterIPs
	}
	out := slices.Clone(service.ClusterIPs)
	for i, ip := range out {
		for _, a := range own.Addresses {
			if a.Is4() == ip.Is4() && slices.ContainsFunc(n.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
				out[i] = a
			}
		}
	}
	return out
}

func inhabited(behind []*Slice) bool {
	return slices.ContainsFunc(behind, func(s *Slice) bool { return len(s.Endpoints) > 0 })
}

func put[A, B comparable, V any](in map[A]map[B]V, a A, b B, v V) {
	inner := in[a]
	if inner == nil {
		inner = map[B]V{}
		in[a] = inner
	}
	inner[b] = v
}

func remove[A, B comparable, V any](in map[A]map[B]V, a A, b B) {
	delete(in[a], b)
	if len(in[a]) == 0 {
		delete(in, a)
	}
}
