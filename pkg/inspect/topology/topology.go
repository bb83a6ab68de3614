package topology

import (
	"cmp"
	"maps"
	"slices"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/status"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// placed counts pods: by Network, subnet and node.
type placed map[string]map[string]map[string]int

// list are what all Networks are made of, sorted by their names.
func list(h snapshot.Held) []api.Topology {
	pods, gateways := placedPods(h), gatewaysOf(h)
	out := make([]api.Topology, 0, len(h.Objects.Networks))
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Networks)) {
		if h.Over() {
			break
		}
		out = append(out, ofNetwork(h, h.Objects.Networks[name], pods, gateways))
	}
	return out
}

// get is what one is made of; false when there is no such Network.
func get(h snapshot.Held, name string) (api.Topology, bool) {
	n := h.Objects.Networks[name]
	if n == nil {
		return api.Topology{}, false
	}
	return ofNetwork(h, n, placedPods(h), gatewaysOf(h)), true
}

func placedPods(h snapshot.Held) placed {
	out := placed{}
	for _, p := range h.Objects.Pods {
		a := h.Attachment(p)
		if a == nil {
			continue
		}
		if out[a.Network] == nil {
			out[a.Network] = map[string]map[string]int{}
		}
		if out[a.Network][a.Subnet] == nil {
			out[a.Network][a.Subnet] = map[string]int{}
		}
		out[a.Network][a.Subnet][p.Node]++
	}
	return out
}

// gatewaysOf are the Gateways of each Network's namespaces, as far as it admits these.
func gatewaysOf(h snapshot.Held) map[string][]api.Addressed {
	out := map[string][]api.Addressed{}
	for key, g := range h.Objects.Gateways {
		network := h.SpaceOf(key.Namespace)
		if n, ns := h.Objects.Networks[network], h.Objects.Namespaces[key.Namespace]; n != nil && ns != nil && h.Admits(n, ns) {
			out[network] = append(out[network], api.Addressed{Name: key.String(), Addresses: snapshot.Texts(g.Held)})
		}
	}
	for _, list := range out {
		slices.SortFunc(list, func(a, b api.Addressed) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out
}

func ofNetwork(h snapshot.Held, n *model.Network, pods placed, gateways map[string][]api.Addressed) api.Topology {
	var out api.Topology
	out.APIVersion, out.Kind, out.Name = api.GroupVersion().String(), "Topology", n.Name
	told := status.Summary(h, n).Status
	s := &out.Status
	s.Type, s.Tenant, s.Phase, s.Router, s.Peers, s.Subnets = told.Type, told.Tenant, told.Phase, h.RouterOf(n), told.Peers,
		[]api.TopologySubnet{}
	for _, r := range told.Ranges {
		at := slices.IndexFunc(s.Subnets, func(have api.TopologySubnet) bool { return have.Name == r.Subnet })
		if at < 0 {
			at = len(s.Subnets)
			subnet := api.TopologySubnet{Name: r.Subnet, Switch: compile.SwitchName(n.Name, r.Subnet)}
			subnet.Pods, subnet.Nodes = onNodes(pods[n.Name][r.Subnet])
			s.Subnets = append(s.Subnets, subnet)
		}
		s.Subnets[at].CIDRs = append(s.Subnets[at].CIDRs, r.CIDR)
		if r.Gateway != "" {
			s.Subnets[at].Gateways = append(s.Subnets[at].Gateways, r.Gateway)
		}
	}
	for _, r := range told.ServiceRanges {
		s.ServiceCIDRs = append(s.ServiceCIDRs, r.CIDR)
	}
	s.Gateways = gateways[n.Name]
	for _, peer := range n.CompatibleWith {
		s.Offers = append(s.Offers, api.TopologyOffer{Network: peer.Network, Tenant: peer.Tenant, All: peer.All, Mode: string(peer.Mode)})
	}
	nodes := map[string]int{}
	for _, subnet := range pods[n.Name] {
		for node, count := range subnet {
			nodes[node] += count
		}
	}
	s.Pods, s.Nodes = onNodes(nodes)
	return out
}

func onNodes(counts map[string]int) (pods int64, nodes []api.NodePods) {
	for _, node := range slices.Sorted(maps.Keys(counts)) {
		pods += int64(counts[node])
		nodes = append(nodes, api.NodePods{Node: node, Pods: counts[node]})
	}
	return pods, nodes
}
