package dns

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
)

// apiService is the Kubernetes API's Service.
var apiService = ServiceKey(visible.APIKey())

// Directory holds what the cluster has, and keeps the Zones of the Networks that this node serves in step with it. Package visible says
// which names of Services a Network knows, and what they stand for there.
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
	networks   map[string]*model.Network // all of the cluster
	compatible *compatible.Networks
	consumers  map[string]map[string]*served // those served, by the providers whose names they know
}

// served is a Network with pods on this node.
type served struct {
	network *model.Network
	zone    *Zone
	// providers are the Networks whose names are known here.
	providers []string
	// ranged are those of them whose Services are dialled by addresses of their own ranges.
	ranged []string
}

// NewDirectory makes an empty Directory. servers are the addresses at which pods ask, domain is the cluster's, and settings say which
// Networks can reach each other.
func NewDirectory(domain string, servers []netip.Addr, settings compatible.Settings) *Directory {
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
		networks:   map[string]*model.Network{},
		compatible: compatible.New(settings),
		consumers:  map[string]map[string]*served{},
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
		touched = append(touched, old.Home())
		remove(d.members, old.Home(), name)
		delete(d.namespaces, name)
	}
	if ns != nil {
		touched = append(touched, ns.Home())
		put(d.members, ns.Home(), name, struct{}{})
		d.namespaces[name] = ns
	}
	// Of Services with endpoints in a Network it decides, too, whether they are seen there.
	for service := range d.services[name] {
		touched = slices.AppendSeq(touched, maps.Keys(d.behind[ServiceKey{Namespace: name, Name: service}]))
	}
	for s := range d.looking(touched...) {
		d.refreshNamespace(s, name)
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
	networks := slices.Collect(maps.Keys(d.behind[key]))
	if ns := d.namespaces[key.Namespace]; ns != nil {
		networks = append(networks, ns.Home())
	}
	for s := range d.looking(networks...) {
		d.refresh(s, key)
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
		for s := range d.looking(old.Network) {
			d.refresh(s, old.Service)
		}
	}
	if slice != nil {
		for s := range d.looking(slice.Network) {
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
	d.meet(s)
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
	if s := d.served[network]; s != nil {
		for _, provider := range s.providers {
			remove(d.consumers, provider, network)
		}
		delete(d.served, network)
	}
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
