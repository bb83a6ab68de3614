package cluster

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Catalog has the Services of the cluster and their EndpointSlices.
type Catalog struct {
	// ServiceChanged tells of Services that came, changed or went, and SlicesChanged of those whose slices did.
	ServiceChanged, SlicesChanged *pass.Topic[model.ServiceKey]
	// AddressFreed tells of ClusterIPs that a Service has no more, and of addresses that no slice names any more.
	AddressFreed *pass.Topic[netip.Addr]

	services map[model.ServiceKey]*model.Service
	slices   map[model.ServiceKey]map[model.SliceKey]*model.Slice
	// serviceOf finds the Service of a slice, and holders the Service that has a ClusterIP.
	serviceOf map[model.SliceKey]model.ServiceKey
	holders   map[netip.Addr]model.ServiceKey
	// named finds who names an address as an endpoint.
	named named
}

// NewCatalog makes an empty catalog, which changes in a stage.
func NewCatalog(stage pass.Stage) *Catalog {
	return &Catalog{
		ServiceChanged: pass.NewTopic[model.ServiceKey](stage), SlicesChanged: pass.NewTopic[model.ServiceKey](stage),
		AddressFreed: pass.NewTopic[netip.Addr](stage),
		services:     map[model.ServiceKey]*model.Service{}, slices: map[model.ServiceKey]map[model.SliceKey]*model.Slice{},
		serviceOf: map[model.SliceKey]model.ServiceKey{}, holders: map[netip.Addr]model.ServiceKey{}, named: named{},
	}
}

// Take takes Services and slices in; nil ones have gone.
func (c *Catalog) Take(changed map[model.ServiceKey]*model.Service, changedSlices map[model.SliceKey]*model.Slice) {
	// An address may have gone from one Service to another.
	for key, service := range changed {
		if old := c.services[key]; old != nil {
			for _, a := range old.ClusterIPs {
				if c.holders[a] == key {
					delete(c.holders, a)
				}
				if service == nil || !slices.Contains(service.ClusterIPs, a) {
					c.AddressFreed.Changed(a)
				}
			}
		}
	}
	for key, service := range changed {
		if service == nil {
			delete(c.services, key)
		} else {
			c.services[key] = service
			for _, a := range service.ClusterIPs {
				c.holders[a] = key
			}
		}
		c.ServiceChanged.Changed(key)
	}
	c.takeNames(changedSlices)
	for key, slice := range changedSlices {
		c.takeSlice(key, slice)
	}
}

func (c *Catalog) takeSlice(key model.SliceKey, slice *model.Slice) {
	if service, had := c.serviceOf[key]; had {
		delete(c.serviceOf, key)
		delete(c.slices[service], key)
		if len(c.slices[service]) == 0 {
			delete(c.slices, service)
		}
		c.SlicesChanged.Changed(service)
	}
	if slice == nil {
		return
	}
	service := model.ServiceKey{Namespace: key.Namespace, Name: slice.Service}
	c.serviceOf[key] = service
	if c.slices[service] == nil {
		c.slices[service] = map[model.SliceKey]*model.Slice{}
	}
	c.slices[service][key] = slice
	c.SlicesChanged.Changed(service)
}

// Service is a Service that has virtual addresses; nil when there is none.
func (c *Catalog) Service(key model.ServiceKey) *model.Service { return c.services[key] }

// Slices are those of a Service, by their names.
func (c *Catalog) Slices(key model.ServiceKey) []*model.Slice {
	out := make([]*model.Slice, 0, len(c.slices[key]))
	for _, slice := range c.slices[key] {
		out = append(out, slice)
	}
	slices.SortFunc(out, func(a, b *model.Slice) int { return strings.Compare(a.Key.Name, b.Key.Name) })
	return out
}

// Known reports whether anything is known of a Service.
func (c *Catalog) Known(key model.ServiceKey) bool {
	return c.services[key] != nil || len(c.slices[key]) > 0
}

// HasClusterIP reports whether an address is a ClusterIP of a Service.
func (c *Catalog) HasClusterIP(a netip.Addr) bool {
	_, has := c.holders[a]
	return has
}
