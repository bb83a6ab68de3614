package agent

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// The Service by which pods know the Kubernetes API. (kubernetes.default.svc)
const apiService, apiNamespace = "kubernetes", metav1.NamespaceDefault

// sees is what follows a kind of what portholes are made from.
func sees[K comparable, V any](a *Agent, kind world.Kind, seen func(*V), gone func(K)) *follow.Each[K, V] {
	return &follow.Each[K, V]{Seen: seen, Gone: gone, Synced: func() {
		a.world.SetSynced(kind)
		a.sweepSoon()
	}}
}

// unreadable tells of an object that makes no sense.
func (a *Agent) unreadable(kind string) func(string, error) {
	return func(name string, err error) {
		a.log.Warn("object not readable", "kind", kind, "name", name, "error", err)
	}
}

// watchNetworks follows all Networks.
func (a *Agent) watchNetworks(ctx context.Context, client dynamic.Interface) error {
	const what = "Networks"
	follow.Kind[*unstructured.Unstructured, string, model.Network]{
		Name: what, Lister: follow.List(client, client.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")),
			follow.Options{Failed: a.failed(what)}),
		Key: follow.ByUID, Read: follow.Decoded(intake.Network, a.unreadable("Network")),
		Sink: sees(a, world.Networks, a.world.SetNetwork, a.world.DropNetwork),
	}.Source().Run(ctx)
	return nil
}

// watchNodes follows all nodes: their addresses, and what the controller gave them.
func (a *Agent) watchNodes(ctx context.Context, client kubernetes.Interface) error {
	const what = "Nodes"
	follow.Kind[*corev1.Node, string, model.Node]{
		Name: what, Lister: follow.List(client, client.CoreV1().Nodes(), follow.Options{Failed: a.failed(what)}),
		Key: follow.ByName, Read: intake.Node, Sink: sees(a, world.Nodes, a.world.SetNode,
			func(name string) { a.world.DropNode(name, time.Now()) }),
	}.Source().Run(ctx)
	return nil
}

// watchShutOut follows which nodes are shut out.
func (a *Agent) watchShutOut(ctx context.Context, client kubernetes.Interface) error {
	const what = "the list of nodes that are shut out"
	follow.Kind[*corev1.ConfigMap, string, model.ShutOut]{
		Name: what, Lister: follow.List(client, client.CoreV1().ConfigMaps(shutout.Namespace), follow.Options{
			Fields: fields.OneTermEqualSelector(metav1.ObjectNameField, shutout.Name).String(), Failed: a.failed(what),
		}),
		Key: follow.ByName, Read: intake.ShutOut, Sink: &follow.Each[string, model.ShutOut]{
			Seen: a.world.SetShutOut, Gone: func(string) { a.world.SetShutOut(&model.ShutOut{}) }, Synced: a.world.ShutOutRead,
		},
	}.Source().Run(ctx)
	return nil
}

// watchAPIService follows the Service of the Kubernetes API.
func (a *Agent) watchAPIService(ctx context.Context, client kubernetes.Interface) error {
	const what = "the API's Service"
	follow.Kind[*corev1.Service, string, []netip.AddrPort]{
		Name: what, Lister: follow.List(client, client.CoreV1().Services(apiNamespace), follow.Options{
			Fields: fields.OneTermEqualSelector(metav1.ObjectNameField, apiService).String(), Failed: a.failed(what),
		}),
		Key: follow.ByName, Read: func(s *corev1.Service) *[]netip.AddrPort { return new(clusterAddresses(s)) },
		Sink: sees(a, world.Service, func(api *[]netip.AddrPort) { a.world.SetAPI(*api) }, func(string) { a.world.SetAPI(nil) }),
	}.Source().Run(ctx)
	return nil
}

// served is where API servers are.
type served struct {
	slice    string
	servers  []netip.AddrPort
	machines []netip.Addr
}

// watchAPIServers follows where the API servers really are.
func (a *Agent) watchAPIServers(ctx context.Context, client kubernetes.Interface) error {
	const what = "the API servers' addresses"
	set := func(s *served) {
		a.world.SetMachines(s.slice, s.machines)
		a.world.SetServers(s.slice, s.servers)
	}
	follow.Kind[*discoveryv1.EndpointSlice, string, served]{
		Name: what, Lister: follow.List(client, client.DiscoveryV1().EndpointSlices(apiNamespace), follow.Options{
			Labels: labels.Set{discoveryv1.LabelServiceName: apiService}.String(), Failed: a.failed(what),
		}),
		Key: follow.ByName, Read: func(s *discoveryv1.EndpointSlice) *served {
			return &served{s.Name, endpointAddresses(s), machineAddresses(s)}
		},
		Sink: sees(a, world.Endpoints, set, func(slice string) { set(&served{slice: slice}) }),
	}.Source().Run(ctx)
	return nil
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
