package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

func (e *explainer) meetBalancer(lb *nb.LoadBalancer) {
	if o, known := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner]); known {
		e.met.owners = append(e.met.owners, o)
	}
}

// balanced are the ways to each endpoint.
func (e *explainer) balanced(first Way, from *party, dialled packet, lb *nb.LoadBalancer, endpoints []netip.AddrPort) (out []Way) {
	if h, is := e.misnamed(from, lb); is {
		first.stop(h)
		return []Way{first}
	}
	for i, to := range endpoints {
		way := first
		way.There = slices.Clone(first.There)
		p := dialled
		p.dst, p.port = to.Addr(), to.Port()
		e.met.ports = append(e.met.ports, p.port)
		which := "its only endpoint"
		if n := len(endpoints); n > 1 {
			which = fmt.Sprintf("endpoint %d of %d, of which one is chosen for each connection", i+1, n)
		}
		which += e.near(from, lb)
		way.ok(LayerBalancer, from.node, from.network, "row %s leads %s to %s, %s%s", lb.Name, dialled, p, which, e.leaving(lb, to.Addr()))
		out = append(out, e.onwards(way, from, dialled, p)...)
	}
	return out
}

// leaving says of an endpoint that it is there no more for new connections, as far as the objects say.
func (e *explainer) leaving(lb *nb.LoadBalancer, a netip.Addr) string {
	owner, _ := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner])
	for _, s := range e.slicesOf[model.ServiceKey{Namespace: owner.Namespace, Name: owner.Name}] {
		for _, end := range s.Endpoints {
			if end.Ready || (end.Address != a && !e.owns(end.Pod, a)) {
				continue
			}
			if end.Serving {
				return "; it is going, and used because no other is ready"
			}
			return "; it is not ready, and the row has not followed yet"
		}
	}
	return ""
}

// owns reports whether an address is a pod's own.
func (e *explainer) owns(key model.PodKey, a netip.Addr) bool {
	return slices.Contains(e.ownings[a], key)
}

// noEndpoints says why a virtual address refuses connections.
func (e *explainer) noEndpoints(from *party, dialled packet, lb *nb.LoadBalancer) Hop {
	owner, _ := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner])
	h := Hop{Layer: LayerBalancer, Node: from.node, Network: from.network}
	if owner.Kind == nb.KindNames {
		if n := e.objects.Networks[from.network]; n != nil && n.DNS == model.DNSNone {
			return e.wall(LayerName, from, fmt.Sprintf("row %s refuses %s: Network %s has dns.mode none", lb.Name, dialled, from.network),
				"spec.dns.mode: node of Network %s has its nodes answer; mode service has a Service answer", from.network)
		}
		h.What = fmt.Sprintf("row %s refuses %s: nobody answers questions for names in Network %s", lb.Name, dialled, from.network)
		h.Next = fmt.Sprintf("kubectl get network %s -o yaml: condition DNSReady says why spec.dns.service does not answer", from.network)
		return h
	}
	key := model.ServiceKey{Namespace: owner.Namespace, Name: owner.Name}
	h.What = fmt.Sprintf("row %s refuses %s: %s has no endpoint for pods of Network %s", lb.Name, dialled, owner, from.network)
	if owner.Kind == nb.KindService {
		h.What += e.whyNone(from, key)
		h.Next = fmt.Sprintf(
			"kubectl get endpointslices -n %s -l kubernetes.io/service-name=%s -o yaml: are its pods ready (spec.selector, readinessProbe), and "+
				"in a Network that %s reaches?", key.Namespace, key.Name, from.network)
		return h
	}
	h.Next = fmt.Sprintf("kubectl get gateway -n %s %s -o yaml: its status says what is behind it", owner.Namespace, owner.Name)
	return h
}

// whyNone counts what a Service has behind it.
func (e *explainer) whyNone(from *party, key model.ServiceKey) string {
	var ready, not, elsewhere, portless int
	for _, s := range e.slicesOf[key] {
		for _, end := range s.Endpoints {
			p, err := e.party(end.Pod)
			switch {
			case !end.Ready && !end.Serving:
				not++
			case end.Pod != (model.PodKey{}) && err == nil && p.port == nil:
				portless++
			case end.Pod != (model.PodKey{}) && err == nil && p.network != from.network:
				elsewhere++
			default:
				ready++
			}
		}
	}
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{ready, "ready"}, {not, "not ready"}, {elsewhere, "in other Networks"}, {portless, "without a port in OVN"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if len(parts) == 0 {
		return "; its EndpointSlices name none"
	}
	return "; its EndpointSlices name " + strings.Join(parts, ", ")
}

// meaning says why an address becomes another.
func (e *explainer) meaning(dialled netip.Addr) string {
	if _, face := e.faces[dialled]; face {
		return "the own address of the pod whose face that is"
	}
	return "the face of the pod of another Network that has the address there"
}
