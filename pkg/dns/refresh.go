package dns

import (
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
)

// refreshNamespace brings the records of a namespace's Services in step. The caller holds mu.
func (d *Directory) refreshNamespace(s *served, name string) {
	s.zone.setHome(name, visible.Looker{Network: s.network}.Sees(inNamespace(d.namespaces[name], false)))
	for service := range d.services[name] {
		d.refresh(s, ServiceKey{Namespace: name, Name: service})
	}
}

// inNamespace is what of a namespace's Service decides who sees it.
func inNamespace(ns *model.Namespace, behind bool) visible.Service {
	out := visible.Service{Namespace: ns, Behind: behind}
	if ns != nil {
		out.Home = ns.Home()
	}
	return out
}

// refresh brings the records of one Service in one Network in step. The caller holds mu.
func (d *Directory) refresh(s *served, key ServiceKey) {
	service := d.services[key.Namespace][key.Name]
	if service == nil || service.refused() {
		s.zone.set(key, nil)
		return
	}
	behind := d.behind[key]
	named := visible.Named{
		Key: model.ServiceKey(key), Service: inNamespace(d.namespaces[key.Namespace], inhabited(behind[s.network.Name])),
		ClusterIPs: service.ClusterIPs, Own: service.Own,
	}
	asker := visible.Asker{Looker: visible.Looker{Network: s.network}, Networks: d.networks, Peers: d.compatible}
	knows := asker.Knows(named)
	if !knows.Any() {
		s.zone.set(key, nil)
		return
	}
	var from []reached
	for network, list := range behind {
		how := asker.Reaches(named, knows, network)
		if how == visible.Unreached {
			continue
		}
		for key, slice := range list {
			from = append(from, reached{Slice: slice, key: key, faces: how == visible.ByFace})
		}
	}
	s.zone.set(key, newRecords(service, asker.Addresses(named, knows), from))
}

func inhabited(behind map[SliceKey]*Slice) bool {
	for _, s := range behind {
		if len(s.Endpoints) > 0 {
			return true
		}
	}
	return false
}
