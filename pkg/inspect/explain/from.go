package explain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// errNobodyToTell is the error of a way that Atoll has no part in.
var errNobodyToTell = errors.New("nothing of Atoll's is on that way")

// fromOutside follows what a node, or somebody outside, sends.
func (e *explainer) fromOutside(from *party) ([]Way, error) {
	switch to := e.q.To; {
	case to.Pod != (model.PodKey{}):
		p, err := e.party(to.Pod)
		if err != nil {
			return nil, err
		}
		return e.outsideToPod(from, p)
	case to.Service != (model.ServiceKey{}):
		return e.outsideToService(from, to.Service)
	case to.Address.IsValid():
		for key, s := range e.objects.Services {
			if slices.Contains(s.ClusterIPs, to.Address) || slices.Contains(s.Published, to.Address) {
				return e.outsideToService(from, key)
			}
		}
		p, err := e.whoHas(to.Address)
		switch {
		case err != nil:
			return nil, err
		case !p.isPod():
			return nil, fmt.Errorf("from %s to %s: %w; one end must be a pod or a Service", from, p, errNobodyToTell)
		}
		return e.outsideToPod(from, p)
	}
	return nil, fmt.Errorf("from %s to %s: %w", from, e.q.To, errNobodyToTell)
}

// outsideToPod is what a node sends to a pod. Nobody outside has a way to one.
func (e *explainer) outsideToPod(from, to *party) ([]Way, error) {
	e.meet(to)
	if to.port == nil {
		return []Way{e.portless(to, "gets nothing")}, nil
	}
	flat := e.flat(to.network)
	if from.host == "" {
		var w Way
		w.There = []Hop{{Layer: LayerOutside, OK: true, What: "somebody outside of the cluster sends"}}
		w.stop(Hop{
			Layer: LayerOutside, Network: to.network, What: fmt.Sprintf("no address of %s is routed outside of the cluster by Atoll", to),
			Next: "let a Service of type LoadBalancer or NodePort lead to it, and ask from outside to svc/NAMESPACE/NAME",
		})
		return []Way{w}, nil
	}
	addresses := e.facesOf(to.pod)
	if flat {
		addresses = trace.Addresses(to.port)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%s has no face, by which nodes dial it. Next: kubectl describe pod -n %s %s", to, to.pod.Namespace, to.pod.Name)
	}
	out := make([]Way, 0, len(addresses))
	for _, a := range addresses {
		p := packet{dst: a, port: e.q.Port, protocol: e.q.Protocol}
		w := Way{
			Dialled: p.String(), There: []Hop{
				{Layer: LayerNode, Node: from.node, OK: true, What: fmt.Sprintf("node %s sends to %s", from.host, e.kindOf(to, a))},
			},
		}
		e.fromNode(&w, from, p)
		out = append(out, w)
	}
	return out, nil
}

// fromNode takes a packet of a node to the pod whose address it is, under the node's address in the default Network.
func (e *explainer) fromNode(way *Way, from *party, p packet) {
	given := e.objects.Nodes[from.host].Assigned
	key, isFace := e.faces[p.dst]
	to := from
	if isFace {
		if found, err := e.party(key); err == nil {
			to = found
		}
	}
	if !isFace || to.node != from.host {
		var has bool
		if given != nil {
			p.src, has = ofFamily(addressesOf(given.Addresses), p.dst.Is4())
		}
		if !has {
			way.stop(Hop{
				Layer: LayerNode, Node: from.node,
				What: fmt.Sprintf("node %s has no address in the default Network, by which it would reach pods of others", from.host),
				Next: fmt.Sprintf("kubectl get node %s -o yaml: annotation %s; kubectl describe node has Events", from.host, model.AnnotationNode),
			})
			return
		}
	}
	if isFace {
		e.intoPorthole(way, from, p, key)
		return
	}
	e.toFlat(way, from, p)
}

func addressesOf(prefixes []netip.Prefix) (out []netip.Addr) {
	for _, p := range prefixes {
		out = append(out, p.Addr())
	}
	return out
}

// toFlat takes what a node sends to a pod of a flat Network.
func (e *explainer) toFlat(way *Way, from *party, p packet) {
	for _, key := range e.ownings[p.dst] {
		to, err := e.party(key)
		if err != nil || to.port == nil || !e.flat(to.network) {
			continue
		}
		e.meet(to)
		if given := e.objects.Nodes[from.host]; given != nil && given.Assigned != nil && !p.src.IsValid() {
			p.src, _ = ofFamily(addressesOf(given.Assigned.Addresses), p.dst.Is4())
		}
		way.ok(LayerRouter, to.node, to.network, "by atoll0 it comes into the default Network")
		if e.inSwitch(way, to) {
			e.receive(way, from, to, p, false)
		}
		return
	}
	way.ok(LayerNode, from.node, "", "%s is no pod's of Atoll: whether somebody answers there is not Atoll's to know", p.dst)
	way.arrive(p.dst.String(), "")
}

// outsideToService follows what kube-proxy leads from a node, or from outside, to a Service.
func (e *explainer) outsideToService(from *party, key model.ServiceKey) ([]Way, error) {
	s := e.objects.Services[key]
	if s == nil {
		return nil, fmt.Errorf("there is no Service %s with an address. Next: kubectl get service -n %s %s", key, key.Namespace, key.Name)
	}
	dialled, node := s.ClusterIPs, from.node
	if from.host == "" {
		node = ""
		if dialled = s.Published; len(dialled) == 0 {
			return nil, fmt.Errorf(
				"the Service %s has no address of a load balancer that leads straight to its endpoints, and which node ports it has Atoll does not "+
					"read. Next: kubectl get service -n %s %s -o wide; ask from node/NAME for the way from the node on", key, key.Namespace, key.Name)
		}
	}
	if !slices.ContainsFunc(s.Ports, func(p model.ServicePort) bool { return p.Protocol == e.q.Protocol && p.Port == e.q.Port }) {
		w := Way{
			There: []Hop{
				{
					Layer: LayerBalancer, Node: from.node, What: e.noPort(key, s),
					Next: fmt.Sprintf("dial a port that it has, or add one to spec.ports: kubectl get service -n %s %s", key.Namespace, key.Name),
				},
			},
		}
		return []Way{w}, nil
	}
	// Of a family without endpoints a client takes the other one.
	if served := slices.DeleteFunc(slices.Clone(dialled),
		func(a netip.Addr) bool { return len(e.endpoints(key, e.q.Protocol, e.q.Port, a.Is4(), node)) == 0 }); len(served) > 0 {
		dialled = served
	}
	var out []Way
	for _, a := range dialled {
		endpoints := e.endpoints(key, e.q.Protocol, e.q.Port, a.Is4(), node)
		p := packet{dst: a, port: e.q.Port, protocol: e.q.Protocol}
		if len(endpoints) == 0 {
			w := Way{
				Dialled: p.String(), There: []Hop{
					{Layer: LayerBalancer, Node: from.node, OK: true, What: fmt.Sprintf("%s dials Service %s at %s", from, key, p)},
				},
			}
			e.kubeProxy(&w, from, p, key)
			out = append(out, w)
		}
		for i, to := range endpoints {
			w := Way{Dialled: p.String(), There: []Hop{
				{Layer: LayerBalancer, Node: from.node, OK: true, What: fmt.Sprintf("%s dials Service %s at %s", from, key, p)},
				{
					Layer: LayerBalancer, Node: from.node, OK: true, What: fmt.Sprintf("kube-proxy leads it to %s, endpoint %d of %d", to,
						i+1, len(endpoints)),
				},
			}}
			next := packet{dst: to.Addr(), port: to.Port(), protocol: p.protocol}
			face, isFace := e.faces[next.dst]
			switch {
			case from.host != "":
				e.fromNode(&w, from, next)
			case isFace:
				next.src = e.client(from, a.Is4())
				e.intoPorthole(&w, from, next, face)
			default:
				next.src = e.client(from, a.Is4())
				e.toFlat(&w, from, next)
			}
			if from.host == "" && w.Reached {
				w.SeenAs += " (the client; with externalTrafficPolicy Cluster the node that it came to)"
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// client is the address of somebody outside.
func (*explainer) client(from *party, v4 bool) netip.Addr {
	if from.address.IsValid() && from.address.Is4() == v4 {
		return from.address
	}
	a, _ := ofFamily(somewhere(), v4)
	return a
}

func (e *explainer) noPort(key model.ServiceKey, s *model.Service) string {
	var has []string
	for _, p := range s.Ports {
		has = append(has, fmt.Sprintf("%s %d", p.Protocol, p.Port))
	}
	return fmt.Sprintf("Service %s has no %s port %d; it has %s", key, e.q.Protocol, e.q.Port, cmp.Or(strings.Join(has, ", "), "none"))
}
