package dns

import (
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
)

// refreshNamespace brings the records of a namespace's Services in step. The caller holds mu.
func (d *Directory) refreshNamespace(s *served, name string) {
	s.zone.setHome(name, home(s.network, d.namespaces[name]))
	for service := range d.services[name] {
		d.refresh(s, ServiceKey{Namespace: name, Name: service})
	}
}

// home reports whether pods of a namespace belong to a Network unless they choose otherwise.
func home(n *model.Network, ns *model.Namespace) bool {
	return visible.Looker{Network: n}.Sees(seen(ns, false))
}

// seen is what of a namespace's Service decides who sees it.
func seen(ns *model.Namespace, behind bool) visible.Service {
	out := visible.Service{Namespace: ns, Behind: behind}
	if ns != nil {
		out.Home = ns.Home()
	}
	return out
}

// refresh brings the records of one Service in one Network in step. The caller holds mu.
func (d *Directory) refresh(s *served, key ServiceKey) {
	service, ns := d.services[key.Namespace][key.Name], d.namespaces[key.Namespace]
	behind := d.behind[key][s.network.Name]
	api := key == apiService && s.network.Infra != model.InfraNone
	sees := api || visible.Looker{Network: s.network}.Sees(seen(ns, inhabited(behind)))
	provider := d.provider(s, key)
	if service == nil || service.refused() || !sees && provider == nil {
		s.zone.set(key, nil)
		return
	}
	n, from := s.network, []reached(nil)
	if sees {
		from = within(behind)
	}
	if provider != nil {
		n, from = provider, append(from, d.abroad(s, key)...)
	}
	addresses := d.virtual(n, service)
	if provider != nil && !slices.Contains(s.ranged, provider.Name) {
		addresses = service.ClusterIPs
	}
	s.zone.set(key, newRecords(service, addresses, from))
}

// virtual are the addresses that a Service's name stands for in a Network, and in those consumers that dial addresses of its own
// ranges: its ClusterIPs, but where it has an address of the Network's own, that one instead of the ClusterIP of the same IP
// family. It has some in the Network of its namespace only, and out of that Network's ranges: so much of what is written on a
// Service is checked here again.
//
// The Kubernetes API has an address that pods of a Network of IPv6 alone can dial, if the cluster gave it none.
func (d *Directory) virtual(n *model.Network, service *Service) []netip.Addr {
	own := service.Own
	if service.ServiceKey == apiService && n.OnlyIPv6() && !model.HasIPv6(service.ClusterIPs) {
		return []netip.Addr{model.APIAddress6()}
	}
	if own == nil || own.Network != n.Name || own.NetworkUID != n.UID || !home(n, d.namespaces[service.Namespace]) {
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

func inhabited(behind map[SliceKey]*Slice) bool {
	for _, s := range behind {
		if len(s.Endpoints) > 0 {
			return true
		}
	}
	return false
}
