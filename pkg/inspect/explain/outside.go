package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

const dnsPort = 53

// access is what of a Network decides who of its pods reaches what past it.
func (e *explainer) access(network string) (model.InfraAccess, model.Egress) {
	if n := e.objects.Networks[network]; n != nil {
		return n.Infra, n.Egress
	}
	return model.InfraNone, model.EgressNone
}

func (e *explainer) wall(layer Layer, at *party, what, next string, args ...any) Hop {
	return Hop{Layer: layer, Node: at.node, Network: at.network, What: what, Next: fmt.Sprintf(next, args...)}
}

// leave follows what leaves a vpc Network by its porthole.
func (e *explainer) leave(way *Way, from *party, p packet) {
	if !e.hasRouter(way, from, from.network, from.network+":edge", from.network+":edge:router") {
		return
	}
	way.ok(LayerRouter, from.node, from.network, "router %s leads %s to the porthole on the pod's own node", from.network, p.dst)
	if e.objects.Networks[from.network] == nil {
		way.stop(e.wall(LayerPorthole, from, fmt.Sprintf("Network %s is not in the API, so its porthole is closed", from.network),
			"kubectl get networks"))
		return
	}
	e.past(way, from, p, LayerPorthole)
}

// past takes what leaves a Network where the rules of its porthole lead it, or those of the node for a flat Network.
func (e *explainer) past(way *Way, from *party, p packet, layer Layer) {
	v := e.rulesOf(from.network).Judge(egress.Packet{To: p.dst, Port: p.port, Protocol: p.protocol})
	switch {
	case v.Why == egress.Names:
		e.asksNode(way, from, p, v.Pass)
	case v.Why == egress.Face && v.Address == p.dst:
		e.toFace(way, from, p, e.faces[p.dst])
	case !v.Pass || e.noPortOfAPI(p, v):
		way.stop(e.refused(from, p, v, layer))
	case v.Why == egress.API || v.Why == egress.Server:
		infra, _ := e.access(from.network)
		way.ok(layer, from.node, from.network, "infraAccess %s lets it pass to the Kubernetes API, at one of %s", infra,
			model.Count(len(e.apiServers()), "server"))
		way.arrive("the Kubernetes API", "the address of node "+from.node)
		e.backFromOutside(way, from)
	case v.Why == egress.Infrastructure:
		e.toInfrastructure(way, from, p, e.infrastructure(v.Address))
	default:
		way.ok(LayerOutside, from.node, "", "it leaves node %s with the node's address", from.node)
		way.arrive(question.OutsideWord+", "+p.dst.String(), "the address of node "+from.node)
		e.backFromOutside(way, from)
	}
}

func (e *explainer) backFromOutside(way *Way, from *party) {
	way.Back = append(way.Back,
		Hop{Layer: LayerNode, Node: from.node, OK: true, What: "the answer comes to the node's address, and is translated back"},
		Hop{
			Layer: LayerPod, Node: from.node, Network: from.network, OK: true,
			What: fmt.Sprintf("%s gets the answer from the address that it dialled, %s", from, way.Dialled),
		})
}

// toInfrastructure goes on with direct access.
func (e *explainer) toInfrastructure(way *Way, from *party, p packet, what string) {
	way.ok(LayerPorthole, from.node, from.network, "%s is %s, which infraAccess direct lets pass", p.dst, what)
	for key, s := range e.objects.Services {
		if slices.Contains(s.ClusterIPs, p.dst) {
			e.kubeProxy(way, from, p, key)
			return
		}
	}
	e.deliver(way, from, p)
}

// deliver takes a packet of a pod with direct access from its node to infrastructure.
func (e *explainer) deliver(way *Way, from *party, p packet) {
	src := e.outward(from, p)
	for _, key := range e.ownings[p.dst] {
		to, err := e.party(key)
		if err != nil || !e.flat(to.network) || to.port == nil {
			continue
		}
		e.meet(to)
		p.src = src
		if e.tunnelled(way, from, to) && e.inSwitch(way, to) {
			e.receive(way, from, to, p, false)
		}
		return
	}
	seen := "the address of node " + from.node
	for name, n := range e.objects.Nodes {
		if slices.Contains(n.Addresses, p.dst) {
			if name == from.node {
				seen = src.String()
			}
			way.ok(LayerNode, name, "", "node %s gets it; whether something listens at %s is not Atoll's to know", name, p)
			way.arrive("node "+name, seen)
			e.backFromOutside(way, from)
			return
		}
	}
	way.ok(LayerNode, from.node, "", "node %s sends it on; whether somebody answers at %s is not Atoll's to know", from.node, p)
	way.arrive(p.dst.String(), seen)
	e.backFromOutside(way, from)
}

// outward is the address with which a pod's packet comes to its node.
func (e *explainer) outward(from *party, p packet) netip.Addr {
	if !from.isPod() || e.flat(from.network) {
		return p.src
	}
	if face, has := ofFamily(e.facesOf(from.pod), p.dst.Is4()); has {
		return face
	}
	return p.src
}

// kubeProxy follows a connection that the node's kube-proxy leads to an endpoint of a Service: those that are ready, else those
// that still serve.
func (e *explainer) kubeProxy(way *Way, from *party, p packet, key model.ServiceKey) {
	endpoints := e.endpoints(key, p.protocol, p.port, p.dst.Is4(), from.node)
	if len(endpoints) == 0 {
		way.stop(Hop{
			Layer: LayerBalancer, Node: from.node, What: fmt.Sprintf("kube-proxy has no ready endpoint of Service %s for %s port %d%s", key,
				p.protocol, p.port, e.onNode(key, from.node)),
			Next: fmt.Sprintf("kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s -o yaml", key.Namespace, key.Name),
		})
		return
	}
	begun := *way
	for i, to := range endpoints {
		if i == 0 {
			begun.There = slices.Clone(way.There)
			e.led(way, from, p, key, to, len(endpoints))
			continue
		}
		other := begun
		other.There = slices.Clone(begun.There)
		e.led(&other, from, p, key, to, len(endpoints))
		e.others = append(e.others, other)
	}
}

// led follows a connection that kube-proxy leads to one of a Service's endpoints. A face is reached where the pod could dial it, too.
func (e *explainer) led(way *Way, from *party, p packet, key model.ServiceKey, to netip.AddrPort, count int) {
	way.ok(LayerBalancer, from.node, "", "kube-proxy of node %s leads %s to %s, one of %s of Service %s", from.node, p, to,
		model.Count(count, "endpoint"), key)
	p.dst, p.port = to.Addr(), to.Port()
	e.met.ports = append(e.met.ports, p.port)
	if face, is := e.faces[p.dst]; is {
		if from.isPod() && !e.flat(from.network) {
			if end, err := e.party(face); err == nil && end.port != nil && e.peers.Reaches(from.network, end.network) {
				e.toFace(way, from, p, face)
				return
			}
			way.stop(
				e.wall(LayerNode, from,
					fmt.Sprintf("the endpoint is the face of pod %s: what kube-proxy leads from one porthole to another is refused", face),
					"dial a Service that Network %s knows, or make its Network compatible", from.network))
			return
		}
		e.intoPorthole(way, from, p, face)
		return
	}
	if from.isPod() {
		e.deliver(way, from, p)
		return
	}
	e.toFlat(way, from, p)
}

// onNode says that endpoints of one node alone count; empty where others do, too.
func (e *explainer) onNode(key model.ServiceKey, node string) string {
	if s := e.objects.Services[key]; s == nil || !s.Local || node == "" {
		return ""
	}
	return fmt.Sprintf(" on node %s: its internalTrafficPolicy is Local", node)
}

// endpoints are those behind a port of a Service, by the addresses that Kubernetes knows, for clients on a node; without one, for
// clients from outside.
func (e *explainer) endpoints(key model.ServiceKey, protocol model.Protocol, port uint16, v4 bool, node string) (out []netip.AddrPort) {
	name, named, local := "", false, false
	if s := e.objects.Services[key]; s != nil {
		local = s.Local && node != ""
		for _, sp := range s.Ports {
			if sp.Protocol == protocol && sp.Port == port {
				name, named = sp.Name, true
			}
		}
	}
	var going []netip.AddrPort
	for _, s := range e.slicesOf[key] {
		for _, sp := range s.Ports {
			if sp.Protocol != protocol || named && sp.Name != name {
				continue
			}
			for _, end := range s.Endpoints {
				at := netip.AddrPortFrom(end.Address, sp.Port)
				switch {
				case end.Address.Is4() != v4, local && end.Node != node:
				case end.Ready:
					out = append(out, at)
				case end.Serving:
					going = append(going, at)
				}
			}
		}
	}
	if len(out) == 0 {
		out = going
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// asksNode ends the way of what is for the cluster's DNS at the pod's own node.
func (e *explainer) asksNode(way *Way, from *party, p packet, pass bool) {
	if !pass {
		way.stop(
			e.wall(LayerPorthole, from,
				fmt.Sprintf("%s is the cluster's DNS, which the porthole answers for at port %d by udp and tcp alone", p.dst, dnsPort), "dial port %d",
				dnsPort))
		return
	}
	way.ok(LayerName, from.node, from.network, "atoll-dns of node %s answers, with the names of Network %s", from.node, from.network)
	way.arrive("atoll-dns of node "+from.node, p.src.String())
	way.Back = append(way.Back, Hop{
		Layer: LayerPod, Node: from.node, Network: from.network, OK: true,
		What: fmt.Sprintf("%s gets the answer from %s; it has not left the node", from, way.Dialled),
	})
}

// toFace follows what leaves a vpc Network for a face: as a consumer's.
func (e *explainer) toFace(way *Way, from *party, p packet, key model.PodKey) {
	if key == (model.PodKey{}) {
		way.stop(e.wall(LayerPorthole, from, fmt.Sprintf("%s is in the range of faces, and no pod has it", p.dst),
			"is the pod still there? kubectl get pods -A -o wide"))
		return
	}
	to, err := e.party(key)
	if err != nil || to.port == nil {
		way.stop(e.portless(&party{pod: key, node: from.node, network: from.network}, "gets nothing").There[0])
		return
	}
	e.meet(to)
	face, has := ofFamily(e.facesOf(from.pod), p.dst.Is4())
	if !has || !e.peers.Reaches(from.network, to.network) || !e.admitted(to.network, face) {
		way.stop(e.unreached(from, to))
		return
	}
	p.src = face
	way.ok(LayerPorthole, from.node, from.network, "Network %s is compatible with %s: it leaves with the face of %s, %s", to.network,
		from.network, from, face)
	e.intoPorthole(way, from, p, key)
}

// intoPorthole follows what a node has for a face into the Network of its pod.
func (e *explainer) intoPorthole(way *Way, from *party, p packet, key model.PodKey) {
	to, err := e.party(key)
	if err != nil || to.port == nil {
		way.stop(e.portless(&party{pod: key}, "gets nothing").There[0])
		return
	}
	e.meet(to)
	own, has := ofFamily(trace.Addresses(to.port), p.dst.Is4())
	if !has {
		way.stop(e.wall(LayerPorthole, to, fmt.Sprintf("the face %s is of %s, which has no own address of that IP family in OVN", p.dst, to),
			"atoll check"))
		return
	}
	if from.node != to.node && from.node != "" {
		way.ok(LayerNode, to.node, "", "the router of the default Network leads the face to node %s", to.node)
	}
	src := e.seenIn(to, from, p.src, p.dst)
	way.ok(LayerPorthole, to.node, to.network, "the face %s becomes the own address %s; the client is %s", p.dst, own, src)
	p.src, p.dst = src, own
	if !e.hasRouter(way, to, to.network, to.network+":edge", to.network+":edge:router") || !e.inSwitch(way, to) {
		return
	}
	e.receive(way, from, to, p, false)
}

// seenIn is the address under which a vpc Network's pod sees a client that comes by its porthole.
func (e *explainer) seenIn(to, from *party, src, dialled netip.Addr) netip.Addr {
	if from.host != "" && from.host == to.node {
		own := model.OwnNodeAddresses()
		as, _ := ofFamily(own[:], dialled.Is4())
		return as
	}
	if n := e.objects.Networks[to.network]; n != nil && among(e.subnetsOf(n), src) {
		return model.ErrandAddress(src.Is4())
	}
	return src
}

// leaveFlat follows what leaves a flat Network: to a face, by the node, or out.
func (e *explainer) leaveFlat(way *Way, from *party, p packet) {
	if key, isFace := e.faces[p.dst]; isFace || among(e.faceRanges(), p.dst) {
		if key == (model.PodKey{}) {
			way.stop(e.wall(LayerRouter, from, fmt.Sprintf("%s is in the range of faces, and no pod has it", p.dst),
				"is the pod still there? kubectl get pods -A -o wide"))
			return
		}
		e.intoPorthole(way, from, p, key)
		return
	}
	if !e.hasRouter(way, from, e.settings.Network, e.settings.Network+":edge", e.settings.Network+":edge:router") {
		return
	}
	way.ok(LayerRouter, from.node, from.network, "router %s leads %s to the pod's own node", e.settings.Network, p.dst)
	e.past(way, from, p, LayerNode)
}
