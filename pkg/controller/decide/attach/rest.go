package attach

import (
	"net/netip"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/networks"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// restFor is how long nobody else gets an address by asking for it that slices of its last pod's tenant still name.
// Kubernetes changes its slices within seconds. Those that somebody wrote by hand may name an address for ever, and keep
// nobody from it for longer.
const restFor = 10 * time.Minute

// freed says that a pod gives its addresses back.
func (s *Stage) freed(p *pod) cluster.Freed {
	return cluster.Freed{Namespace: p.Key.Namespace, Since: s.Database.Now}
}

// rests says why a pod cannot have an address that it asks for, yet; nil when it can. Whoever asks for the address of
// another tenant's pod that has just gone would be dialled in its place. Slices of other tenants than that pod's own count
// for nothing here: they could name any address.
func (s *Stage) rests(n *networks.Network, p *pod, wanted netip.Addr) *model.Problem {
	namespaces, freed := s.Catalog.NamedBy(wanted)
	until := freed.Since.Add(restFor)
	had := s.Cluster.Share(freed.Namespace)
	if freed.Namespace == "" || !s.Database.Now.Before(until) || had == s.Cluster.Share(p.Key.Namespace) ||
		!slices.ContainsFunc(namespaces, func(namespace string) bool { return s.Cluster.Share(namespace) == had }) {
		return nil
	}
	s.resting.Set(p.Key, until)
	return new(model.Problemf(model.ReasonAddressInUse,
		"address %s of Network %q was that of another tenant's pod, and EndpointSlices of that tenant still name it: "+
			"the pod gets the address when they do not any more, or 10 minutes after that pod went; or ask for another",
		wanted, n.Name))
}

// Turn advances the time, and queues the pods whose address is free again after its rest.
func (s *Stage) Turn(now time.Time) {
	for _, key := range s.resting.Turn(now) {
		s.resting.Set(key, time.Time{})
		s.queue.Mark(key)
	}
}

// Next is when an address has rested that a pod waits for; zero: never.
func (s *Stage) Next() time.Time { return s.resting.Next() }
