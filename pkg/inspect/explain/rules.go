package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/egress"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// rulesOf are the rules by which the node judges what the pods of a Network send past it. Of a Network that is not in the API nothing
// passes.
func (e *explainer) rulesOf(network string) egress.Rules {
	out := egress.Rules{
		Infra: model.InfraNone, Egress: model.EgressNone, Flat: e.flat(network), Consumer: len(e.peers.Providers(network)) > 0,
		Servers: e.apiServers(), Faces: e.faceRanges(), Closed: e.closed(),
	}
	for _, h := range e.infra {
		out.Infrastructure = append(out.Infrastructure, h.cidr)
	}
	if api := e.objects.Services[snapshot.APIKey()]; api != nil {
		for _, ip := range api.ClusterIPs {
			for _, p := range api.Ports {
				out.API = append(out.API, netip.AddrPortFrom(ip, p.Port))
			}
		}
	}
	n := e.objects.Networks[network]
	if n == nil {
		return out
	}
	if out.Infra, out.Egress = n.Infra, n.Egress; out.Flat {
		return out
	}
	out.ServiceRanges = e.serviceRangesOf(n)
	for _, name := range e.peers.Ranged(network) {
		out.Addressed = append(out.Addressed, e.rangesOf(name, e.serviceRangesOf)...)
	}
	for _, name := range e.peers.Addressed(network) {
		out.Addressed = append(out.Addressed, e.rangesOf(name, e.subnetsOf)...)
	}
	if n.DNS == model.DNSNode {
		out.DNS = e.resolvers()
	}
	if n.OnlyIPv6() {
		return out.SixOnly()
	}
	return out
}

func (e *explainer) rangesOf(network string, of func(*model.Network) []netip.Prefix) []netip.Prefix {
	if n := e.objects.Networks[network]; n != nil {
		return of(n)
	}
	return nil
}

// faceRanges are where all faces of the cluster lie.
func (e *explainer) faceRanges() []netip.Prefix {
	out := slices.Clone(e.settings.Faces)
	for _, n := range e.objects.Nodes {
		if n.Assigned != nil {
			out = append(out, n.Assigned.Faces...)
		}
	}
	return out
}

// closed is what no pod reaches, whatever access its Network has: what the cluster's owner has closed, and the addresses of tunnels that
// are not those by which the API knows a node.
func (e *explainer) closed() []netip.Prefix {
	out := slices.Clone(e.settings.Closed)
	shown := func(a netip.Addr) bool {
		for _, n := range e.objects.Nodes {
			if slices.Contains(n.Addresses, a) {
				return true
			}
		}
		return false
	}
	for _, r := range e.objects.Reports {
		for _, a := range r.Tunnels {
			if e.objects.Nodes[r.Node] != nil && !shown(a) {
				out = append(out, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return out
}

func among(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// noPortOfAPI reports whether a packet is for the Kubernetes API's address in the cluster, at a port that it does not have.
func (e *explainer) noPortOfAPI(p packet, v egress.Verdict) bool {
	s := e.objects.Services[snapshot.APIKey()]
	return s != nil && v.Why != egress.API && p.protocol == model.TCP && slices.Contains(s.ClusterIPs, p.dst)
}

// refused says why a packet is refused where it leaves its Network, and what would let it pass.
func (e *explainer) refused(from *party, p packet, v egress.Verdict, layer Layer) Hop {
	infra, out := e.access(from.network)
	isAPI := v.Why == egress.API || v.Why == egress.Server || e.noPortOfAPI(p, v)
	switch {
	case isAPI && infra == model.InfraNone:
		return e.wall(layer, from, fmt.Sprintf("%s is the Kubernetes API, and Network %s has infraAccess none", p, from.network),
			"spec.infraAccess: services of Network %s would let its pods reach it", from.network)
	case v.Why == egress.Server:
		return e.wall(layer, from,
			fmt.Sprintf("%s is a server of the Kubernetes API by its own address, and Network %s has infraAccess %s", p, from.network, infra),
			"dial kubernetes.default.svc, or set spec.infraAccess: direct of Network %s", from.network)
	case v.Why == egress.API:
		return e.wall(layer, from, fmt.Sprintf("%s is the Kubernetes API, and none of its servers has an address of that IP family", p),
			"kubectl get endpointslices -n default -l kubernetes.io/service-name=kubernetes -o yaml")
	case isAPI:
		return e.wall(layer, from, fmt.Sprintf("the Kubernetes API has no port %d at %s", p.port, p.dst),
			"dial kubernetes.default.svc at its port")
	case v.Why == egress.Special:
		return e.wall(layer, from, fmt.Sprintf("%s is of a special range, or keeps a machine's credentials: no pod reaches it", p.dst),
			"dial something else: nothing opens this")
	case v.Why == egress.Closed:
		return e.wall(layer, from, fmt.Sprintf("%s lies in the AtollConfig's closedCIDRs, or is a tunnel's address: no pod reaches it", p.dst),
			"kubectl get atollconfigs -o yaml; who runs the cluster decides about closedCIDRs")
	case v.Why == egress.OwnServices || v.Why == egress.Addressed:
		return e.nobodyAt(from, p, v.Address, layer)
	case slices.Contains(e.resolversOf(from.network), p.dst):
		n := e.objects.Networks[from.network]
		return e.wall(LayerName, from,
			fmt.Sprintf("%s is the cluster's DNS, and Network %s has dns.mode %s: no node answers", p.dst, from.network, n.DNS),
			"spec.dns.mode: node of Network %s has its nodes answer; mode service has a Service answer", from.network)
	case v.Why == egress.Face || v.Address != p.dst && infra == model.InfraDirect:
		return e.wall(layer, from,
			fmt.Sprintf("%s stands for %s behind a translator, and nothing of the cluster is reached by one", p.dst, v.Address),
			"dial %s itself", v.Address)
	case v.Why == egress.Infrastructure:
		return e.wall(layer, from,
			fmt.Sprintf("%s is %s, and Network %s has infraAccess %s", p.dst, e.infrastructure(v.Address), from.network, infra),
			"spec.infraAccess: direct of Network %s would let its pods reach infrastructure", from.network)
	}
	return e.wall(layer, from, fmt.Sprintf("%s is outside of the cluster, and Network %s has egress %s", p.dst, from.network, out),
		"spec.egress: node of Network %s would let its pods out", from.network)
}

// nobodyAt says in whose range an address lies that OVN would have led elsewhere if anybody had it.
func (e *explainer) nobodyAt(from *party, p packet, a netip.Addr, layer Layer) Hop {
	for _, name := range append([]string{from.network}, e.peers.Ranged(from.network)...) {
		if among(e.rangesOf(name, e.serviceRangesOf), a) {
			return e.wall(layer, from, fmt.Sprintf("%s lies in a service range of Network %s, and no Service has %s", p.dst, name, p),
				"which Service is meant? kubectl get services -A -o yaml, annotation %s", model.AnnotationServiceAddresses)
		}
	}
	h := e.wall(layer, from, fmt.Sprintf("%s lies in a range of another Network, and nobody there has it", p.dst),
		"is the pod still there, under that address?")
	for _, name := range e.peers.Addressed(from.network) {
		if among(e.rangesOf(name, e.subnetsOf), a) {
			h.What = fmt.Sprintf("%s lies in a subnet of Network %s, whose pods are dialled by their own addresses, and no pod has it", p.dst, name)
		}
	}
	return h
}
