package kube

import (
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// slicesOf lists and watches the EndpointSlices that are of a Service: ours are of none.
func slicesOf(c *discoveryclient.DiscoveryV1Client) cache.ListerWatcher {
	return cache.NewFilteredListWatchFromClient(c.RESTClient(), "endpointslices", metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.LabelSelector = discoveryv1.LabelServiceName })
}

func serviceKey(namespace, name string) model.ServiceKey {
	return model.ServiceKey{Namespace: namespace, Name: name}
}

func sliceKey(namespace, name string) model.SliceKey {
	return model.SliceKey{Namespace: namespace, Name: name}
}

func sameService(a, b *model.Service) bool {
	return a.Key == b.Key && a.UID == b.UID && a.Created.Equal(b.Created) && a.Affinity == b.Affinity && a.Local == b.Local &&
		a.Prefers == b.Prefers && a.Beyond == b.Beyond && a.OfAnotherProxy == b.OfAnotherProxy &&
		slices.Equal(a.ClusterIPs, b.ClusterIPs) && slices.Equal(a.Ports, b.Ports) && maps.Equal(a.Selector, b.Selector) &&
		slices.Equal(a.Published, b.Published) &&
		slices.Equal(a.Wanted, b.Wanted) && a.WantedError == b.WantedError && sameServiceAddresses(a.Assigned, b.Assigned)
}

func sameServiceAddresses(a, b *model.ServiceAddresses) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ServiceUID == b.ServiceUID && a.Network == b.Network && a.NetworkUID == b.NetworkUID &&
		slices.Equal(a.Addresses, b.Addresses) && a.Refused == b.Refused
}

func sameSlice(a, b *model.Slice) bool {
	return a.Key == b.Key && a.UID == b.UID && a.Service == b.Service &&
		slices.Equal(a.Ports, b.Ports) && slices.EqualFunc(a.Endpoints, b.Endpoints, model.Endpoint.Equal)
}
