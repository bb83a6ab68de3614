package services

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/drain"
	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Stage decides about Services.
type Stage struct {
	// Compiled tells of Services that may lead elsewhere, and Answering of Networks where others answer questions for names, or nobody.
	Compiled  *pass.Topic[model.ServiceKey]
	Answering *pass.Topic[string]

	world World
	sink  Sink
	// queue holds the Services that something has changed about, and rows those whose rows are to be made.
	queue, rows *pass.Queue[model.ServiceKey]
	reads       reads
	// asking are Networks whose questions for names others answer, perhaps, and answers who does where it is a Service.
	asking  *pass.Queue[string]
	answers map[string]answering
	// told is what the owners of Services know is wrong with their addresses.
	told map[model.ServiceKey]told
	// foreign has the UIDs of Services that have no address of their Network's IP family. Their owners have been told.
	foreign map[model.ServiceKey]string
	// large has those of which not all is served, and loads what the Services of tenants weigh.
	large map[model.ServiceKey]string
	loads *ledger.Loads[model.ServiceKey]
	// awaiting has those that wait for variables of nodes.
	awaiting map[model.ServiceKey]string
	places   places
}

// New makes a stage that knows no Service. It claims addresses in the stage claims, and makes rows in the stage rows, when they have
// been granted.
func New(w World, sink Sink, claims, rows pass.Stage) *Stage {
	s := &Stage{
		Compiled: pass.NewTopic[model.ServiceKey](rows), Answering: pass.NewTopic[string](rows),
		world: w, sink: sink, queue: pass.NewQueue[model.ServiceKey](claims), rows: pass.NewQueue[model.ServiceKey](rows),
		asking: pass.NewQueue[string](rows), answers: map[string]answering{}, told: map[model.ServiceKey]told{},
		foreign: map[model.ServiceKey]string{}, large: map[model.ServiceKey]string{}, awaiting: map[model.ServiceKey]string{},
		loads: ledger.NewLoads[model.ServiceKey](maxPairsOfTenant), places: newPlaces(),
	}
	s.reads = newReads(s.queue, w)
	w.Catalog.ServiceChanged.Follow(claims, s.queue.Mark)
	w.Catalog.SlicesChanged.Follow(claims, s.queue.Mark)
	w.Quotas.Turned.Follow(claims, s.queue.Mark)
	mark := func(owner nb.Owner) {
		switch owner.Kind {
		case nb.KindService:
			s.rows.Mark(keyOf(owner))
		case nb.KindNames:
			s.asking.Mark(owner.Name)
		}
	}
	w.NetworkChanged.Follow(rows, s.asking.Mark)
	w.Cluster.NodeChanged.Follow(rows, func(node string) { s.places.changed[node] = struct{}{} })
	w.Virtual.Granted.Follow(rows, mark)
	w.Balancers.Elapsed.Follow(rows, mark)
	return s
}

func keyOf(owner nb.Owner) model.ServiceKey {
	return model.ServiceKey{Namespace: owner.Namespace, Name: owner.Name}
}

func ownerOf(key model.ServiceKey) nb.Owner { return nb.ServiceOwner(key.Namespace, key.Name) }

// Compile makes the rows of the Services that something has changed about, or that were granted addresses. Their pods' places are
// looked up each time: there is no second copy to keep right.
func (s *Stage) Compile() {
	s.seeNodes()
	keys := s.rows.Take()
	mirrors := make(map[model.ServiceKey][]model.Mirror, len(keys))
	// In order: the first get the variables that are left.
	for _, key := range slices.SortedFunc(maps.Keys(keys), model.ServiceKey.Compare) {
		s.sayAddresses(key)
		s.reads.forget(key)
		l := s.look(key)
		l.serve()
		s.asking.MarkAll(s.world.Networks.Asking(key))
		mirrors[key] = l.mirrors()
		s.Compiled.Changed(key)
	}
	for network := range s.asking.Take() {
		s.answer(network)
	}
	s.places.begun = true
	s.writePlaces()
	s.sink.WriteMirrors(mirrors)
}

// Refused says that the database does not accept a Service's rows.
func (s *Stage) Refused(owner nb.Owner, problem model.Problem) {
	if service := s.world.Catalog.Service(keyOf(owner)); service != nil {
		s.sink.Event(service.Ref(), problem)
	}
}

// serve compiles a Service.
func (l look) serve() {
	service, ns := l.world.Catalog.Service(l.service), l.namespace(l.service.Namespace)
	if service == nil {
		delete(l.foreign, l.service)
		delete(l.large, l.service)
		delete(l.awaiting, l.service)
	}
	if ns == nil || !l.world.Catalog.Known(l.service) {
		l.places.want(l.service, "", nil)
		l.world.Balancers.Delete(ownerOf(l.service))
		return
	}
	if !l.served(service) {
		service = nil
	}
	// A Service without virtual addresses is mirrored when its pods or its Networks change.
	all, home := l.resolve(*ns), l.network(l.world.Cluster.HomeOf(*ns))
	endpoints := bounded(service, all)
	l.warnOfSize(service, len(all), len(endpoints))
	var known []compile.Backends
	var guarded []nb.Member
	consumers, offered := l.offer(service, *ns, home, endpoints)
	known = append(known, offered...)
	for _, name := range l.networksOf(home, consumers, endpoints) {
		n := l.network(name)
		if service == nil || !n.Serves || !l.knows(n, ns, home, endpoints) && !slices.Contains(consumers, name) {
			continue
		}
		if n.asks() && l.service == l.world.Cluster.DNS {
			// At its address another one answers there.
			continue
		}
		b := l.backends(*service, n, home.Space, endpoints)
		b.VIPs = slices.Concat(l.addressesIn(n), l.publishedIn(*service, n))
		if slices.Contains(consumers, name) {
			if b.VIPs = nil; n.Ranged(home.Name) {
				b.VIPs = l.offeredIn(home)
			}
		}
		known = append(known, b)
		if n.Guard != nil {
			guarded = l.guardPlaces(*service, n, b, endpoints)
		}
	}
	if len(known) == 0 {
		l.places.want(l.service, "", nil)
		l.world.Balancers.Delete(ownerOf(l.service))
		return
	}
	waiting := l.places.want(l.service, l.world.Cluster.Share(l.service.Namespace), compile.Variables(*service, known))
	for i := range known {
		known[i].Waiting = waiting
	}
	l.warnOfWaiting(service, len(waiting) > 0)
	l.drain(*service, known)
	facts := compile.Service(*service, known)
	facts.Members = append(facts.Members, guarded...)
	facts.Members = append(facts.Members, l.vanish(*service, endpoints)...)
	l.world.Balancers.Set(ownerOf(l.service), facts)
	l.warnOfFamily(service, home)
}

// knows reports whether the pods of a Network know the Service by themselves, and not by compatibility with another.
func (l look) knows(n Network, ns *model.Namespace, home Network, endpoints []resolved) bool {
	return l.looker(n).Sees(visible.Service{Namespace: ns, Home: home.Space, Behind: behind(endpoints, n.Name)})
}

// drain replaces the endpoints that have been left by those whose clients by UDP nodes are to forget.
func (s *Stage) drain(service model.Service, known []compile.Backends) {
	leads, serving := map[drain.Endpoint]struct{}{}, map[drain.Endpoint]struct{}{}
	for _, b := range known {
		for i, port := range service.Ports {
			if port.Protocol != model.UDP {
				continue
			}
			for _, e := range b.Ports[i] {
				leads[drain.Endpoint{Network: b.Layout.Name, Port: port.Port, Address: e}] = struct{}{}
			}
			for _, e := range b.Left[i] {
				serving[drain.Endpoint{Network: b.Layout.Name, Port: port.Port, Address: e}] = struct{}{}
			}
		}
		clear(b.Left)
	}
	for left := range s.world.Balancers.Leave(ownerOf(service.Key), leads, serving) {
		for _, b := range known {
			if b.Layout.Name != left.Network {
				continue
			}
			for i, port := range service.Ports {
				if port.Protocol == model.UDP && port.Port == left.Port {
					b.Left[i] = append(b.Left[i], left.Address)
				}
			}
		}
	}
}

// vanish makes nodes forget TCP connections to pods that were behind the Service and have vanished. A pod that only leaves the
// Service keeps its connections. Clients know a pod by its own address or by its face.
func (l look) vanish(service model.Service, endpoints []resolved) []nb.Member {
	now := map[drain.Backend]bool{}
	for _, port := range service.Ports {
		if port.Protocol != model.TCP {
			continue
		}
		for _, e := range endpoints {
			number, has := e.port(port)
			if !has || e.pod.Name == "" {
				continue
			}
			p, _ := l.pod(e.pod)
			for _, a := range []netip.Addr{e.own, e.Address} {
				b := drain.Backend{Pod: e.pod, UID: p.UID, Port: port.Port, Address: netip.AddrPortFrom(a, number)}
				now[b] = now[b] || e.going()
			}
		}
	}
	there := func(b drain.Backend) bool {
		p, known := l.pod(b.Pod)
		return known && p.UID == b.UID
	}
	vanished := map[uint16][]netip.AddrPort{}
	for _, b := range l.world.Balancers.Vanish(ownerOf(service.Key), l.world.Cluster.Share(service.Key.Namespace), now, there) {
		vanished[b.Port] = append(vanished[b.Port], b.Address)
	}
	if home := l.network(l.world.Cluster.Network); home.Serves {
		return compile.Vanished(home.Layout, service, vanished)
	}
	return nil
}

// guardPlaces are the places of a Service's virtual addresses in the guard of the default Network, when all that it leads to from
// there are pods of Networks which say the same.
func (l look) guardPlaces(service model.Service, home Network, b compile.Backends, endpoints []resolved) []nb.Member {
	says := map[netip.Addr]model.InfraIngress{}
	for _, e := range endpoints {
		if e.network == "" {
			continue
		}
		if n := l.network(e.network); n.Serves && n.Layout.Faces {
			says[e.Address] = n.Model.Ingress
		}
	}
	leads := slices.Concat(b.Ports...)
	var who []model.InfraIngress
	for _, endpoint := range leads {
		say, face := says[endpoint.Addr()]
		if !face || len(who) > 0 && who[0] != say {
			return nil
		}
		who = append(who, say)
	}
	if len(who) == 0 {
		return nil
	}
	return compile.ServicePlaces(*home.Guard, who[0], slices.DeleteFunc(slices.Clone(service.ClusterIPs), func(vip netip.Addr) bool {
		return !slices.ContainsFunc(leads, func(endpoint netip.AddrPort) bool { return endpoint.Addr().Is4() == vip.Is4() })
	}))
}

// warnOfFamily tells a Service's owner, once, that the pods of its Network cannot dial it: they have addresses of IPv6 alone, and
// it has none. Nor has it endpoints, since Kubernetes lists pods by the IP families of a Service.
func (s *Stage) warnOfFamily(service *model.Service, home Network) {
	is := home.Model != nil && home.Model.OnlyIPv6() && !model.HasIPv6(service.ClusterIPs)
	s.warnOnce(s.foreign, service, is, model.Problemf(model.ReasonNoIPv6,
		"Network %q has addresses of IPv6 alone, and the Service has none: its pods cannot dial it, and are not behind it. Make "+
			"it anew with ipFamilies: [IPv6]", home.Name))
}

// warnOnce tells a Service's owner, once while something is so. told are those who have been told, by UID.
func (s *Stage) warnOnce(told map[model.ServiceKey]string, service *model.Service, is bool, p model.Problem) {
	switch {
	case !is:
		delete(told, service.Key)
	case told[service.Key] != service.UID:
		told[service.Key] = service.UID
		s.sink.Event(service.Ref(), p)
	}
}
