package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// misnamed says why a load balancer that leads by the client's node leads nobody on this one: OVN knows the node by another name,
// and gives variables by name.
func (e *explainer) misnamed(from *party, lb *nb.LoadBalancer) (Hop, bool) {
	name, is := e.lagging.called[from.node]
	return Hop{
		Layer: LayerBalancer, Node: from.node, Network: from.network,
		What: fmt.Sprintf(
			"row %s leads by the client's node, and OVN knows node %s as chassis %s: it gives variables to a chassis that has the node's name",
			lb.Name, from.node, name),
		Next: fmt.Sprintf("set external_ids:system-id in the Open vSwitch database of the node to %s, and restart its ovn-controller", from.node),
	}, is && lb.Options[nb.OptionTemplate] == "true"
}

// near says why a load balancer that leads by the client's node or zone leads the sender there; empty for others.
func (e *explainer) near(from *party, lb *nb.LoadBalancer) string {
	if lb.Options[nb.OptionTemplate] != "true" {
		return ""
	}
	owner, _ := nb.ParseOwner(lb.ExternalIDs[nb.KeyOwner])
	if s := e.objects.Services[model.ServiceKey{Namespace: owner.Namespace, Name: owner.Name}]; s != nil && s.Local {
		return fmt.Sprintf("; for clients on node %s: internalTrafficPolicy is Local", from.node)
	}
	return fmt.Sprintf("; for clients on node %s, by the hints of its EndpointSlices", from.node)
}

// onlyElsewhere reports whether a Service has endpoints that serve, and none on a node.
func (e *explainer) onlyElsewhere(key model.ServiceKey, node string) bool {
	nodes := e.nodesOf(key)
	return len(nodes) > 0 && !slices.Contains(nodes, node)
}

// nodesOf are the nodes with endpoints of a Service that serve, in order.
func (e *explainer) nodesOf(key model.ServiceKey) (out []string) {
	for _, s := range e.slicesOf[key] {
		for _, end := range s.Endpoints {
			if (end.Ready || end.Serving) && end.Node != "" {
				out = append(out, end.Node)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nodesBehind names the first of these nodes.
func (e *explainer) nodesBehind(key model.ServiceKey) string {
	const named = 3
	nodes := e.nodesOf(key)
	if more := len(nodes) - named; more > 0 {
		return fmt.Sprintf("some on %s and %d more", strings.Join(nodes[:named], ", "), more)
	}
	return "some on " + strings.Join(nodes, ", ")
}
