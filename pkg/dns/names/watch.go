package names

import (
	"cmp"
	"context"
	"net/netip"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// watches are all that is read, by what to call them. Each runs until its context ends.
func (s *server) watches(api follow.Clients) map[string]func(context.Context) error {
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

// sees is what follows a kind of objects.
func sees[K comparable, V any](s *server, seen func(*V), gone func(K)) *follow.Each[K, V] {
	return &follow.Each[K, V]{Seen: seen, Gone: gone, Synced: s.readOnce}
}

// failed tells of a watch that fails.
func (s *server) failed(what string) func(error) {
	return func(err error) {
		s.watchErrors.WithLabelValues(what).Inc()
		s.log.Warn("watch failed; it is tried again", "of", what, "error", err)
	}
}

// watchNetworks follows all Networks: those of type vpc have portholes, and all decide who knows names of others.
func (s *server) watchNetworks(ctx context.Context, client dynamic.Interface) error {
	const what = "Networks"
	read := follow.Decoded(intake.Network, func(name string, err error) { s.log.Warn("network not readable", "network", name, "error", err) })
	follow.Kind[*unstructured.Unstructured, string, model.Network]{
		Name: what, Lister: follow.List(client, client.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")),
			follow.Options{Failed: s.failed(what)}),
		Key: follow.ByUID, Read: askedFor(read),
		Sink: sees(s, func(now *model.Network) {
			// What only the rest of its status says, which changes with every pod of the cluster, is no news.
			if !reflect.DeepEqual(s.networks.of(porthole.IDOf(now.UID)), now) {
				s.networks.set(now)
				s.directory.SetNetwork(now)
				s.changed.Send()
			}
		}, func(uid string) {
			if gone := s.networks.of(porthole.IDOf(uid)); gone != nil {
				s.directory.RemoveNetwork(gone.Name, uid)
			}
			s.networks.drop(uid)
			s.changed.Send()
		}),
	}.Source().Run(ctx)
	return nil
}

// askedFor has a Network read without its status, but for since when it has each of its ranges: by that is decided who dials
// whose addresses, by the controller and by agents as well (package compatible).
func askedFor(read func(*unstructured.Unstructured) *model.Network) func(*unstructured.Unstructured) *model.Network {
	return func(u *unstructured.Unstructured) *model.Network {
		ranges, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "ranges")
		u.Object["status"] = map[string]any{"ranges": ranges}
		return read(u)
	}
}

// watchNamespaces follows the labels of namespaces: they say whose Services a Network sees.
func (s *server) watchNamespaces(ctx context.Context, client metadata.Interface) error {
	const what = "namespaces"
	follow.Kind[*metav1.PartialObjectMetadata, string, model.Namespace]{
		Name: what, Lister: follow.List(client, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}),
			follow.Options{Failed: s.failed(what)}),
		Key: follow.ByName, Read: func(n *metav1.PartialObjectMetadata) *model.Namespace {
			return &model.Namespace{Name: n.Name, Labels: n.Labels}
		},
		Sink: sees(s, s.directory.SetNamespace, s.directory.RemoveNamespace),
	}.Source().Run(ctx)
	return nil
}

// watchServices follows all Services.
func (s *server) watchServices(ctx context.Context, client kubernetes.Interface) error {
	const what = "Services"
	follow.Kind[*corev1.Service, dns.ServiceKey, dns.Service]{
		Name: what, Lister: follow.List(client, client.CoreV1().Services(metav1.NamespaceAll), follow.Options{Failed: s.failed(what)}),
		Key: func(o metav1.Object) dns.ServiceKey {
			return dns.ServiceKey{Namespace: o.GetNamespace(), Name: o.GetName()}
		},
		Read: serviceForDNS, Sink: sees(s, s.directory.SetService, s.directory.RemoveService),
	}.Source().Run(ctx)
	return nil
}

// keyedSlice is a slice with its name.
type keyedSlice struct {
	key   dns.SliceKey
	slice *dns.Slice
}

// watchEndpoints follows the slices that the controller makes for Networks: they have the pods' own addresses. Those of
// the cluster's default Network, which are most, have none.
func (s *server) watchEndpoints(ctx context.Context, client kubernetes.Interface) error {
	const what = "endpoints of Networks"
	key := func(o metav1.Object) dns.SliceKey {
		return dns.SliceKey{Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	follow.Kind[*discoveryv1.EndpointSlice, dns.SliceKey, keyedSlice]{
		Name: what, Lister: follow.List(client, client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll), follow.Options{
			Labels: labels.Set{discoveryv1.LabelManagedBy: intake.ManagedBy}.String(), Failed: s.failed(what),
		}),
		Key: key, Read: func(in *discoveryv1.EndpointSlice) *keyedSlice { return &keyedSlice{key(in), sliceForDNS(in, s.faces)} },
		Sink: sees(s, func(k *keyedSlice) { s.directory.SetSlice(k.key, k.slice) }, s.directory.RemoveSlice),
	}.Source().Run(ctx)
	return nil
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

// sliceForDNS reads a slice that the controller made; ranges are those of faces.
func sliceForDNS(in *discoveryv1.EndpointSlice, ranges []netip.Prefix) *dns.Slice {
	out := &dns.Slice{
		Service: dns.ServiceKey{Namespace: in.Namespace, Name: in.Labels[model.LabelService]},
		Network: in.Labels[model.LabelNetwork],
	}
	for _, p := range in.Ports {
		if p.Port == nil {
			continue
		}
		out.Ports = append(out.Ports, dns.Port{Name: ptr.Deref(p.Name, ""), Protocol: protocolForDNS(p.Protocol), Number: uint16(*p.Port)})
	}
	faces := intake.Faces(in.Annotations[model.AnnotationFaces], ranges)
	for _, e := range in.Endpoints {
		host := ptr.Deref(e.Hostname, "")
		for _, text := range e.Addresses {
			if address, err := netip.ParseAddr(text); err == nil {
				out.Endpoints = append(out.Endpoints, dns.Endpoint{
					Address: address.Unmap(), Face: faces[address.Unmap()], Hostname: host, Ready: intake.MirrorReady(e.Conditions),
				})
			}
		}
	}
	return out
}

func protocolForDNS(p *corev1.Protocol) string {
	return strings.ToLower(string(cmp.Or(ptr.Deref(p, ""), corev1.ProtocolTCP)))
}
