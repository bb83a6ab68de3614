package inspect

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"

	rbac "k8s.io/api/rbac/v1"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/kube/config"
)

// Held is what somebody knows of a cluster's objects, who may look on only.
type Held struct {
	Objects model.Changes
	// Status is what the status of a Network tells; false when that is not known.
	Status func(name, uid string) (atoll.NetworkStatus, bool)
	// Default is the name of the cluster's default Network.
	Default string
	// Pools are ranges of the cluster's as a whole.
	Pools ClusterRanges
	// Unread are kinds, by their resources, that could not be read: of them nothing is known.
	Unread map[string]bool
	// done is closed when nobody wants the answer any more, which is whatever it is then; nil: never.
	done <-chan struct{}
}

// heldFor are the objects for an answer that ends with ctx.
func (i Inquirer) heldFor(ctx context.Context) (Held, error) {
	held, err := i.Held()
	held.done = ctx.Done()
	return held, err
}

// over reports whether nobody wants the answer any more.
func (h Held) over() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// ended is why an answer is none.
func ended(ctx context.Context) error { return context.Cause(ctx) }

// ClusterRanges are the ranges of which addresses are given that belong to no Network, or to each for itself. Nil: not known.
type ClusterRanges struct {
	Faces, Services, Gateways []netip.Prefix
	// Claimable reports whether somebody may give an address to a Service or write it into an EndpointSlice.
	Claimable func(netip.Addr) bool
}

// rangesOf are those of the cluster's settings.
func rangesOf(s config.Settings) ClusterRanges {
	return ClusterRanges{Faces: s.Faces, Services: s.Services, Gateways: s.Gateways, Claimable: s.Claimable}
}

// Networks are all Networks, without details, sorted by their names.
func (h Held) Networks() []api.Network {
	out := make([]api.Network, 0, len(h.Objects.Networks))
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Networks)) {
		if h.over() {
			break
		}
		out = append(out, h.network(h.Objects.Networks[name]))
	}
	return out
}

// Network is one of them with its details, as far as objects tell; false when there is none.
func (h Held) Network(name string) (api.Network, bool) {
	n := h.Objects.Networks[name]
	if n == nil {
		return api.Network{}, false
	}
	out := h.network(n)
	out.Status.Detail = h.detail(n)
	return out, true
}

func (h Held) network(n *model.Network) api.Network {
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
		s.Peers = append(s.Peers, api.Peer{Network: c.Network, Direction: string(c.Direction), Mode: string(c.Mode), State: c.State, Message: c.Message})
	}
	return out
}

// detail is what is in a Network. Of namespaces that it does not admit it tells nothing: whoever labels one so is somebody else.
func (h Held) detail(n *model.Network) *api.NetworkDetail {
	d := &api.NetworkDetail{}
	home := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(h.Objects.Namespaces)) {
		ns := h.Objects.Namespaces[name]
		if visible.Home(*ns, h.Default) == n.Name && h.admits(n, ns) {
			home[name] = true
			d.Namespaces = append(d.Namespaces, name)
		}
	}
	onNodes := map[string]int{}
	pods := map[string][]match.Target{}
	for key, p := range h.Objects.Pods {
		if h.attachment(p) == nil || h.attachment(p).Network != n.Name {
			continue
		}
		onNodes[p.Node]++
		pods[key.Namespace] = append(pods[key.Namespace], h.target(p))
	}
	for _, node := range slices.Sorted(maps.Keys(onNodes)) {
		d.Nodes = append(d.Nodes, api.NodePods{Node: node, Pods: onNodes[node]})
	}
	for key, s := range h.Objects.Services {
		if !home[key.Namespace] {
			continue
		}
		a := api.Addressed{Name: key.String(), Addresses: texts(s.ClusterIPs)}
		if s.Assigned != nil && s.Assigned.Network == n.Name {
			a.Addresses = append(texts(s.Assigned.Addresses), a.Addresses...)
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
		if h.over() {
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

func (h Held) admits(n *model.Network, ns *model.Namespace) bool {
	if n.Name == h.Default {
		return n.AdmitsAsDefault(*ns)
	}
	return n.Admits(*ns)
}

func (h Held) target(p *model.Pod) match.Target {
	t := match.Target{Namespace: p.Key.Namespace, Labels: p.Labels}
	if ns := h.Objects.Namespaces[p.Key.Namespace]; ns != nil {
		t.NamespaceLabels = ns.Labels
	}
	return t
}

// attachment is the first interface that a pod was given; nil while there is none.
func (Held) attachment(p *model.Pod) *model.Attachment {
	if p == nil || len(p.Assigned) == 0 {
		return nil
	}
	return &p.Assigned[0]
}

// chosen is the Network that a pod asks for, and what says so.
func (h Held) chosen(p *model.Pod) (network, by string) {
	switch {
	case p.NIC.Network != "":
		return p.NIC.Network, "the pod's annotation " + model.AnnotationNICs
	case p.Network != "":
		return p.Network, "the pod's label " + model.LabelNetwork
	}
	ns := h.Objects.Namespaces[p.Key.Namespace]
	switch {
	case ns == nil || ns.Home() == "":
		return h.Default, "nothing: it is the cluster's default one"
	case ns.Network() != "":
		return ns.Network(), "its namespace's label " + model.LabelNetwork
	}
	return ns.Home(), "its namespace's label " + model.LabelTenant
}

// tenantsOf are the Tenants whose admin somebody is.
func (h Held) tenantsOf(user string, groups []string) map[string]bool {
	out := map[string]bool{}
	for name, t := range h.Objects.Tenants {
		for _, a := range t.Admins {
			switch a.Kind {
			case rbac.GroupKind:
				out[name] = out[name] || slices.Contains(groups, a.Name)
			case rbac.ServiceAccountKind:
				out[name] = out[name] || user == "system:serviceaccount:"+a.Namespace+":"+a.Name
			default:
				out[name] = out[name] || user == a.Name
			}
		}
	}
	return out
}

func texts(addresses []netip.Addr) (out []string) {
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}
