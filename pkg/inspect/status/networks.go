package status

import (
	"cmp"
	"context"
	"maps"
	"slices"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// listNetworks are all Networks, without details, sorted by their names.
func listNetworks(h snapshot.Held) []api.Network {
	out := make([]api.Network, 0, len(h.Objects.Networks))
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Networks)) {
		if h.Over() {
			break
		}
		out = append(out, Summary(h, h.Objects.Networks[name]))
	}
	return out
}

// getNetwork is one of them with its details, as far as objects tell; false when there is none.
func getNetwork(h snapshot.Held, name string) (api.Network, bool) {
	n := h.Objects.Networks[name]
	if n == nil {
		return api.Network{}, false
	}
	out := Summary(h, n)
	out.Status.Detail = detailOf(h, n)
	return out, true
}

// Summary is a Network without details.
func Summary(h snapshot.Held, n *model.Network) api.Network {
	var out api.Network
	out.APIVersion, out.Kind, out.Name = api.GroupVersion().String(), "Network", n.Name
	s := &out.Status
	s.Type, s.Tenant, s.Ranges = string(n.Type), n.Tenant, []api.Range{}
	shown, known := h.Status(n.Name, n.UID)
	if !known {
		return out
	}
	s.Phase, s.Pods = string(shown.Phase), shown.Pods
	for _, c := range shown.Conditions {
		if c.Type == "Ready" {
			s.Reason = c.Reason
			if shown.Phase != atoll.NetworkReady {
				s.Message = c.Message
			}
		}
	}
	for _, r := range shown.Subnets {
		s.Ranges = append(s.Ranges, api.Range{Subnet: r.Name, CIDR: r.CIDR, Gateway: r.Gateway, Used: r.Used, Free: r.Free})
	}
	for _, r := range shown.ServiceCIDRs {
		s.ServiceRanges = append(s.ServiceRanges, api.Range{CIDR: r.CIDR, Used: r.Used, Free: r.Free})
	}
	if shown.Isolation != nil {
		s.Isolation = string(shown.Isolation.Overall)
	}
	for _, c := range shown.Compatibility {
		s.Peers = append(s.Peers, api.Peer{
			Network: c.Network, Direction: string(c.Direction), Mode: string(c.Mode), State: c.State, Message: c.Message,
		})
	}
	return out
}

// detailOf is what is in a Network. Of namespaces that it does not admit it tells nothing: whoever labels one so is somebody else.
func detailOf(h snapshot.Held, n *model.Network) *api.NetworkDetail {
	d := &api.NetworkDetail{}
	home := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Namespaces)) {
		ns := h.Objects.Namespaces[name]
		if visible.Home(*ns, h.Default) == n.Name && h.Admits(n, ns) {
			home[name] = true
			d.Namespaces = append(d.Namespaces, name)
		}
	}
	onNodes := map[string]int{}
	pods := map[string][]match.Target{}
	for key, p := range h.Objects.Pods {
		if h.Attachment(p) == nil || h.Attachment(p).Network != n.Name {
			continue
		}
		onNodes[p.Node]++
		pods[key.Namespace] = append(pods[key.Namespace], h.Target(p))
	}
	for _, node := range slices.Sorted(maps.Keys(onNodes)) {
		d.Nodes = append(d.Nodes, api.NodePods{Node: node, Pods: onNodes[node]})
	}
	for key, s := range h.Objects.Services {
		if !home[key.Namespace] {
			continue
		}
		a := api.Addressed{Name: key.String(), Addresses: snapshot.Texts(s.ClusterIPs)}
		if s.Assigned != nil && s.Assigned.Network == n.Name {
			a.Addresses = append(snapshot.Texts(s.Assigned.Addresses), a.Addresses...)
		}
		d.Services = append(d.Services, a)
	}
	slices.SortFunc(d.Services, func(a, b api.Addressed) int { return cmp.Compare(a.Name, b.Name) })
	for key := range h.Objects.Gateways {
		if home[key.Namespace] {
			d.Gateways = append(d.Gateways, key.String())
		}
	}
	slices.Sort(d.Gateways)
	for key, policy := range h.Objects.Policies {
		if h.Over() {
			break
		}
		if selectsAny(policy, pods) {
			d.Policies = append(d.Policies, key.String())
		}
	}
	slices.Sort(d.Policies)
	return d
}

// selectsAny reports whether a policy selects any of some pods, by their namespaces.
func selectsAny(policy *model.Policy, pods map[string][]match.Target) bool {
	if policy.Key.Namespace != "" {
		return slices.ContainsFunc(pods[policy.Key.Namespace], policy.Subject.Matches)
	}
	for _, targets := range pods {
		if slices.ContainsFunc(targets, policy.Subject.Matches) {
			return true
		}
	}
	return false
}

// Networks are all Networks.
func Networks(ctx context.Context, s snapshot.Sources) ([]api.Network, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return nil, err
	}
	return listNetworks(held), snapshot.Ended(ctx)
}

// Network is one; false when there is none.
func Network(ctx context.Context, s snapshot.Sources, name string) (api.Network, bool, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return api.Network{}, false, err
	}
	n, there := getNetwork(held, name)
	if err := snapshot.Ended(ctx); err != nil || !there {
		return n, false, err
	}
	if s.Northbound == nil {
		n.Status.Detail.Problem = "the northbound database was not asked"
		return n, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
	defer cancel()
	addRows(ctx, s.Northbound, &n, held.Default)
	return n, true, nil
}
