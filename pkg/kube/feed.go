package kube

import (
	"context"
	"log/slog"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// podSelector leaves away, at the API server, the pods that intake.Pod leaves away: not scheduled, on the
// node's own network, or finished. A pod that begins to be one of them is reported as deleted.
const podSelector = "spec.nodeName!=,spec.hostNetwork=false,status.phase!=Succeeded,status.phase!=Failed"

// Options of a Feed. The zero value logs to slog's default and counts nothing.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Feed gathers what happens to pods, namespaces, Networks, nodes and their reports, Services and their endpoints until somebody takes it;
// and to the objects of Gateway API while the cluster has it.
type Feed struct {
	log      *slog.Logger
	ready    chan struct{}
	sources  []source
	statuses *statuses[string, v1alpha1.NetworkStatus]
	gateways *gatewayFeed

	mu         sync.Mutex
	refusals   refusals
	onPod      func(model.PodKey) // told of whatever happens to a pod; may be nil
	pods       *gathered[model.PodKey, model.Pod]
	namespaces *gathered[string, model.Namespace]
	networks   *gathered[string, model.Network]
	nodes      *gathered[string, model.Node]
	reports    *gathered[string, model.NodeReport]
	services   *gathered[model.ServiceKey, model.Service]
	slices     *gathered[model.SliceKey, model.Slice]
	// policies are of two kinds, gathered apart: each has a first list of its own.
	policies, clusterPolicies *gathered[model.PolicyKey, model.Policy]
}

// source is one kind of object: where it comes from and where it goes.
type source struct {
	name   string
	lister cache.ListerWatcher
	object any
	store  cache.ReflectorStore
}

// NewFeed prepares a Feed; Run starts it.
func NewFeed(cfg *rest.Config, opts Options) (*Feed, error) {
	c, err := newClients(cfg)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	events, err := feedCounter(opts.Registerer)
	if err != nil {
		return nil, err
	}
	f := &Feed{
		log:        opts.Logger,
		ready:      make(chan struct{}, 1),
		statuses:   newStatuses[string, v1alpha1.NetworkStatus](),
		refusals:   refusals{},
		pods:       newGathered[model.PodKey](samePod),
		namespaces: newGathered[string](sameNamespace),
		networks:   newGathered[string](sameNetwork),
		nodes:      newGathered[string](sameNode),
		reports:    newGathered[string](sameReport),
		services:   newGathered[model.ServiceKey](sameService),
		slices:     newGathered[model.SliceKey](sameSlice),

		policies:        newGathered[model.PolicyKey](samePolicy),
		clusterPolicies: newGathered[model.PolicyKey](samePolicy),
	}
	f.pods.gone = func(p *model.Pod) { f.forgiveLocked(p.Key) }
	f.networks.gone = func(n *model.Network) { f.statuses.forget(n.Name, n.UID) }
	pods, err := fields.ParseSelector(podSelector)
	if err != nil {
		return nil, err
	}
	podStore := newStore(f, f.pods, podKey, f.pod, nil, events.WithLabelValues("pods"))
	podStore.early = true
	podStore.changed = f.podChanged
	core := c.core.RESTClient()
	f.sources = []source{{
		name:   "pods",
		lister: cache.NewListWatchFromClient(core, "pods", metav1.NamespaceAll, pods),
		object: &corev1.Pod{},
		store:  podStore,
	}, {
		name:   "namespaces",
		lister: cache.NewListWatchFromClient(core, "namespaces", metav1.NamespaceAll, fields.Everything()),
		object: &corev1.Namespace{},
		store:  newStore(f, f.namespaces, namespaceKey, intake.Namespace, nil, events.WithLabelValues("namespaces")),
	}, {
		name:   "networks",
		lister: cache.NewListWatchFromClient(c.network, "networks", metav1.NamespaceAll, fields.Everything()),
		object: &v1alpha1.Network{},
		store:  newStore(f, f.networks, networkKey, f.network, nil, events.WithLabelValues("networks")),
	}, {
		name:   "nodes",
		lister: cache.NewListWatchFromClient(core, "nodes", metav1.NamespaceAll, fields.Everything()),
		object: &corev1.Node{},
		store:  newStore(f, f.nodes, nodeKey, intake.Node, trimNode, events.WithLabelValues("nodes")),
	}, {
		name:   "nodereports",
		lister: cache.NewListWatchFromClient(c.network, "nodereports", metav1.NamespaceAll, fields.Everything()),
		object: &v1alpha1.NodeReport{},
		store:  newStore(f, f.reports, nodeKey, intake.NodeReport, nil, events.WithLabelValues("nodereports")),
	}, {
		name:   "services",
		lister: cache.NewListWatchFromClient(core, "services", metav1.NamespaceAll, fields.Everything()),
		object: &corev1.Service{},
		store:  newStore(f, f.services, serviceKey, intake.Service, nil, events.WithLabelValues("services")),
	}, {
		name:   "endpointslices",
		lister: slicesOf(c.discovery),
		object: &discoveryv1.EndpointSlice{},
		store:  newStore(f, f.slices, sliceKey, intake.Slice, nil, events.WithLabelValues("endpointslices")),
	}, {
		name:   "networkpolicies",
		lister: cache.NewListWatchFromClient(c.networking.RESTClient(), "networkpolicies", metav1.NamespaceAll, fields.Everything()),
		object: &networkingv1.NetworkPolicy{},
		store:  newStore(f, f.policies, policyKey(model.NetworkPolicy), intake.NetworkPolicy, nil, events.WithLabelValues("networkpolicies")),
	}, {
		name:   "clusternetworkpolicies",
		lister: clusterPoliciesOf(c.policy),
		object: &policyv1alpha2.ClusterNetworkPolicy{},
		store: newStore(f, f.clusterPolicies, policyKey(model.ClusterNetworkPolicy), intake.ClusterNetworkPolicy, nil,
			events.WithLabelValues("clusternetworkpolicies")),
	}}
	f.gateways = newGatewayFeed(f, c.gateway, events)
	return f, nil
}

// Run feeds until ctx ends. It returns when everything it started has stopped.
func (f *Feed) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(f.log.Handler()))
	var running sync.WaitGroup
	for _, s := range f.sources {
		r := cache.NewReflectorWithOptions(s.lister, s.object, s.store, cache.ReflectorOptions{Name: s.name})
		running.Go(func() { r.RunWithContext(ctx) })
	}
	running.Go(func() { f.watchGateways(ctx) })
	running.Wait()
	return ctx.Err()
}

// Ready yields after something was gathered or Synced began to be true. One signal may stand for many.
func (f *Feed) Ready() <-chan struct{} { return f.ready }

// Synced reports whether everything that the cluster held at the start has been gathered. Whoever wants to
// remove what it does not know asks this before Take, and takes before it removes.
func (f *Feed) Synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods.listed && f.namespaces.listed && f.networks.listed && f.nodes.listed && f.reports.listed &&
		f.services.listed && f.slices.listed && f.policies.listed && f.clusterPolicies.listed && f.gatewaysSynced()
}

// Take hands over what was gathered since it was last called. An object that was deleted and made anew in
// between appears once, with its new UID; one that came and went in between does not appear.
func (f *Feed) Take() model.Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	policies := f.policies.take()
	maps.Copy(policies, f.clusterPolicies.take())
	c := model.Changes{
		Policies:   policies,
		Networks:   f.networks.take(),
		Namespaces: f.namespaces.take(),
		Pods:       f.pods.take(),
		Nodes:      f.nodes.take(),
		Reports:    f.reports.take(),
		Services:   f.services.take(),
		Slices:     f.slices.take(),
	}
	f.takeGateways(&c)
	return c
}

// signal wakes whoever waits on Ready; it never blocks.
func (f *Feed) signal() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// tellOfPods has tell called, with none of our locks held, after whatever happens to a pod, news or not.
func (f *Feed) tellOfPods(tell func(model.PodKey)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onPod = tell
}

func (f *Feed) podChanged(pod model.PodKey) {
	f.changedRefused(pod)
	f.mu.Lock()
	tell := f.onPod
	f.mu.Unlock()
	if tell != nil {
		tell(pod)
	}
}

// pod reads a pod, as it is reported while the API server refuses what is written on it.
func (f *Feed) pod(in *corev1.Pod) *model.Pod {
	p := intake.Pod(in)
	if p == nil {
		return nil
	}
	return f.refused(p)
}

// network keeps the status aside for the Writer, which must not write what is there already.
func (f *Feed) network(in *v1alpha1.Network) *model.Network {
	f.statuses.observe(in.Name, in, in.Status)
	return intake.Network(in)
}

func podKey(namespace, name string) model.PodKey {
	return model.PodKey{Namespace: namespace, Name: name}
}

func namespaceKey(_, name string) string { return name }

func networkKey(_, name string) string { return name }
