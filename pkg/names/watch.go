package names

import (
	"context"
	"net/netip"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	informerscore "k8s.io/client-go/informers/core/v1"
	informersdiscovery "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/follow"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/porthole"
)

// kept is an object of which only what the DNS tells is kept: a node holds the Services of the whole cluster.
type kept[V any] struct {
	metav1.ObjectMeta
	value *V
}

// keepOnly turns objects into what is kept of them.
func keepOnly[O metav1.Object, V any](read func(O) *V) cache.TransformFunc {
	return func(object any) (any, error) {
		o, ok := object.(O)
		if !ok {
			return object, nil
		}
		return &kept[V]{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
			},
			value: read(o),
		}, nil
	}
}

// watches are all that is read, by what to call them. Each runs until its context ends.
func (s *server) watches(api Clients) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"watch namespaces": func(ctx context.Context) error { return s.watchNamespaces(ctx, api.Metadata) },
		"watch Services":   func(ctx context.Context) error { return s.watchServices(ctx, api.Kube) },
		"watch endpoints":  func(ctx context.Context) error { return s.watchEndpoints(ctx, api.Kube) },
		"watch Networks":   func(ctx context.Context) error { return s.watchNetworks(ctx, api.Networks) },
	}
	s.unread.Store(int32(len(all)))
	return all
}

// readOnce notes that a kind of objects has been read; with the last, names that are not there do not exist.
func (s *server) readOnce() {
	if s.unread.Add(-1) == 0 {
		s.directory.SetComplete()
		close(s.complete)
	}
}

// follow follows one kind of objects.
func (s *server) follow(ctx context.Context, what string, w follow.Watch) error {
	w.Synced = s.readOnce
	w.Failed = func(err error) {
		s.watchErrors.WithLabelValues(what).Inc()
		s.log.Warn("watch failed; it is tried again", "of", what, "error", err)
	}
	return follow.Run(ctx, w)
}

// watchNetworks follows all Networks: those of type vpc have portholes.
func (s *server) watchNetworks(ctx context.Context, client dynamic.Interface) error {
	informer := dynamicinformer.NewFilteredDynamicInformer(client, v1alpha1.SchemeGroupVersion.WithResource("networks"),
		metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	return s.follow(ctx, "Networks", follow.Watch{Informer: informer, Trim: follow.WithoutStatus, Handler: follow.Handle(
		func(u *unstructured.Unstructured) {
			network := v1alpha1.Network{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &network); err != nil {
				s.log.Warn("network not readable", "network", u.GetName(), "error", err)
				return
			}
			now := intake.Network(&network)
			// What only its status says, which changes with every pod of the cluster, is no news.
			if reflect.DeepEqual(s.networks.of(porthole.IDOf(now.UID)), now) {
				return
			}
			s.networks.set(now)
			s.wake()
		},
		func(u *unstructured.Unstructured) {
			s.networks.drop(string(u.GetUID()))
			s.wake()
		},
	)})
}

// wake has tend look. A wake-up that is still unread is enough.
func (s *server) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// watchNamespaces follows the labels of namespaces: they say whose Services a Network sees.
func (s *server) watchNamespaces(ctx context.Context, client metadata.Interface) error {
	informer := metadatainformer.NewFilteredMetadataInformer(client,
		schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	trim := keepOnly(func(n *metav1.PartialObjectMetadata) *model.Namespace {
		return &model.Namespace{Name: n.Name, Labels: n.Labels}
	})
	return s.follow(ctx, "namespaces", follow.Watch{Informer: informer, Trim: trim, Handler: follow.Handle(
		func(n *kept[model.Namespace]) { s.directory.SetNamespace(n.value) },
		func(n *kept[model.Namespace]) { s.directory.RemoveNamespace(n.Name) },
	)})
}

// watchServices follows all Services.
func (s *server) watchServices(ctx context.Context, client kubernetes.Interface) error {
	informer := informerscore.NewServiceInformer(client, metav1.NamespaceAll, 0, cache.Indexers{})
	return s.follow(ctx, "Services", follow.Watch{Informer: informer, Trim: keepOnly(serviceForDNS), Handler: follow.Handle(
		func(k *kept[dns.Service]) { s.directory.SetService(k.value) },
		func(k *kept[dns.Service]) {
			s.directory.RemoveService(dns.ServiceKey{Namespace: k.Namespace, Name: k.Name})
		},
	)})
}

// watchEndpoints follows the slices that the controller makes for Networks: they have the pods' own addresses. Those of
// the cluster's default Network, which are most, have none.
func (s *server) watchEndpoints(ctx context.Context, client kubernetes.Interface) error {
	informer := informersdiscovery.NewFilteredEndpointSliceInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{discoveryv1.LabelManagedBy: intake.ManagedBy}.String()
	})
	return s.follow(ctx, "endpoints of Networks", follow.Watch{Informer: informer, Trim: keepOnly(sliceForDNS), Handler: follow.Handle(
		func(k *kept[dns.Slice]) {
			s.directory.SetSlice(dns.SliceKey{Namespace: k.Namespace, Name: k.Name}, k.value)
		},
		func(k *kept[dns.Slice]) {
			s.directory.RemoveSlice(dns.SliceKey{Namespace: k.Namespace, Name: k.Name})
		},
	)})
}

// serviceForDNS reads what the DNS tells of a Service.
func serviceForDNS(in *corev1.Service) *dns.Service {
	out := &dns.Service{
		ServiceKey:      dns.ServiceKey{Namespace: in.Namespace, Name: in.Name},
		Headless:        in.Spec.ClusterIP == corev1.ClusterIPNone,
		PublishNotReady: in.Spec.PublishNotReadyAddresses,
	}
	if in.Spec.Type == corev1.ServiceTypeExternalName {
		out.ExternalName, out.Headless = in.Spec.ExternalName, false
		return out
	}
	out.Own = intake.ServiceAddresses(in.Annotations[model.AnnotationServiceAddresses], string(in.UID))
	for _, text := range in.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			out.ClusterIPs = append(out.ClusterIPs, a.Unmap())
		}
	}
	for _, p := range in.Spec.Ports {
		out.Ports = append(out.Ports, dns.Port{Name: p.Name, Protocol: protocolForDNS(&p.Protocol), Number: uint16(p.Port)})
	}
	return out
}

// sliceForDNS reads a slice that the controller made.
func sliceForDNS(in *discoveryv1.EndpointSlice) *dns.Slice {
	out := &dns.Slice{
		Service: dns.ServiceKey{Namespace: in.Namespace, Name: in.Labels[model.LabelService]},
		Network: in.Labels[model.LabelNetwork],
	}
	for _, p := range in.Ports {
		if p.Port == nil {
			continue
		}
		port := dns.Port{Protocol: protocolForDNS(p.Protocol), Number: uint16(*p.Port)}
		if p.Name != nil {
			port.Name = *p.Name
		}
		out.Ports = append(out.Ports, port)
	}
	for _, e := range in.Endpoints {
		host := ""
		if e.Hostname != nil {
			host = *e.Hostname
		}
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				out.Endpoints = append(out.Endpoints, dns.Endpoint{
					Address: address.Unmap(), Hostname: host, Ready: intake.MirrorReady(e.Conditions),
				})
			}
		}
	}
	return out
}

func protocolForDNS(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return "tcp"
	}
	return strings.ToLower(string(*p))
}
