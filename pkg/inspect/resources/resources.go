package resources

import (
	"context"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/ipam"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/status"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// Resource is a row of the table: what the API calls it, and how its objects are found.
type Resource[O any] struct {
	// Name is that of the API, Kind that of an object, and Noun what an error calls one.
	Name, Kind, Noun string
	// Namespaced: objects are in namespaces.
	Namespaced bool
	// Works: to find them takes a processor.
	Works bool
	// Whose is the Network that an object is about, and its Tenant: a list is cut to those that its reader may get. Nil: who may list them is
	// told of all.
	Whose func(*O) (network, tenant string)
	// List are the objects of a namespace, or of all if it is empty.
	List func(ctx context.Context, s snapshot.Sources, namespace string) ([]O, error)
	// Get is one object; false when there is none.
	Get func(ctx context.Context, s snapshot.Sources, namespace, name string) (O, bool, error)
}

// Clusters has one object: how the cluster is.
func Clusters() Resource[api.Cluster] {
	return Resource[api.Cluster]{
		Name: api.ResourceClusters, Kind: "Cluster", Noun: "cluster",
		List: func(ctx context.Context, s snapshot.Sources, _ string) ([]api.Cluster, error) {
			one, err := status.Cluster(ctx, s)
			return []api.Cluster{one}, err
		},
		Get: func(ctx context.Context, s snapshot.Sources, _, name string) (api.Cluster, bool, error) {
			if name != api.ClusterName {
				return api.Cluster{}, false, nil
			}
			one, err := status.Cluster(ctx, s)
			return one, true, err
		},
	}
}

// Networks say how Networks are.
func Networks() Resource[api.Network] {
	return Resource[api.Network]{
		Name: api.ResourceNetworks, Kind: "Network", Noun: "Network",
		Whose: func(n *api.Network) (network, tenant string) { return n.Name, n.Status.Tenant },
		List:  everywhere(status.Networks), Get: byName(status.Network),
	}
}

// IPAMs say what is known of the addresses of each Network and of the cluster.
func IPAMs() Resource[api.IPAM] {
	return Resource[api.IPAM]{
		Name: api.ResourceIPAMs, Kind: "IPAM", Noun: "Network",
		Whose: func(i *api.IPAM) (network, tenant string) { return i.Name, i.Status.Tenant },
		List:  everywhere(ipam.List), Get: byName(ipam.Get),
	}
}

// IPAMChecks say what is wrong with addresses.
func IPAMChecks() Resource[api.IPAMCheck] {
	return Resource[api.IPAMCheck]{
		Name: api.ResourceIPAMChecks, Kind: "IPAMCheck", Noun: "Network", Works: true,
		Whose: func(c *api.IPAMCheck) (network, tenant string) { return c.Name, c.Status.Tenant },
		List:  everywhere(ipam.Checks), Get: byName(ipam.Check),
	}
}

// Topologies say what Networks are made of.
func Topologies() Resource[api.Topology] {
	return Resource[api.Topology]{
		Name: api.ResourceTopologies, Kind: "Topology", Noun: "Network",
		Whose: func(t *api.Topology) (network, tenant string) { return t.Name, t.Status.Tenant },
		List:  everywhere(topology.List), Get: byName(topology.Get),
	}
}

// Pods say what pods have and what is missing.
func Pods() Resource[api.Pod] {
	return Resource[api.Pod]{
		Name: api.ResourcePods, Kind: "Pod", Noun: "pod", Namespaced: true,
		List: status.Pods,
		Get: func(ctx context.Context, s snapshot.Sources, namespace, name string) (api.Pod, bool, error) {
			return status.Pod(ctx, s, model.PodKey{Namespace: namespace, Name: name})
		},
	}
}

// everywhere lists objects that are in no namespace.
func everywhere[O any](
	list func(context.Context, snapshot.Sources) ([]O, error),
) func(context.Context, snapshot.Sources, string) ([]O, error) {
	return func(ctx context.Context, s snapshot.Sources, _ string) ([]O, error) { return list(ctx, s) }
}

// byName gets an object that is in no namespace.
func byName[O any](
	get func(context.Context, snapshot.Sources, string) (O, bool, error),
) func(context.Context, snapshot.Sources, string, string) (O, bool, error) {
	return func(ctx context.Context, s snapshot.Sources, _, name string) (O, bool, error) {
		return get(ctx, s, name)
	}
}
