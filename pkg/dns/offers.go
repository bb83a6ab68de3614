package dns

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Which names of its providers a Network knows says visible.Asker; whether one Network reaches another says package compatible.

// reached are endpoints as a Network reaches them.
type reached struct {
	*Slice

	key SliceKey
	// faces: they are in another Network, and are reached by their faces.
	faces bool
}

// addressOf is the address by which an endpoint is reached; the zero value: it is not.
func (r reached) addressOf(e Endpoint) netip.Addr {
	if r.faces {
		return e.Face
	}
	return e.Address
}

// SetNetwork takes over a Network as it is now: each one of the cluster, whether this node serves it or not.
func (d *Directory) SetNetwork(network *model.Network) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.setNetwork(network.Name, network)
}

// RemoveNetwork takes a Network away. A later one of its name stays.
func (d *Directory) RemoveNetwork(name, uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := d.networks[name]; n != nil && n.UID == uid {
		d.setNetwork(name, nil)
	}
}

// setNetwork does the work of both. The caller holds mu.
func (d *Directory) setNetwork(name string, network *model.Network) {
	if d.networks[name] = network; network == nil {
		delete(d.networks, name)
	}
	for _, told := range d.compatible.Set(name, network) {
		if s := d.served[told]; s != nil {
			d.meet(s)
		}
	}
	// Whom it admits and which ranges it has decide what its consumers know.
	for _, s := range d.consumers[name] {
		d.refreshOffers(s, name)
	}
}

// meet brings in step whose names a Network knows. The caller holds mu.
func (d *Directory) meet(s *served) {
	before, now := s.providers, d.compatible.Providers(s.network.Name)
	ranged := s.ranged
	s.providers, s.ranged = now, d.compatible.Ranged(s.network.Name)
	for _, provider := range before {
		if !slices.Contains(now, provider) {
			remove(d.consumers, provider, s.network.Name)
			d.refreshOffers(s, provider)
		}
	}
	for _, provider := range now {
		switch {
		case !slices.Contains(before, provider):
			put(d.consumers, provider, s.network.Name, s)
			d.refreshOffers(s, provider)
		case slices.Contains(ranged, provider) != slices.Contains(s.ranged, provider):
			d.refreshOffers(s, provider)
		}
	}
}

// refreshOffers brings in step what a consumer knows of a provider: its Services, and those of others that have endpoints there. The caller
// holds mu.
func (d *Directory) refreshOffers(s *served, provider string) {
	for name := range d.members[provider] {
		d.refreshNamespace(s, name)
	}
	for key := range d.within[provider] {
		d.refresh(s, key)
	}
}

// looking are the served Networks that may know something of what is in these: themselves and their consumers, each once. The caller holds
// mu.
func (d *Directory) looking(networks ...string) iter.Seq[*served] {
	return func(yield func(*served) bool) {
		done := map[*served]struct{}{}
		once := func(s *served) bool {
			if _, again := done[s]; again || s == nil {
				return true
			}
			done[s] = struct{}{}
			return yield(s)
		}
		for _, network := range networks {
			if !once(d.served[network]) {
				return
			}
			for _, s := range d.consumers[network] {
				if !once(s) {
					return
				}
			}
		}
	}
}
