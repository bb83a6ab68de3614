package controller

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/model"
)

// resolved is an endpoint and where it is.
type resolved struct {
	model.Endpoint
	// network of the pod; empty for an address that is no pod's.
	network string
	// own is the address there.
	own   netip.Addr
	ports []model.SlicePort
}

// resolve finds out where the endpoints of a namespace's Service are, and notes whose comings and goings change that.
func (s *State) resolve(key model.ServiceKey, ns model.Namespace) []resolved {
	var out []resolved
	for _, sliceKey := range slices.SortedFunc(maps.Keys(s.services.of[key]), func(a, b model.SliceKey) int { return strings.Compare(a.Name, b.Name) }) {
		slice := s.services.slices[sliceKey]
		for _, e := range slice.Endpoints {
			if e.Pod.Name == "" && s.canBeFace(e.Address) {
				add(s.services.at, e.Address, key)
				add(s.services.facesOf, key, e.Address)
			}
			if pod := s.podOf(e, ns); pod.Name != "" {
				add(s.services.behind, pod, key)
				add(s.services.podsOf, key, pod)
				if s.pods[pod] == nil {
					add(s.services.on, e.Address, key)
					add(s.services.hostsOf, key, e.Address)
				}
			}
			r := resolved{Endpoint: e, ports: slice.Ports}
			var there bool
			if r.network, r.own, there = s.placeOf(e, ns); there {
				r.network = s.space(r.network)
				out = append(out, r)
			}
		}
	}
	return out
}

// placeOf is where an endpoint is, and its own address there: of a pod, its address of the endpoint's IP family; what is no
// pod's stays as it is, and so does the address of a pod on its node's own network, which is the node's. A pod that has no
// port is nowhere; one that has gone, or whose name another pod has now, too.
func (s *State) placeOf(e model.Endpoint, ns model.Namespace) (network string, own netip.Addr, there bool) {
	key := s.podOf(e, ns)
	if key.Name == "" {
		return "", e.Address, true
	}
	p := s.pods[key]
	if p == nil {
		return "", e.Address, s.isNode(e.Address)
	}
	if e.PodUID != "" && e.PodUID != p.UID || !p.plugged || p.attachment == nil {
		return "", netip.Addr{}, false
	}
	for _, a := range p.attachment.Addresses {
		if a.Addr().Is4() == e.Address.Is4() {
			return p.network, a.Addr(), true
		}
	}
	return "", netip.Addr{}, false
}

// podOf is the pod of an endpoint: the one that its slice names, else the one of the namespace's own Network whose face its
// address is. Who writes slices by hand knows of pods what the API says of them, and inside their Network an endpoint is
// dialled by its own address. No other Network's pod is found, so that nobody reaches it or learns who has a face; nor is
// one of a Network that the namespace may not use.
func (s *State) podOf(e model.Endpoint, ns model.Namespace) model.PodKey {
	if e.Pod.Name != "" {
		return e.Pod
	}
	key, held := s.holderOf(e.Address)
	if !held {
		return model.PodKey{}
	}
	home := s.homeOf(ns)
	p, n := s.pods[key], s.networks[home]
	if p == nil || p.network != home || !p.plugged || !n.serves() || !n.admits(ns) {
		return model.PodKey{}
	}
	return key
}

// canBeFace reports whether an address is of the ranges of faces.
func (s *State) canBeFace(a netip.Addr) bool {
	for _, r := range s.faces {
		if r.Range().Contains(a) {
			return true
		}
	}
	return false
}

// holderOf is the pod that has a face.
func (s *State) holderOf(face netip.Addr) (model.PodKey, bool) {
	for _, r := range s.faces {
		n := s.nodes[r.Holder(face)]
		if n == nil {
			continue
		}
		if pool := n.pool(face.Is4()); pool != nil {
			namespace, name, held := strings.Cut(pool.Holder(face), "/")
			return model.PodKey{Namespace: namespace, Name: name}, held
		}
	}
	return model.PodKey{}, false
}

// isNode reports whether an address is a node's.
func (s *State) isNode(a netip.Addr) bool {
	_, ok := s.nodeAddresses[a]
	return ok
}

// port is the number of the endpoint's port that a Service's port leads to.
func (e resolved) port(of model.ServicePort) (uint16, bool) {
	for _, p := range e.ports {
		if p.Name == of.Name && p.Protocol == of.Protocol {
			return p.Port, true
		}
	}
	return 0, false
}
