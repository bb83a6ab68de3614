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

// flowNames finds the holders of the addresses in flows, as far as the asker may see them. An address means something only within
// its Network: a holder in another Network counts only if the two Networks are joined.
type flowNames struct {
	held  snapshot.Held
	dns   model.ServiceKey
	pools snapshot.ClusterRanges
	sight Sight
	// near are the nodes that the asker may see. It counts only when sight is limited.
	near map[string]bool
	// holders are the holdings of each Network by address, the newest last. Faces are under ClusterPools.
	holders map[string]map[netip.Addr][]ipam.Holding
	// joined are, for each Network, the other Networks whose pods' own addresses are valid in it.
	joined   map[string][]string
	services map[netip.Addr]model.ServiceKey
	nodes    map[netip.Addr]string
	// seen caches the answers of sight: by Network name, and by namespace name with a slash behind it.
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

// end returns one end of a flow. The pod at which the flow was judged is known by its port. Any other end is the present holder of
// the address, if that holder existed at the time of the flow.
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

// podOfPort returns the name of a pod from the name of its port.
func podOfPort(port string) string {
	if key, ok := model.ParsePortName(port); ok {
		return key.Pod.String()
	}
	return port
}

// holder returns who held an address in a Network at a time, and the holder's own Network. All are empty when nobody held it, or
// when the asker may not see the holder.
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

// had returns the holding of an address at a time: among its present holders, the newest that was created before that time.
func (n *flowNames) had(space string, a netip.Addr, when time.Time) (ipam.Holding, bool) {
	for _, h := range slices.Backward(n.holders[space][a]) {
		if !h.Since.After(when) {
			return h, true
		}
	}
	return ipam.Holding{}, false
}

// shown returns the kind, name and Network of a holder. All are empty when the asker may not see the holder.
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

// sees reports whether the asker may see a Network, or a namespace if the name ends with a slash.
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

// seesService reports whether the asker may see the Service behind a cluster-wide address: the Kubernetes API and the DNS Service,
// Services in namespaces that the asker may see, and those at home in the flow's Network if the asker may see it.
func (n *flowNames) seesService(network string, key model.ServiceKey) bool {
	if key == snapshot.APIKey() || key == n.dns || n.sees(key.Namespace+"/") {
		return true
	}
	ns := n.held.Objects.Namespaces[key.Namespace]
	return ns != nil && n.sees(network) && visible.Home(*ns, n.held.Default) == network
}

func (n *flowNames) seesNode(name string) bool { return n.sight.Network == nil || n.near[name] }

// outside reports whether an address is outside the cluster from the view of a Network: in no range that the Network or the cluster
// uses.
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
