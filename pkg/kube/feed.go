package kube

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// podSelector leaves away, at the API server, the pods that intake.Pod leaves away: not scheduled, on the
// node's own network, or finished. A pod that begins to be one of them is reported as deleted.
const podSelector = "spec.nodeName!=,spec.hostNetwork=false,status.phase!=Succeeded,status.phase!=Failed"

// Options of a Feed. The zero value logs to slog's default and counts nothing.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// ShutOut: it also reads which nodes are shut out. Few may.
	ShutOut bool
}

// Feed gathers what happens to pods, namespaces, Networks, nodes and their reports, Services and their endpoints until somebody takes it;
// and to the objects of Gateway API while the cluster has it.
type Feed struct {
	log      *slog.Logger
	ready    wake.Signal
	kinds    []kind
	statuses *statuses[string, v1alpha1.NetworkStatus]
	tenants  *statuses[string, v1alpha1.TenantStatus]
	gateways *gatewayFeed

	mu       sync.Mutex
	refusals refusals
	onPod    func(model.PodKey) // told of whatever happens to a pod; may be nil
	pods     *gathered[model.PodKey, model.Pod]
	nodes    *gathered[string, model.Node]
	reports  *gathered[string, model.NodeReport]
}

// kind is one kind of objects that is gathered.
type kind struct {
	follow.Source
	// listed reports whether all of the kind has been gathered, take hands over what was. The caller holds Feed.mu.
	listed func() bool
	take   func(*model.Changes)
	// held adds all of the kind that is there, taken or not. The caller holds Feed.mu.
	held func(*model.Changes)
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
		log: opts.Logger, ready: wake.NewSignal(), statuses: newStatuses[string, v1alpha1.NetworkStatus](), refusals: refusals{},
		tenants: newStatuses[string, v1alpha1.TenantStatus](),
		pods:    newGathered[model.PodKey](samePod),
		nodes:   newGathered[string](sameNode),
		reports: newGathered[string](same[model.NodeReport]),
	}
	networks := newGathered[string](sameNetwork)
	f.pods.gone = func(p *model.Pod) { f.forgiveLocked(p.Key) }
	tenants := newGathered[string](same[model.Tenant])
	tenants.gone = func(t *model.Tenant) { f.tenants.forget(t.Name, t.UID) }
	networks.gone = func(n *model.Network) { f.statuses.forget(n.Name, n.UID) }
	pods, err := fields.ParseSelector(podSelector)
	if err != nil {
		return nil, err
	}
	core, policies := c.core.RESTClient(), c.networking.RESTClient()
	all := func(c cache.Getter, resource string) cache.ListerWatcher {
		return cache.NewListWatchFromClient(c, resource, metav1.NamespaceAll, fields.Everything())
	}
	f.kinds = []kind{
		kindOf(gather(f, events, "pods", cache.NewListWatchFromClient(core, "pods", metav1.NamespaceAll, pods), f.pods, podKey, f.pod,
			f.podChanged),
			f.pods, func(c *model.Changes) *map[model.PodKey]*model.Pod { return &c.Pods }),
		watched(f, events, "namespaces", all(core, "namespaces"), newGathered[string](sameNamespace), byName, intake.Namespace,
			func(c *model.Changes) *map[string]*model.Namespace { return &c.Namespaces }),
		watched(f, events, "networks", all(c.network, "networks"), networks, byName, f.network,
			func(c *model.Changes) *map[string]*model.Network { return &c.Networks }),
		watched(f, events, "tenants", all(c.network, "tenants"), tenants, byName, f.tenant,
			func(c *model.Changes) *map[string]*model.Tenant { return &c.Tenants }),
		watched(f, events, "nodes", all(core, "nodes"), f.nodes, byName, intake.Node,
			func(c *model.Changes) *map[string]*model.Node { return &c.Nodes }),
		watched(f, events, "nodereports", all(c.network, "nodereports"), f.reports, byName, intake.NodeReport,
			func(c *model.Changes) *map[string]*model.NodeReport { return &c.Reports }),
		watched(f, events, "services", all(core, "services"), newGathered[model.ServiceKey](sameService), serviceKey, intake.Service,
			func(c *model.Changes) *map[model.ServiceKey]*model.Service { return &c.Services }),
		watched(f, events, "endpointslices", slicesOf(c.discovery), newGathered[model.SliceKey](sameSlice), sliceKey, intake.Slice,
			func(c *model.Changes) *map[model.SliceKey]*model.Slice { return &c.Slices }),
		// Policies are of two kinds: each has a first list of its own.
		watched(f, events, "networkpolicies", all(policies, "networkpolicies"), newGathered[model.PolicyKey](same[model.Policy]),
			policyKey(model.NetworkPolicy), intake.NetworkPolicy, changedPolicies),
		watched(f, events, "clusternetworkpolicies", clusterPoliciesOf(c.policy), newGathered[model.PolicyKey](same[model.Policy]),
			policyKey(model.ClusterNetworkPolicy), intake.ClusterNetworkPolicy, changedPolicies),
	}
	if opts.ShutOut {
		lister := cache.NewListWatchFromClient(core,
			"configmaps", shutout.Namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, shutout.Name))
		f.kinds = append(f.kinds, watched(f, events, "configmaps", lister, newGathered[string](same[model.ShutOut]), byName, intake.ShutOut,
			func(c *model.Changes) *map[string]*model.ShutOut { return &c.ShutOut }))
	}
	f.gateways = newGatewayFeed(f, c.gateway, events)
	return f, nil
}

// Run feeds until ctx ends. It returns when everything it started has stopped.
func (f *Feed) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(f.log.Handler()))
	var running sync.WaitGroup
	for _, k := range f.kinds {
		running.Go(func() { k.Run(ctx) })
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
	return !slices.ContainsFunc(f.kinds, func(k kind) bool { return !k.listed() }) && f.gatewaysSynced()
}

// Take hands over what was gathered since it was last called. An object that was deleted and made anew in
// between appears once, with its new UID; one that came and went in between does not appear.
func (f *Feed) Take() model.Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := model.NewChanges()
	for _, k := range f.kinds {
		k.take(&c)
	}
	f.takeGateways(&c)
	return c
}

// Held is all that the cluster has, as far as it has been gathered, whoever has taken of it: for whoever looks on. The objects
// are not to be changed. It costs a copy of the maps.
func (f *Feed) Held() model.Changes {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := model.NewChanges()
	for _, k := range f.kinds {
		k.held(&c)
	}
	for _, s := range f.gateways.sources {
		s.held(&c)
	}
	return c
}

// Machines are the Nodes and the reports that the cluster has, by name, as far as they have been gathered; listed is false until all of
// both have been.
// The objects are not to be changed.
func (f *Feed) Machines() (nodes map[string]*model.Node, reports map[string]*model.NodeReport, listed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.nodes.known), maps.Clone(f.reports.known), f.nodes.listed && f.reports.listed
}

// NetworkStatus is the newest status that the API server is known to hold of the Network with that name and UID; false when none is known.
func (f *Feed) NetworkStatus(name, uid string) (v1alpha1.NetworkStatus, bool) {
	return f.statuses.get(name, uid)
}

// watched is a kind of which nothing else is done with what is gathered.
func watched[O metav1.Object, K comparable, V any](
	f *Feed, events *prometheus.CounterVec, resource string, lister cache.ListerWatcher, to *gathered[K, V],
	key func(namespace, name string) K, read func(O) *V, into func(*model.Changes) *map[K]*V,
) kind {
	return kindOf(gather(f, events, resource, lister, to, key, read, nil), to, into)
}

// kindOf is a kind that a source gathers, and that is handed over into one field of changes.
func kindOf[K comparable, V any](source follow.Source, from *gathered[K, V], into func(*model.Changes) *map[K]*V) kind {
	return kind{Source: source, listed: func() bool { return from.listed }, take: func(c *model.Changes) {
		field, taken := into(c), from.take()
		if len(*field) == 0 {
			*field = taken
		} else {
			maps.Copy(*field, taken)
		}
	}, held: func(c *model.Changes) { maps.Copy(*into(c), from.known) }}
}

func changedPolicies(c *model.Changes) *map[model.PolicyKey]*model.Policy { return &c.Policies }

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

// byName is the key of objects without a namespace.
func byName(_, name string) string { return name }
