package controller

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// DefaultDNS is the Service for names of a cluster that says nothing else.
func DefaultDNS() model.ServiceKey {
	return model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}
}

// ParseService reads namespace/name.
func ParseService(text string) (model.ServiceKey, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return model.ServiceKey{}, fmt.Errorf("%q is not namespace/name", text)
	}
	return model.ServiceKey{Namespace: namespace, Name: name}, nil
}

// services is what the controller knows of Services and their endpoints, and where to look when something changes.
type services struct {
	byKey  map[model.ServiceKey]*model.Service
	slices map[model.SliceKey]*model.Slice
	// of finds the slices of a Service; byNamespace the Services of a namespace; behind those that a pod is behind,
	// and podsOf the pods behind one.
	of          map[model.ServiceKey]map[model.SliceKey]struct{}
	byNamespace map[string]map[model.ServiceKey]struct{}
	behind      map[model.PodKey]map[model.ServiceKey]struct{}
	podsOf      map[model.ServiceKey]map[model.PodKey]struct{}
	// at finds the Services with an endpoint that is no more than an address, by that address if it can be a face;
	// facesOf are these addresses of one.
	at      map[netip.Addr]map[model.ServiceKey]struct{}
	facesOf map[model.ServiceKey]map[netip.Addr]struct{}
	// on finds the Services with an endpoint that is there while its address is a node's, by that address; hostsOf are these
	// addresses of one.
	on      map[netip.Addr]map[model.ServiceKey]struct{}
	hostsOf map[model.ServiceKey]map[netip.Addr]struct{}
	// in finds the Services that are known in a Network, by its name.
	in map[string]map[model.ServiceKey]struct{}
	// knownIn is where a Service is known now.
	knownIn map[model.ServiceKey][]string
	// dirty Services are compiled when the pods have been looked at.
	dirty map[model.ServiceKey]struct{}
	// addressed Services hold virtual addresses of a Network's own, or wait for some; told is what the owners of Services
	// know is wrong with them.
	addressed map[model.ServiceKey]*addressed
	told      map[model.ServiceKey]told
	// warned are those whose owners have been told that clients reach endpoints of other nodes, too, by their UIDs.
	warned map[model.ServiceKey]string
	// foreign are those whose owners have been told that they have no address of the IP family of their Network, by their UIDs.
	foreign map[model.ServiceKey]string
	// published are those that a load balancer has addresses for.
	published map[model.ServiceKey]struct{}
	// holds finds a Service by a ClusterIP of its.
	holds map[netip.Addr]model.ServiceKey
}

func newServices() services {
	return services{
		byKey:       map[model.ServiceKey]*model.Service{},
		slices:      map[model.SliceKey]*model.Slice{},
		of:          map[model.ServiceKey]map[model.SliceKey]struct{}{},
		byNamespace: map[string]map[model.ServiceKey]struct{}{},
		behind:      map[model.PodKey]map[model.ServiceKey]struct{}{},
		podsOf:      map[model.ServiceKey]map[model.PodKey]struct{}{},
		at:          map[netip.Addr]map[model.ServiceKey]struct{}{},
		facesOf:     map[model.ServiceKey]map[netip.Addr]struct{}{},
		on:          map[netip.Addr]map[model.ServiceKey]struct{}{},
		hostsOf:     map[model.ServiceKey]map[netip.Addr]struct{}{},
		in:          map[string]map[model.ServiceKey]struct{}{},
		knownIn:     map[model.ServiceKey][]string{},
		dirty:       map[model.ServiceKey]struct{}{},
		addressed:   map[model.ServiceKey]*addressed{},
		told:        map[model.ServiceKey]told{},
		warned:      map[model.ServiceKey]string{},
		foreign:     map[model.ServiceKey]string{},
		published:   map[model.ServiceKey]struct{}{},
		holds:       map[netip.Addr]model.ServiceKey{},
	}
}

// apply takes Services and slices in.
func (s *services) apply(changed map[model.ServiceKey]*model.Service, slices map[model.SliceKey]*model.Slice) {
	s.noteClusterIPs(changed)
	for key, service := range changed {
		s.dirty[key] = struct{}{}
		delete(s.published, key)
		if service == nil {
			delete(s.byKey, key)
			delete(s.warned, key)
			delete(s.foreign, key)
			s.forget(key)
			continue
		}
		s.byKey[key] = service
		if len(service.Published) > 0 {
			s.published[key] = struct{}{}
		}
		add(s.byNamespace, key.Namespace, key)
	}
	for key, slice := range slices {
		if old := s.slices[key]; old != nil {
			of := model.ServiceKey{Namespace: key.Namespace, Name: old.Service}
			s.dirty[of] = struct{}{}
			drop(s.of, of, key)
			s.forget(of)
		}
		if slice == nil {
			delete(s.slices, key)
			continue
		}
		of := model.ServiceKey{Namespace: key.Namespace, Name: slice.Service}
		s.dirty[of] = struct{}{}
		s.slices[key] = slice
		add(s.of, of, key)
		add(s.byNamespace, key.Namespace, of)
	}
}

// noteClusterIPs notes who has which ClusterIP, before what changed is taken in. One may have gone from one Service to another.
func (s *services) noteClusterIPs(changed map[model.ServiceKey]*model.Service) {
	for key := range changed {
		if old := s.byKey[key]; old != nil {
			for _, a := range old.ClusterIPs {
				if s.holds[a] == key {
					delete(s.holds, a)
				}
			}
		}
	}
	for key, service := range changed {
		if service != nil {
			for _, a := range service.ClusterIPs {
				s.holds[a] = key
			}
		}
	}
}

// forget drops a Service that is not there and has no slices.
func (s *services) forget(key model.ServiceKey) {
	if s.byKey[key] == nil && len(s.of[key]) == 0 {
		drop(s.byNamespace, key.Namespace, key)
	}
}

// touchNamespace marks the Services that a namespace's labels decide about; touchPod those that a pod is behind;
// touchFaces those that have a bare address which is a face now; touchHost those that have an endpoint at what begins or ends to be
// a node's address; touchNetwork those that are known in a Network.
func (s *services) touchNamespace(name string) { maps.Copy(s.dirty, s.byNamespace[name]) }
func (s *services) touchPod(key model.PodKey)  { maps.Copy(s.dirty, s.behind[key]) }
func (s *services) touchNetwork(name string)   { maps.Copy(s.dirty, s.in[name]) }
func (s *services) touchHost(a netip.Addr)     { maps.Copy(s.dirty, s.on[a]) }
func (s *services) touchFaces(faces []netip.Addr) {
	for _, face := range faces {
		maps.Copy(s.dirty, s.at[face])
	}
}

// attach notes that a Service is known in a Network; detach drops what was noted of where it is, and of who is behind it.
func (s *services) attach(key model.ServiceKey, network string) {
	add(s.in, network, key)
	s.knownIn[key] = append(s.knownIn[key], network)
}

func (s *services) detach(key model.ServiceKey) {
	for _, network := range s.knownIn[key] {
		drop(s.in, network, key)
	}
	for pod := range s.podsOf[key] {
		drop(s.behind, pod, key)
	}
	for face := range s.facesOf[key] {
		drop(s.at, face, key)
	}
	for host := range s.hostsOf[key] {
		drop(s.on, host, key)
	}
	delete(s.knownIn, key)
	delete(s.podsOf, key)
	delete(s.facesOf, key)
	delete(s.hostsOf, key)
}

// serve compiles the Services that changed, or whose endpoints did.
func (s *State) serve() {
	mirrors := make(map[model.ServiceKey][]model.Mirror, len(s.services.dirty))
	for key := range s.services.dirty {
		s.noteAnswers(key, s.serveOne(key))
		mirrors[key] = s.mirrorsOf(key)
	}
	clear(s.services.dirty)
	s.sink.WriteMirrors(mirrors)
}

// serveOne compiles one Service and returns what it leads to, by Network. Its pods' places are looked up each time: there is
// no second copy to keep right.
func (s *State) serveOne(key model.ServiceKey) []compile.Backends {
	owner, service := nb.ServiceOwner(key.Namespace, key.Name), s.services.byKey[key]
	s.services.detach(key)
	ns := s.namespaces[key.Namespace]
	if ns == nil || service == nil && len(s.services.of[key]) == 0 {
		s.noBalancers(owner)
		return nil
	}
	// A Service without virtual addresses is mirrored when its pods or its Networks change.
	resolved := s.resolve(key, *ns)
	home := s.homeOf(*ns)
	if s.space(home) != home {
		// Of a flat Network it is known in the default one, for as long as that is flat.
		s.services.attach(key, home)
	}
	var known []compile.Backends
	var guarded []nb.Member
	for _, name := range s.networksOf(*ns, resolved) {
		s.services.attach(key, name)
		if n := s.networks[name]; service != nil && n.serves() && (n.admits(*ns) || n.standard) {
			b := compile.Backends{Layout: n.layout, VIPs: slices.Concat(s.vipsOf(key, n), s.publishedIn(*service, n))}
			b.Ports, b.Left = s.backends(*service, name, s.space(home), resolved)
			if n.answeredBy(key) {
				b.DNS = s.dnsAddresses(n)
			}
			known = append(known, b)
			if s.guards(n) {
				guarded = s.guardService(*service, b, resolved)
			}
		}
	}
	if len(known) == 0 {
		s.noBalancers(owner)
		return nil
	}
	s.departFromService(*service, known)
	facts := compile.Service(*service, known)
	facts.Members = append(facts.Members, guarded...)
	s.setBalancers(owner, facts)
	s.warnOfLocal(service)
	s.warnOfFamily(service, s.networks[home])
	return known
}

// warnOfLocal tells a Service's owner, once, that pods reach endpoints of other nodes than their own: a load balancer is the
// same on all nodes. (OVN 26.03 can keep to a node: option "distributed" of ovn-nb(5).)
func (s *State) warnOfLocal(service *model.Service) {
	if !service.Local {
		delete(s.services.warned, service.Key)
		return
	}
	if s.services.warned[service.Key] != service.UID {
		s.services.warned[service.Key] = service.UID
		s.sink.ServiceEvent(service.Key, service.UID, model.Problem{
			Reason:  model.ReasonLocalPolicyIgnored,
			Message: "internalTrafficPolicy Local is not kept for pods: they reach ready endpoints on any node. Clients on nodes themselves reach those of their own",
		})
	}
}

// warnOfFamily tells a Service's owner, once, that the pods of its Network cannot dial it: they have addresses of IPv6 alone, and
// it has none. Nor has it endpoints, since Kubernetes lists pods by the IP families of a Service.
func (s *State) warnOfFamily(service *model.Service, home *network) {
	if home == nil || home.model == nil || !home.model.OnlyIPv6() || model.HasIPv6(service.ClusterIPs) {
		delete(s.services.foreign, service.Key)
		return
	}
	if s.services.foreign[service.Key] != service.UID {
		s.services.foreign[service.Key] = service.UID
		s.sink.ServiceEvent(service.Key, service.UID, model.Problem{
			Reason:  model.ReasonNoIPv6,
			Message: fmt.Sprintf("Network %q has addresses of IPv6 alone, and the Service has none: its pods cannot dial it, and are not behind it. Make it anew with ipFamilies: [IPv6]", home.name),
		})
	}
}

// answeredBy reports whether the Network's questions for names go to a Service of the tenant.
func (n *network) answeredBy(key model.ServiceKey) bool {
	return n.model.DNS == model.DNSService && n.model.DNSService == model.ServiceRef(key)
}

// dnsAddresses are those at which a Network's pods ask for names.
func (s *State) dnsAddresses(n *network) []netip.Addr {
	dns := s.services.byKey[s.defaults.DNS]
	switch {
	case dns == nil:
		return nil
	case n.model.OnlyIPv6() && !model.HasIPv6(dns.ClusterIPs):
		return append(slices.Clone(dns.ClusterIPs), model.NamesAddress6())
	}
	return dns.ClusterIPs
}

// touchDNS marks the Services that answer instead of the cluster's, when that one's addresses may have changed.
func (s *State) touchDNS(changed map[model.ServiceKey]*model.Service) {
	if _, touched := changed[s.defaults.DNS]; !touched {
		return
	}
	for _, n := range s.networks {
		if n.model != nil && n.model.DNS == model.DNSService {
			s.services.dirty[model.ServiceKey(n.model.DNSService)] = struct{}{}
		}
	}
}

// networksOf are the Networks where the Services of a namespace are known: the namespace's own, the default one, where the
// infrastructure is that reaches everybody, and those that pods behind them are in.
func (s *State) networksOf(ns model.Namespace, endpoints []resolved) []string {
	names := map[string]struct{}{s.space(s.homeOf(ns)): {}, s.defaults.Network: {}}
	for _, e := range endpoints {
		if e.network != "" {
			names[e.network] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// homeOf is the Network that a namespace's Services belong to.
func (s *State) homeOf(ns model.Namespace) string { return cmp.Or(ns.Network(), s.defaults.Network) }

// backends are the endpoints that a Service's ports lead to for clients in a Network, and those that have been left. Those
// that are going serve when nobody else does.
func (s *State) backends(service model.Service, network, home string, endpoints []resolved) (lead, left [][]netip.AddrPort) {
	lead, left = make([][]netip.AddrPort, len(service.Ports)), make([][]netip.AddrPort, len(service.Ports))
	for i, port := range service.Ports {
		of := func(counts func(resolved) bool) []netip.AddrPort {
			var own, faces []netip.AddrPort
			for _, e := range endpoints {
				number, has := e.port(port)
				if !has || !counts(e) {
					continue
				}
				switch {
				case e.network == network, e.network == "" && network == home:
					own = append(own, netip.AddrPortFrom(e.own, number))
				case e.network != "" && network == s.defaults.Network:
					// The infrastructure reaches pods of every Network by their faces.
					faces = append(faces, netip.AddrPortFrom(e.Address, number))
				}
			}
			if len(own) > 0 {
				return own
			}
			return faces
		}
		lead[i], left[i] = of(resolved.ready), of(resolved.going)
		if len(lead[i]) == 0 {
			lead[i], left[i] = left[i], nil
		}
	}
	return lead, left
}

// ready: it takes new connections. going: it serves those that it has.
func (e resolved) ready() bool { return e.Ready }
func (e resolved) going() bool { return !e.Ready && e.Serving }
