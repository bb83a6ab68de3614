package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// asker is a Network as names go by it: as atoll-dns of a node answers its pods, and the cluster's own DNS those of a flat one.
func (e *explainer) asker(network string) visible.Asker {
	return visible.Asker{
		Looker:   visible.Looker{Network: e.objects.Networks[network], Standard: network == e.settings.Network},
		Networks: e.objects.Networks, Peers: e.peers,
	}
}

// named is a Service as a Network's pods may know it by its name, and why they do.
func (e *explainer) named(network string, key model.ServiceKey) (out visible.Named, knows visible.Knows) {
	out.Key, out.Namespace, out.Behind = key, e.objects.Namespaces[key.Namespace], e.behind(key, network)
	if out.Namespace != nil {
		out.Home = visible.Home(*out.Namespace, e.settings.Network)
	}
	if s := e.objects.Services[key]; s != nil {
		out.ClusterIPs, out.Own = s.ClusterIPs, s.Assigned
	}
	if e.objects.Networks[network] == nil {
		return out, knows
	}
	return out, e.asker(network).Knows(out)
}

// behind reports whether a Service has endpoints in a Network.
func (e *explainer) behind(key model.ServiceKey, network string) bool {
	for _, s := range e.slicesOf[key] {
		for _, end := range s.Endpoints {
			if p := e.objects.Pods[end.Pod]; p != nil && len(p.Assigned) > 0 && p.Assigned[0].Network == network {
				return true
			}
		}
	}
	return false
}

// virtual are the addresses by which pods of a Network dial a Service.
func (e *explainer) virtual(network string, s *model.Service) []netip.Addr {
	named, knows := e.named(network, s.Key)
	if e.flat(network) || e.objects.Networks[network] == nil {
		return s.ClusterIPs
	}
	return e.asker(network).Addresses(named, knows)
}

// toService are the addresses by which a pod dials a Service.
func (e *explainer) toService(from *party, key model.ServiceKey) ([]target, []Way, error) {
	e.met.owners = append(e.met.owners, nb.ServiceOwner(key.Namespace, key.Name))
	if s := e.objects.Services[key]; s != nil {
		var out []target
		for _, a := range e.virtual(from.network, s) {
			out = append(out, target{
				a, e.q.Port, []Hop{
					{
						Layer: LayerBalancer, Network: from.network, OK: true, What: fmt.Sprintf("Service %s is dialled at %s", key,
							addressText(a, e.q.Port)),
					},
				},
			})
		}
		return out, nil, nil
	}
	if len(e.slicesOf[key]) == 0 {
		return nil, nil, fmt.Errorf("there is no Service %s with an address or with endpoints. Next: kubectl get service -n %s %s", key,
			key.Namespace, key.Name)
	}
	return e.headless(from, key, "")
}

// headless are the endpoints that the name of a headless Service stands for: those with a certain host name, or all.
func (e *explainer) headless(from *party, key model.ServiceKey, host string) ([]target, []Way, error) {
	var out []target
	unready, unreached := 0, 0
	named, knows := e.named(from.network, key)
	for _, s := range e.slicesOf[key] {
		for _, end := range s.Endpoints {
			at, reached := e.endpointFor(from, named, knows, end)
			switch {
			case host != "" && (reached && host != visible.Host(end.Hostname, at) || !reached && host != end.Hostname):
			case !end.Ready:
				unready++
			case !reached:
				unreached++
			default:
				out = append(out, target{
					at, e.q.Port, []Hop{
						{
							Layer: LayerName, Network: from.network, OK: true,
							What: fmt.Sprintf("Service %s is headless: its name stands for its ready endpoints, of which this one is %s", key, at),
						},
					},
				})
			}
		}
	}
	slices.SortFunc(out, func(a, b target) int { return a.to.Compare(b.to) })
	if len(out) > 0 {
		return out, nil, nil
	}
	w := Way{There: []Hop{e.begin(from)}}
	w.stop(Hop{
		Layer: LayerName, Node: from.node, Network: from.network,
		What: fmt.Sprintf("headless Service %s has no endpoint for pods of Network %s: %d not ready, %d in Networks that it does not reach", key,
			from.network, unready, unreached),
		Next: fmt.Sprintf("kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s -o yaml", key.Namespace, key.Name),
	})
	return nil, []Way{w}, nil
}

// endpointFor is the address by which pods of a Network are told of an endpoint; false when they are not. One that is no pod is taken for
// one of the Service's own Network.
func (e *explainer) endpointFor(from *party, s visible.Named, k visible.Knows, end model.Endpoint) (netip.Addr, bool) {
	if e.flat(from.network) {
		return end.Address, true
	}
	if !k.Any() {
		return netip.Addr{}, false
	}
	network, own, isPod := s.Home, end.Address, end.Pod != model.PodKey{}
	if isPod {
		pod := e.objects.Pods[end.Pod]
		if pod == nil || len(pod.Assigned) == 0 {
			return netip.Addr{}, false
		}
		network = pod.Assigned[0].Network
		own, _ = ofFamily(addressesOf(pod.Assigned[0].Addresses), end.Address.Is4())
	}
	switch e.asker(from.network).Reaches(s, k, network) {
	case visible.ByOwnAddress:
		return own, own.IsValid()
	case visible.ByFace:
		return end.Address, isPod
	case visible.Unreached:
	}
	return netip.Addr{}, false
}

// unserved ends the way to a virtual address that leads nowhere in the sender's Network, and says why.
func (e *explainer) unserved(from *party, p packet) (Hop, bool) {
	key, s := e.serviceAt(from, p.dst)
	if s == nil || key == snapshot.APIKey() || slices.Contains(e.resolvers(), p.dst) || e.local(from, p.dst) != nil {
		return Hop{}, false
	}
	h := Hop{Layer: LayerBalancer, Node: from.node, Network: from.network}
	infra, _ := e.access(from.network)
	_, knows := e.named(from.network, key)
	switch has := func(sp model.ServicePort) bool { return sp.Protocol == p.protocol && sp.Port == p.port }; {
	case p.protocol == trace.ICMP:
		h.What, h.Next = fmt.Sprintf("%s is the address of Service %s, and such addresses answer no ping", p.dst, key), "dial one of its ports"
	case !slices.ContainsFunc(s.Ports, has):
		h.What = e.noPort(key, s)
		h.Next = fmt.Sprintf("dial a port that it has, or add one to spec.ports: kubectl get service -n %s %s", key.Namespace, key.Name)
	case knows.Any() && s.Local && e.onlyElsewhere(key, from.node):
		h.What = fmt.Sprintf("internalTrafficPolicy of Service %s is Local, and none of its endpoints is on node %s: it has %s", key, from.node,
			e.nodesBehind(key))
		h.Next = fmt.Sprintf(
			"run its pods on every node (a DaemonSet), or let clients reach other nodes: kubectl patch service -n %s %s -p "+
				"'{\"spec\":{\"internalTrafficPolicy\":\"Cluster\"}}'", key.Namespace, key.Name)
	case knows.Any():
		h.What = fmt.Sprintf("Service %s should be known in Network %s, and no row leads %s anywhere", key, from.network, p)
		h.Next = "atoll check names the row that is missing; does a controller lead (kubectl -n atoll-system get lease atoll-controller)?"
	case infra == model.InfraDirect || e.flat(from.network):
		return Hop{}, false
	default:
		return e.unknown(from, key), true
	}
	return h, true
}

// unknown says why a Network's pods do not know a Service.
func (e *explainer) unknown(from *party, key model.ServiceKey) Hop {
	h := Hop{Layer: LayerBalancer, Node: from.node, Network: from.network}
	infra, _ := e.access(from.network)
	home := ""
	if ns := e.objects.Namespaces[key.Namespace]; ns != nil {
		home = visible.Home(*ns, e.settings.Network)
	}
	of := fmt.Sprintf("Service %s is of Network %s and not known in Network %s", key, home, from.network)
	switch {
	case home == "" || e.objects.Networks[home] == nil:
		h.What, h.Next = fmt.Sprintf("Service %s is of no Network that is there", key), fmt.Sprintf("kubectl get namespace %s --show-labels",
			key.Namespace)
	case e.flat(home):
		h.What = fmt.Sprintf("%s, which has infraAccess %s", of, infra)
		h.Next = fmt.Sprintf("spec.infraAccess: direct of Network %s would let its pods reach Services of the default Network", from.network)
	default:
		h = e.unreached(from, &party{network: home})
		h.What = of + ": " + h.What
	}
	return h
}

// serviceAt is the Service that an address means in the sender's Network.
func (e *explainer) serviceAt(from *party, a netip.Addr) (model.ServiceKey, *model.Service) {
	for key, s := range e.objects.Services {
		if slices.Contains(s.ClusterIPs, a) {
			return key, s
		}
		if own := s.Assigned; own != nil && slices.Contains(own.Addresses, a) &&
			(own.Network == from.network || e.peers.DialsServices(from.network, own.Network)) {
			return key, s
		}
	}
	return model.ServiceKey{}, nil
}

// toName looks a name up as the sender's resolver would, and gives what it stands for.
func (e *explainer) toName(from *party, name string) ([]target, []Way, error) {
	asked, ended := e.asks(from, name)
	if ended != nil {
		return nil, []Way{*ended}, nil
	}
	n := e.objects.Networks[from.network]
	if n != nil && n.DNS == model.DNSService && !e.flat(from.network) {
		return nil, nil, fmt.Errorf(
			"questions for names of Network %s get to pods of Service %s/%s, and what those answer only they know. Next: kubectl exec -n %s %s -- "+
				"nslookup %s, and ask for the address",
			from.network, n.DNSService.Namespace, n.DNSService.Name, from.pod.Namespace, from.pod.Name, name)
	}
	found := func(what string) Hop {
		return Hop{Layer: LayerName, Node: from.node, Network: from.network, OK: true, What: asked + ": " + what}
	}
	for _, full := range e.searched(from, name) {
		what, targets, ended := e.lookUp(from, full)
		if what == "" {
			continue
		}
		hop := found(full + ", " + what)
		for i := range targets {
			targets[i].hops = append([]Hop{hop}, targets[i].hops...)
		}
		for i := range ended {
			ended[i].There = slices.Insert(ended[i].There, 1, hop)
		}
		return targets, ended, nil
	}
	domain := "." + e.domain()
	_, egress := e.access(from.network)
	outside := !strings.HasSuffix("."+strings.TrimSuffix(name, "."), domain) && strings.Contains(strings.TrimSuffix(name, "."), ".") &&
		!e.clusterLike(name)
	if outside && egress == model.EgressNode {
		var out []target
		for _, a := range somewhere() {
			if _, has := from.as(a); has {
				what := fmt.Sprintf("%s, is none of the cluster's: the node's own resolvers are asked; %s stands for their answer", name, a)
				out = append(out, target{a, e.q.Port, []Hop{found(what)}})
			}
		}
		return out, nil, nil
	}
	w := Way{There: []Hop{e.begin(from)}}
	w.stop(e.noName(from, asked, name, outside))
	return nil, []Way{w}, nil
}

// lookUp finds what a full name stands for in a Network: a Service, or endpoints of one. what is empty when there is no such name.
func (e *explainer) lookUp(from *party, full string) (what string, targets []target, ended []Way) {
	key, host, is := e.serviceName(full)
	if !is {
		return "", nil, nil
	}
	s := e.objects.Services[key]
	_, knows := e.named(from.network, key)
	switch {
	case !knows.Any() || s != nil && s.Assigned != nil && s.Assigned.Refused:
		return "", nil, nil
	case s != nil && host == "":
		targets, ended, _ = e.toService(from, key)
		return fmt.Sprintf("is Service %s", key), targets, ended
	case len(e.slicesOf[key]) > 0:
		targets, ended, _ = e.headless(from, key, host)
		return fmt.Sprintf("is of Service %s", key), targets, ended
	}
	return "", nil, nil
}

// clusterLike reports whether a name is one of a Service's without the cluster's domain: what is searched finds those.
func (e *explainer) clusterLike(name string) bool {
	labels := strings.Split(strings.TrimSuffix(name, "."), ".")
	if labels[len(labels)-1] == "svc" {
		return true
	}
	return len(labels) == 2 && e.objects.Namespaces[labels[1]] != nil
}

// noName says why a name does not exist for a Network.
func (e *explainer) noName(from *party, asked, name string, outside bool) Hop {
	h := Hop{
		Layer: LayerName, Node: from.node, Network: from.network, What: fmt.Sprintf("%s: %s does not exist in Network %s", asked, name,
			from.network),
	}
	if outside {
		h.What += ": it is none of the cluster's, and the Network has egress none"
		h.Next = fmt.Sprintf("spec.egress: node of Network %s would have the node's resolvers asked", from.network)
		return h
	}
	for _, full := range e.searched(from, name) {
		key, _, is := e.serviceName(full)
		if !is || e.objects.Services[key] == nil && len(e.slicesOf[key]) == 0 {
			continue
		}
		if s := e.objects.Services[key]; s != nil && s.Assigned != nil && s.Assigned.Refused {
			h.What += fmt.Sprintf(": Service %s is beyond its tenant's quota", key)
			h.Next = fmt.Sprintf("kubectl describe service -n %s %s", key.Namespace, key.Name)
			return h
		}
		if key == snapshot.APIKey() {
			h.What += ": it is the Kubernetes API, and the Network has infraAccess none"
			h.Next = fmt.Sprintf("spec.infraAccess: services of Network %s", from.network)
			return h
		}
		home := e.settings.Network
		if ns := e.objects.Namespaces[key.Namespace]; ns != nil {
			home = visible.Home(*ns, e.settings.Network)
		}
		if home == from.network {
			h.What += fmt.Sprintf(": Service %s is there, and its namespace may not attach to the Network", key)
			h.Next = fmt.Sprintf("kubectl get network %s -o yaml: spec.allowedNamespaces and spec.tenant; kubectl get namespace %s --show-labels",
				home, key.Namespace)
			return h
		}
		u := e.unreached(from, &party{network: home})
		h.What += fmt.Sprintf(": Service %s is of Network %s, and %s", key, home, u.What)
		h.Next = u.Next
		return h
	}
	h.Next = "is it written right? A Service is NAME.NAMESPACE.svc: kubectl get services -A"
	return h
}

// asks follows the question for a name to who answers, and says who does; ended: it does not get there.
func (e *explainer) asks(from *party, name string) (who string, ended *Way) {
	servers := e.resolversOf(from.network)
	var ask netip.Addr
	for _, a := range servers {
		if _, has := from.as(a); has {
			ask = a
			break
		}
	}
	h := Hop{Layer: LayerName, Node: from.node, Network: from.network}
	if !ask.IsValid() {
		if e.flat(from.network) {
			return "the cluster's DNS answers", nil
		}
		h.What = fmt.Sprintf("%s cannot be looked up: the AtollConfig has no address of the cluster's DNS that the pod could ask", name)
		h.Next = "kubectl get atollconfigs -o yaml: spec.dns"
		return "", &Way{There: []Hop{e.begin(from), h}}
	}
	src, _ := from.as(ask)
	ways := e.walk(from, packet{src, ask, dnsPort, model.UDP})
	for i := range ways {
		if w := ways[i]; w.Reached {
			return fmt.Sprintf("%s answers at %s", w.To, ask), nil
		}
	}
	w := ways[0]
	last := &w.There[len(w.There)-1]
	last.What = fmt.Sprintf("the question for %s is stopped: %s", name, last.What)
	w.Dialled = ""
	return "", &w
}

func (e *explainer) domain() string {
	if e.settings.DNS.Domain == "" {
		return "cluster.local"
	}
	return e.settings.DNS.Domain
}

// searched are the full names that a pod's resolver asks for, in its order: its search path first, since names of Services have
// fewer than five dots. (Kubernetes: DNS for Services and Pods; resolv.conf(5).)
func (e *explainer) searched(from *party, name string) []string {
	if full, is := strings.CutSuffix(name, "."); is {
		return []string{full}
	}
	const ndots = 5
	d := e.domain()
	search := []string{name + "." + from.pod.Namespace + ".svc." + d, name + ".svc." + d, name + "." + d}
	if strings.Count(name, ".") >= ndots {
		return append([]string{name}, search...)
	}
	return append(search, name)
}

// serviceName reads a Service's full name, or that of a host under it.
func (e *explainer) serviceName(full string) (key model.ServiceKey, host string, is bool) {
	front, inside := strings.CutSuffix(strings.ToLower(full), ".svc."+e.domain())
	labels := strings.Split(front, ".")
	if !inside || len(labels) < 2 || len(labels) > 3 {
		return key, "", false
	}
	if len(labels) == 3 {
		host, labels = labels[0], labels[1:]
	}
	return model.ServiceKey{Namespace: labels[1], Name: labels[0]}, host, true
}
