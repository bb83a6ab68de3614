package controller

import (
	"maps"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/mirror"
	"github.com/atoll-net/atoll/pkg/model"
)

// mirrorsOf are the mirrors of a Service's slices: one for each slice and Network with addresses of its own. In a flat
// Network Kubernetes' own slices have the pods' addresses.
func (s *State) mirrorsOf(key model.ServiceKey) []model.Mirror {
	var out []model.Mirror
	byName := func(a, b model.SliceKey) int { return strings.Compare(a.Name, b.Name) }
	for _, of := range slices.SortedFunc(maps.Keys(s.services.of[key]), byName) {
		out = append(out, mirror.Of(*s.services.slices[of], func(e model.Endpoint) (mirror.Place, bool) {
			return s.mirroredAt(key.Namespace, e)
		})...)
	}
	return out
}

// mirroredAt is where an endpoint of a namespace's Service is, if that is mirrored. An address that is no pod's is taken
// for one of the namespace's own Network, if the namespace may use it.
func (s *State) mirroredAt(namespace string, e model.Endpoint) (at mirror.Place, mirrored bool) {
	ns := s.namespaces[namespace]
	if ns == nil {
		return at, false
	}
	if at.Network, at.Address, mirrored = s.placeOf(e, *ns); !mirrored {
		return at, false
	}
	if at.Network == "" {
		at.Network = s.homeOf(*ns)
	}
	n := s.networks[at.Network]
	return at, n.serves() && n.model.Type == model.VPC && n.admits(*ns)
}
