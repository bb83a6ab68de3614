package snapshot

import (
	"net/netip"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/domain/visible"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/kube"
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

// Over reports whether nobody wants the answer any more.
func (h Held) Over() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// ClusterRanges are the ranges of which addresses are given that belong to no Network, or to each for itself. Nil: not known.
type ClusterRanges struct {
	Faces, Services, Gateways []netip.Prefix
	// Claimable reports whether somebody may give an address to a Service or write it into an EndpointSlice.
	Claimable func(netip.Addr) bool
}

// RangesOf are those of the cluster's settings.
func RangesOf(s config.Settings) ClusterRanges {
	return ClusterRanges{Faces: s.Faces, Services: s.Services, Gateways: s.Gateways, Claimable: s.Claimable}
}

func (h Held) Admits(n *model.Network, ns *model.Namespace) bool {
	if n.Name == h.Default {
		return n.AdmitsAsDefault(*ns)
	}
	return n.Admits(*ns)
}

func (h Held) Target(p *model.Pod) match.Target {
	t := match.Target{Namespace: p.Key.Namespace, Labels: p.Labels}
	if ns := h.Objects.Namespaces[p.Key.Namespace]; ns != nil {
		t.NamespaceLabels = ns.Labels
	}
	return t
}

// Attachment is the first interface that a pod was given; nil while there is none.
func (Held) Attachment(p *model.Pod) *model.Attachment {
	if p == nil || len(p.Assigned) == 0 {
		return nil
	}
	return &p.Assigned[0]
}

// Chosen is the Network that a pod asks for, and what says so.
func (h Held) Chosen(p *model.Pod) (network, by string) {
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

// Texts are addresses as answers have them.
func Texts(addresses []netip.Addr) (out []string) {
	for _, a := range addresses {
		out = append(out, a.String())
	}
	return out
}

// RouterOf is the name of the router that a Network's subnets hang on: of a flat Network the default one's.
func (h Held) RouterOf(n *model.Network) string {
	if n.Type == model.Flat {
		return h.Default
	}
	return n.Name
}

// SpaceOf is the Network in which Gateways of a namespace have addresses: flat ones share the default one's.
func (h Held) SpaceOf(namespace string) string {
	ns := h.Objects.Namespaces[namespace]
	if ns == nil {
		return ""
	}
	home := visible.Home(*ns, h.Default)
	if n := h.Objects.Networks[home]; n != nil {
		return h.RouterOf(n)
	}
	return home
}

// HeldBy gives what a feed holds, in a cluster of these settings.
func HeldBy(feed *kube.Feed, settings config.Settings) (Held, error) {
	if !feed.Synced() {
		return Held{}, question.ErrNotRead
	}
	return Held{Objects: feed.Held(), Status: feed.NetworkStatus, Default: settings.Network, Pools: RangesOf(settings)}, nil
}

// APIKey is the Service of the Kubernetes API.
func APIKey() model.ServiceKey { return model.ServiceKey{Namespace: "default", Name: "kubernetes"} }
