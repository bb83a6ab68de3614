package flows

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/inspect/ipam"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// flowNames say whose the addresses of flows are, as far as somebody may see. An address means something in its Network alone:
// what has it in another, by which no packet comes here, is nobody.
type flowNames struct {
	held  snapshot.Held
	dns   model.ServiceKey
	pools snapshot.ClusterRanges
	sight Sight
	// near are the nodes that he sees, if not all.
	near map[string]bool
	// holders are those of each Network by their addresses, the newest last; faces under ClusterPools.
	holders map[string]map[netip.Addr][]ipam.Holding
	// joined are the Networks whose pods' own addresses mean the same in a Network.
	joined   map[string][]string
	services map[netip.Addr]model.ServiceKey
	nodes    map[netip.Addr]string
	// seen is what was asked about Networks, and about namespaces with a slash behind them.
	seen map[string]bool
}

func newFlowNames(held snapshot.Held, settings config.Settings, sight Sight, near map[string]bool) *flowNames {
	n := &flowNames{
		held: held, dns: settings.DNS.Service, pools: snapshot.RangesOf(settings), sight: sight, near: near,
		holders: map[string]map[netip.Addr][]ipam.Holding{},
		joined:  map[string][]string{}, services: map[netip.Addr]model.ServiceKey{}, nodes: map[netip.Addr]string{}, seen: map[string]bool{},
	}
	for network, list := range ipam.HoldingsOf(held) {
		byAddress := make(map[netip.Addr][]ipam.Holding, len(list))
		for _, h := range list {
			byAddress[h.Address] = append(byAddress[h.Address], h)
		}
		n.holders[network] = byAddress
	}
	for name, network := range held.Objects.Networks {
		shown, _ := held.Status(name, network.UID)
		for _, c := range shown.Compatibility {
			if c.State == string(model.CompatibilityActive) && (c.Addresses || c.Mode == atoll.CompatibilityRouted) &&
				!slices.Contains(n.joined[name], c.Network) {
				n.joined[name] = append(n.joined[name], c.Network)
			}
		}
		for other, o := range held.Objects.Networks {
			// Flat Networks share one space.
			if network.Type == model.Flat && o.Type == model.Flat && other != name {
				n.joined[name] = append(n.joined[name], other)
			}
		}
	}
	for key, s := range held.Objects.Services {
		for _, a := range s.ClusterIPs {
			n.services[a] = key
		}
	}
	for name, node := range held.Objects.Nodes {
		for _, a := range node.Addresses {
			n.nodes[a] = name
		}
	}
	return n
}

// end is an end of a flow. The pod that was judged is known by its port; any other end by who has its address now, if he was
// there when the flow was.
func (n *flowNames) end(f model.Flow, a netip.Addr, judged bool) api.FlowEnd {
	var out api.FlowEnd
	if a.IsValid() {
		out.Address = a.String()
	}
	if judged {
		out.Network = f.Network
	}
	switch {
	case judged && f.Pod != "":
		out.Kind, out.Name = api.FlowPod, podOfPort(f.Pod)
		return out
	case !a.IsValid():
		return out
	}
	kind, name, network := n.holder(f.Network, a, f.Last)
	switch {
	case kind != "":
		out.Kind, out.Name = kind, name
		if !judged {
			out.Network = network
		}
	case n.outside(f.Network, a):
		out.Kind = api.FlowOutside
	}
	return out
}

// podOfPort is a pod's name, of that of its port.
func podOfPort(port string) string {
	if key, ok := model.ParsePortName(port); ok {
		return key.Pod.String()
	}
	return port
}

// holder is whose an address was in a Network, and in which Network he is; all are empty where that is nobody, or he may not be seen.
func (n *flowNames) holder(network string, a netip.Addr, when time.Time) (kind, name, in string) {
	for _, space := range append([]string{network}, n.joined[network]...) {
		if h, there := n.had(space, a, when); there {
			return n.shown(space, h)
		}
	}
	if h, there := n.had(api.ClusterPools, a, when); there {
		pod := n.held.Objects.Pods[model.PodKey{Namespace: h.Owner.Namespace, Name: h.Owner.Name}]
		if own := n.held.Attachment(pod); own != nil {
			return n.shown(own.Network, h)
		}
		return "", "", ""
	}
	if key, there := n.services[a]; there && n.seesService(network, key) {
		return api.FlowService, key.String(), ""
	}
	if node, there := n.nodes[a]; there && n.seesNode(node) {
		return api.FlowNode, node, ""
	}
	return "", "", ""
}

// had is who had an address at a time: of those who have it now the newest that was made before.
func (n *flowNames) had(space string, a netip.Addr, when time.Time) (ipam.Holding, bool) {
	for _, h := range slices.Backward(n.holders[space][a]) {
		if !h.Since.After(when) {
			return h, true
		}
	}
	return ipam.Holding{}, false
}

// shown is a holder of an address of a Network; all are empty where he may not be seen.
func (n *flowNames) shown(space string, h ipam.Holding) (kind, name, in string) {
	kind, name = strings.ToLower(string(h.Owner.Kind)), ipam.ObjectName(h.Owner)
	switch {
	case kind == api.FlowNode && n.seesNode(h.Owner.Name):
		return kind, h.Owner.Name, ""
	case kind == api.FlowNode:
		return "", "", ""
	case n.sees(space) || h.Owner.Namespace != "" && n.sees(h.Owner.Namespace+"/"):
		return kind, name, space
	}
	return "", "", ""
}

// sees reports whether he may see a Network, or a namespace whose name ends with a slash.
func (n *flowNames) sees(what string) bool {
	if known, asked := n.seen[what]; asked {
		return known
	}
	ask, name := n.sight.Network, what
	if namespace, is := strings.CutSuffix(what, "/"); is {
		ask, name = n.sight.Namespace, namespace
	}
	sees := ask == nil
	if ask != nil {
		may, err := ask(name)
		sees = may && err == nil
	}
	n.seen[what] = sees
	return sees
}

// seesService reports whether he may see a Service by its cluster-wide address: those that everybody dials, his, and those at
// home in his Network.
func (n *flowNames) seesService(network string, key model.ServiceKey) bool {
	if key == snapshot.APIKey() || key == n.dns || n.sees(key.Namespace+"/") {
		return true
	}
	ns := n.held.Objects.Namespaces[key.Namespace]
	return ns != nil && n.sees(network) && visible.Home(*ns, n.held.Default) == network
}

func (n *flowNames) seesNode(name string) bool { return n.sight.Network == nil || n.near[name] }

// outside reports whether an address is of no range that is anybody's in the cluster, as a Network meets it.
func (n *flowNames) outside(network string, a netip.Addr) bool {
	for _, space := range append([]string{network}, n.joined[network]...) {
		if o := n.held.Objects.Networks[space]; o != nil {
			for _, cidr := range append(ipam.Prefixes(ipam.ServedBy(n.held, o)), o.ServiceCIDRs...) {
				if cidr.Contains(a) {
					return false
				}
			}
		}
	}
	for _, ranges := range [][]netip.Prefix{n.pools.Faces, n.pools.Services, n.pools.Gateways} {
		for _, cidr := range ranges {
			if cidr.Contains(a) {
				return false
			}
		}
	}
	_, isNode := n.nodes[a]
	return !isNode && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() && n.held.Objects.Networks[network] != nil
}
