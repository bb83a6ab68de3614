package services

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxPairsOfTenant bounds the pairs of a port and an endpoint of all Services of a tenant: with 20 bytes each they are 2.6
// MB in OVN's databases, in each Network that knows the Services.
const maxPairsOfTenant = 8 * model.MaxServicePairs

// maxEndpoints is how many endpoints of each IP family a Service's ports lead to.
func maxEndpoints(service model.Service) int {
	return model.MaxServicePairs / max(1, len(service.Ports))
}

// weight is how many pairs of a port and an endpoint a Service has at most in one Network. A port without endpoints counts, too.
func (s *Stage) weight(service *model.Service) int {
	four, six := 0, 0
	for _, slice := range s.world.Catalog.Slices(service.Key) {
		for _, e := range slice.Endpoints {
			if e.Address.Is4() {
				four++
			} else {
				six++
			}
		}
	}
	return len(service.Ports) * min(max(four, six, 1), maxEndpoints(*service))
}

// beyond says why a Service is not served though it is known: its tenant has too many, or they have too many endpoints. Nil:
// it is served.
func (s *Stage) beyond(key model.ServiceKey) *model.Problem {
	if p := s.world.Quotas.Beyond(key); p != nil || !s.loads.Beyond(key) {
		return p
	}
	return new(model.Problemf(model.ReasonServicesTooLarge,
		"it is not served: its namespace's tenant has Services with more than %d pairs of a port and an endpoint, and the "+
			"older come before the younger; delete Services, or give them fewer ports or pods", maxPairsOfTenant))
}

// served reports whether Networks know a Service. One of another proxy none does: kube-proxy leaves it alone, too.
func (s *Stage) served(service *model.Service) bool {
	return service != nil && !service.OfAnotherProxy && s.beyond(service.Key) == nil
}

// bounded are the endpoints of a Service that its ports lead to: of too many the ready ones first, then those that still
// serve, and of these the first by their addresses. What comes and goes beyond these changes nothing.
func bounded(service *model.Service, endpoints []resolved) []resolved {
	if service == nil || len(endpoints) <= maxEndpoints(*service) {
		return endpoints
	}
	rank := func(e resolved) int {
		switch {
		case e.ready():
			return 0
		case e.going():
			return 1
		}
		return 2
	}
	sorted := slices.Clone(endpoints)
	slices.SortStableFunc(sorted, func(a, b resolved) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Address.Compare(b.Address))
	})
	kept := map[bool]int{}
	return slices.DeleteFunc(sorted, func(e resolved) bool {
		kept[e.Address.Is4()]++
		return kept[e.Address.Is4()] > maxEndpoints(*service)
	})
}

// warnOfSize tells a Service's owner, once, that not all of it is served. known and served count its endpoints.
func (s *Stage) warnOfSize(service *model.Service, known, served int) {
	if service == nil {
		return
	}
	var p model.Problem
	switch {
	case service.Beyond > 0:
		p = model.Problemf(model.ReasonServiceTooLarge,
			"its first %d ports are served, and not the %d after these: divide it into several Services", model.MaxServicePorts, service.Beyond)
	case served < known:
		p = model.Problemf(model.ReasonServiceTooLarge,
			"it has %d endpoints, and its %d ports lead to %d of an IP family, as %d pairs of a port and an endpoint are served: "+
				"divide it into several Services, or give it fewer ports", known, len(service.Ports), maxEndpoints(*service), model.MaxServicePairs)
	}
	s.warnOnce(s.large, service, p.Reason != "", p)
}
