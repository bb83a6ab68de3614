package agent

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	informerscore "k8s.io/client-go/informers/core/v1"
	informersdiscovery "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/follow"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// The Service by which pods know the Kubernetes API. (kubernetes.default.svc)
const apiService, apiNamespace = "kubernetes", metav1.NamespaceDefault

// follow runs an informer until ctx ends. A watch that fails is begun again, forever.
func (a *Agent) follow(ctx context.Context, what string, w follow.Watch, synced func()) error {
	w.Failed = func(err error) {
		a.metrics.watches.WithLabelValues(what).Inc()
		a.log.Warn("watch failed; it is tried again", "of", what, "error", err)
	}
	w.Synced = func() {
		synced()
		a.sweepSoon()
	}
	return follow.Run(ctx, w)
}

// watchNetworks follows all Networks.
func (a *Agent) watchNetworks(ctx context.Context, client dynamic.Interface) error {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, v1alpha1.SchemeGroupVersion.WithResource("networks"),
		metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	return a.follow(ctx, "Networks", follow.Watch{Informer: informer, Trim: trimNetwork, Handler: follow.Handle(
		func(u *unstructured.Unstructured) {
			network := v1alpha1.Network{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &network); err != nil {
				a.log.Warn("network not readable", "network", u.GetName(), "error", err)
				return
			}
			a.world.setNetwork(intake.Network(&network))
		},
		func(u *unstructured.Unstructured) { a.world.dropNetwork(string(u.GetUID())) },
	)}, func() { a.world.setSynced(kindNetworks) })
}

// trimNetwork drops what the agent does not read, before it is kept: of the status, all but the ranges that are served.
func trimNetwork(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	subnets, _, _ := unstructured.NestedSlice(u.Object, "status", "subnets")
	trimmed, err := follow.WithoutStatus(object)
	if len(subnets) > 0 {
		u.Object["status"] = map[string]any{"subnets": subnets}
	}
	return trimmed, err
}

// watchNodes follows all nodes: their addresses, and what the controller gave them.
func (a *Agent) watchNodes(ctx context.Context, client kubernetes.Interface) error {
	informer := informerscore.NewNodeInformer(client, 0, cache.Indexers{})
	return a.follow(ctx, "Nodes", follow.Watch{Informer: informer, Trim: trimNode, Handler: follow.Handle(
		func(n *corev1.Node) { a.world.setNode(intake.Node(n)) },
		func(n *corev1.Node) { a.world.dropNode(n.Name) },
	)}, func() { a.world.setSynced(kindNodes) })
}

func trimNode(object any) (any, error) {
	n, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	kept := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}}
	kept.Status.Addresses = n.Status.Addresses
	if given, has := n.Annotations[model.AnnotationNode]; has {
		metav1.SetMetaDataAnnotation(&kept.ObjectMeta, model.AnnotationNode, given)
	}
	return kept, nil
}

// watchAPIService follows the Service of the Kubernetes API.
func (a *Agent) watchAPIService(ctx context.Context, client kubernetes.Interface) error {
	informer := informerscore.NewFilteredServiceInformer(client, apiNamespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, apiService).String()
	})
	return a.follow(ctx, "the API's Service", follow.Watch{Informer: informer, Handler: follow.Handle(
		func(s *corev1.Service) { a.world.setAPI(clusterAddresses(s)) },
		func(*corev1.Service) { a.world.setAPI(nil) },
	)}, func() { a.world.setSynced(kindService) })
}

// watchAPIServers follows where the API servers really are.
func (a *Agent) watchAPIServers(ctx context.Context, client kubernetes.Interface) error {
	informer := informersdiscovery.NewFilteredEndpointSliceInformer(client, apiNamespace, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{discoveryv1.LabelServiceName: apiService}.String()
	})
	return a.follow(ctx, "the API servers' addresses", follow.Watch{Informer: informer, Handler: follow.Handle(
		func(s *discoveryv1.EndpointSlice) {
			a.world.setMachines(s.Name, machineAddresses(s))
			a.world.setServers(s.Name, endpointAddresses(s))
		},
		func(s *discoveryv1.EndpointSlice) {
			a.world.setServers(s.Name, nil)
			a.world.setMachines(s.Name, nil)
		},
	)}, func() { a.world.setSynced(kindEndpoints) })
}

// clusterAddresses are the addresses and TCP ports of a Service.
func clusterAddresses(s *corev1.Service) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range s.Spec.ClusterIPs {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		for _, port := range s.Spec.Ports {
			if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
				out = append(out, netip.AddrPortFrom(address, uint16(port.Port)))
			}
		}
	}
	return out
}

// endpointAddresses are the addresses and TCP ports of ready endpoints.
func endpointAddresses(s *discoveryv1.EndpointSlice) []netip.AddrPort {
	var out []netip.AddrPort
	for _, e := range s.Endpoints {
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, port := range s.Ports {
				if port.Port != nil && (port.Protocol == nil || *port.Protocol == corev1.ProtocolTCP) {
					out = append(out, netip.AddrPortFrom(address, uint16(*port.Port)))
				}
			}
		}
	}
	return out
}

// machineAddresses are the addresses of all endpoints.
func machineAddresses(s *discoveryv1.EndpointSlice) []netip.Addr {
	var out []netip.Addr
	for _, e := range s.Endpoints {
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				out = append(out, address)
			}
		}
	}
	return out
}
