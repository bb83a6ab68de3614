package agent

import (
	"context"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	informerscore "k8s.io/client-go/informers/core/v1"
	informersdiscovery "k8s.io/client-go/informers/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
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

// watchNames are the watches that feed the DNS: nothing when nobody is answered.
func (a *Agent) watchNames(api Clients) map[string]func(context.Context) error {
	if a.names == nil {
		return nil
	}
	all := map[string]func(context.Context) error{
		"watch namespaces": func(ctx context.Context) error { return a.watchNamespaces(ctx, api.Metadata) },
		"watch Services":   func(ctx context.Context) error { return a.watchServices(ctx, api.Kube) },
		"watch endpoints":  func(ctx context.Context) error { return a.watchEndpoints(ctx, api.Kube) },
	}
	a.names.unread.Store(int32(len(all)))
	return all
}

// readOnce notes that a kind of objects has been read; with the last, names that are not there do not exist.
func (n *names) readOnce() {
	if n.unread.Add(-1) == 0 {
		n.directory.SetComplete()
	}
}

// watchNamespaces follows the labels of namespaces: they say whose Services a Network sees.
func (a *Agent) watchNamespaces(ctx context.Context, client metadata.Interface) error {
	informer := metadatainformer.NewFilteredMetadataInformer(client,
		schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	trim := keepOnly(func(n *metav1.PartialObjectMetadata) *model.Namespace {
		return &model.Namespace{Name: n.Name, Labels: n.Labels}
	})
	return a.follow(ctx, "namespaces", informer, trim, handle(
		func(n *kept[model.Namespace]) { a.names.directory.SetNamespace(n.value) },
		func(n *kept[model.Namespace]) { a.names.directory.RemoveNamespace(n.Name) },
	), a.names.readOnce)
}

// watchServices follows all Services.
func (a *Agent) watchServices(ctx context.Context, client kubernetes.Interface) error {
	informer := informerscore.NewServiceInformer(client, metav1.NamespaceAll, 0, cache.Indexers{})
	return a.follow(ctx, "Services", informer, keepOnly(serviceForDNS), handle(
		func(s *kept[dns.Service]) { a.names.directory.SetService(s.value) },
		func(s *kept[dns.Service]) {
			a.names.directory.RemoveService(dns.ServiceKey{Namespace: s.Namespace, Name: s.Name})
		},
	), a.names.readOnce)
}

// watchEndpoints follows the slices that the controller makes for Networks: they have the pods' own addresses. Those of
// the cluster's default Network, which are most, have none.
func (a *Agent) watchEndpoints(ctx context.Context, client kubernetes.Interface) error {
	informer := informersdiscovery.NewFilteredEndpointSliceInformer(client, metav1.NamespaceAll, 0, cache.Indexers{}, func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{discoveryv1.LabelManagedBy: intake.ManagedBy}.String()
	})
	return a.follow(ctx, "endpoints of Networks", informer, keepOnly(sliceForDNS), handle(
		func(s *kept[dns.Slice]) {
			a.names.directory.SetSlice(dns.SliceKey{Namespace: s.Namespace, Name: s.Name}, s.value)
		},
		func(s *kept[dns.Slice]) {
			a.names.directory.RemoveSlice(dns.SliceKey{Namespace: s.Namespace, Name: s.Name})
		},
	), a.names.readOnce)
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
