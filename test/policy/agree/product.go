package agree

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// product is what the controller makes of a cluster.
type product struct {
	graph *graph.Graph
	// ports and gateways are the MAC addresses of switch ports and of routers' ports, by name.
	ports, gateways map[string]string
}

// productOf runs the controller's pure part on a cluster, until it has nothing more to write on nodes and pods. Each pod
// that has a place keeps it: its addresses stand in its annotation, as after a restart of the controller.
func productOf(c cases.Case) (product, error) {
	defaults, err := defaultsOf()
	if err != nil {
		return product{}, err
	}
	g, to := graph.New(), newSink()
	state := decide.NewState(defaults, g, to)
	for changes := changesOf(c); ; {
		state.Apply(changes)
		next := to.take(changes)
		if next == nil {
			break
		}
		changes = *next
	}
	p := product{graph: g, ports: map[string]string{}, gateways: map[string]string{}}
	for _, ref := range g.Refs() {
		row, _ := g.Row(ref)
		switch row := row.(type) {
		case *nb.LogicalSwitchPort:
			if len(row.Addresses) > 0 {
				p.ports[row.Name], _, _ = strings.Cut(row.Addresses[0], " ")
			}
		case *nb.LogicalRouterPort:
			p.gateways[row.Name] = row.MAC
		}
	}
	for _, pod := range c.Pods {
		if _, there := p.ports[pod.Key()]; there != (pod.Network != "") {
			return product{}, fmt.Errorf("compile the case: pod %s of Network %q has a port: %t (%s)", pod.Key(), pod.Network, there,
				to.problems["Pod "+pod.Key()])
		}
	}
	return p, nil
}

// defaultsOf are the settings of the controller of all cases.
func defaultsOf() (decide.Defaults, error) {
	settings, err := config.Parse(config.Defaults())
	if err != nil {
		return decide.Defaults{}, fmt.Errorf("set the controller up: %w", err)
	}
	return decide.Defaults{
		Network: cases.Default,
		Subnet:  netip.MustParsePrefix("10.129.0.0/16"),
		Faces:   settings.Faces,
		DNS:     model.ServiceKey{Namespace: cases.DNSNamespace, Name: "dns"},
	}, nil
}

// changesOf reads a cluster's objects as the controller's informers do.
func changesOf(c cases.Case) model.Changes {
	out := model.NewChanges()
	for _, n := range cases.Networks() {
		for _, r := range c.Resolvers {
			if r.Network == n.Name {
				namespace, name, _ := strings.Cut(r.Service, "/")
				n.Spec.DNS = &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSService, Service: &v1alpha1.ServiceReference{Namespace: namespace, Name: name}}
			}
		}
		for _, edge := range c.Compatible {
			if edge.Provider == n.Name {
				n.Spec.CompatibleWith = append(n.Spec.CompatibleWith, v1alpha1.CompatiblePeer{Network: edge.Consumer})
			}
		}
		out.Networks[n.Name] = intake.Network(&n)
	}
	for _, n := range c.Nodes {
		node := intake.Node(&n)
		place, faces := cases.NodeAddresses(n.Name), cases.FaceBlocks(n.Name)
		node.Assigned = &model.NodeNetwork{
			NodeUID: node.UID, Network: cases.Default, NetworkUID: string(cases.UID("network", cases.Default)), Addresses: place[:], Faces: faces[:],
		}
		out.Nodes[n.Name] = node
	}
	for _, n := range c.Namespaces {
		out.Namespaces[n.Name] = intake.Namespace(&n)
	}
	for _, p := range c.Pods {
		object := p.Pod
		object.UID = cases.UID("pod", p.Key())
		if pod := intake.Pod(&object); pod != nil && p.Network != "" {
			pod.Assigned = []model.Attachment{placeOf(p, pod.UID)}
			out.Pods[pod.Key] = pod
		} else if pod != nil {
			// It asks for what nobody can have, and so waits for an address for ever.
			pod.NIC = model.NICRequest{Network: cases.Red, Subnet: "none"}
			out.Pods[pod.Key] = pod
		}
	}
	for _, object := range c.Policies {
		p := intake.NetworkPolicy(&object)
		out.Policies[p.Key] = p
	}
	for _, object := range c.ClusterPolicies {
		p := intake.ClusterNetworkPolicy(&object)
		out.Policies[p.Key] = p
	}
	for _, p := range c.Packets {
		// A door's Service is there already.
		isDoor := slices.ContainsFunc(c.Doors, func(d oracle.Door) bool { return d.Address == p.Dial.Addr() })
		if p.Dial.IsValid() && !isDoor {
			serviceOf(p).into(out)
		}
	}
	for _, s := range slices.Concat(doors(c.Cluster), resolvers(c.Cluster)) {
		s.into(out)
	}
	return out
}

// placeOf is what an earlier decision wrote on a pod.
func placeOf(p oracle.Pod, uid string) model.Attachment {
	out := model.Attachment{
		PodUID: uid, Interface: model.DefaultInterface, Network: p.Network, NetworkUID: string(cases.UID("network", p.Network)),
		Faces: p.Faces,
	}
	for _, a := range p.Addresses {
		subnet, _ := cases.SubnetOf(p.Network, a)
		out.Subnet = subnet.Name
		for _, r := range subnet.Ranges {
			if r.Contains(a) {
				out.Addresses = append(out.Addresses, netip.PrefixFrom(a, r.Bits()))
				out.Gateways = append(out.Gateways, r.Addr().Next())
			}
		}
	}
	return out
}
