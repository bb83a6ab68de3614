package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

const (
	// namespace is where Atoll is, leaseName the Lease of the controller that leads.
	namespace, leaseName = "atoll-system", "atoll-controller"
	// databaseTime is how long a database may take to answer: a member that is away must not hide what the others say.
	databaseTime = 3 * time.Second
	// mirrorPatience is how long a database may take to be read as a whole.
	mirrorPatience = 20 * time.Second
)

// ErrNotRead says that who answers has only just begun.
var ErrNotRead = errors.New("the cluster's objects have not been read yet; ask again in a moment")

// Inquirer answers questions about a cluster from three sides: objects that somebody holds, the API server and OVN's databases.
type Inquirer struct {
	// Source says who answers.
	Source string
	// Held gives the objects as they are now, or says why they are not known.
	Held func() (Held, error)
	// Client asks the API server for the rest.
	Client kubernetes.Interface
	// Northbound and Southbound are nil where they cannot be asked.
	Northbound, Southbound *ovsdb.Asker
	// Mirror has the northbound database's rows for explanations, and Settings gives the cluster's settings, or says why they are not known. Nil where
	// nothing is explained.
	Mirror   *Mirror
	Settings func() (config.Settings, error)
}

// Networks are all Networks.
func (i Inquirer) Networks(ctx context.Context) ([]api.Network, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return nil, err
	}
	return held.Networks(), ended(ctx)
}

// TenantsOf are the Tenants whose admin somebody is, as they say themselves.
func (i Inquirer) TenantsOf(user string, groups []string) (map[string]bool, error) {
	held, err := i.Held()
	if err != nil {
		return nil, err
	}
	return held.tenantsOf(user, groups), nil
}

// Network is one; false when there is none.
func (i Inquirer) Network(ctx context.Context, name string) (api.Network, bool, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return api.Network{}, false, err
	}
	n, there := held.Network(name)
	if err := ended(ctx); err != nil || !there {
		return n, false, err
	}
	if i.Northbound == nil {
		n.Status.Detail.Problem = "the northbound database was not asked"
		return n, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	addRows(ctx, i.Northbound, &n, held.Default)
	return n, true, nil
}

// IPAMs are what is known of addresses, of each Network and of the cluster.
func (i Inquirer) IPAMs(ctx context.Context) ([]api.IPAM, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return nil, err
	}
	return held.IPAMs(), ended(ctx)
}

// IPAM is that of one Network, or of the cluster, with who holds which address; false when there is none.
func (i Inquirer) IPAM(ctx context.Context, name string) (api.IPAM, bool, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return api.IPAM{}, false, err
	}
	out, there := held.IPAM(name)
	return out, there, ended(ctx)
}

// IPAMChecks are what is wrong with addresses, in each Network and in the cluster.
func (i Inquirer) IPAMChecks(ctx context.Context) ([]api.IPAMCheck, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return nil, err
	}
	if i.Mirror == nil {
		return held.IPAMChecks(nil, notAsked), ended(ctx)
	}
	reading, cancel := context.WithTimeout(ctx, mirrorPatience)
	defer cancel()
	var out []api.IPAMCheck
	if err := i.Mirror.use(reading, func(rows northbound) error {
		out = held.IPAMChecks(rows, "")
		return nil
	}); err != nil {
		return held.IPAMChecks(nil, notAnswering("northbound")+": leaks there, and ports that differ, are not known"), ended(ctx)
	}
	return out, ended(ctx)
}

// IPAMCheck is that of one Network, or of the cluster; false when there is none.
func (i Inquirer) IPAMCheck(ctx context.Context, name string) (api.IPAMCheck, bool, error) {
	all, err := i.IPAMChecks(ctx)
	at := slices.IndexFunc(all, func(c api.IPAMCheck) bool { return c.Name == name })
	if err != nil || at < 0 {
		return api.IPAMCheck{}, false, err
	}
	return all[at], true, nil
}

// Topologies are what Networks are made of.
func (i Inquirer) Topologies(ctx context.Context) ([]api.Topology, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return nil, err
	}
	return held.Topologies(), ended(ctx)
}

// Topology is that of one Network; false when there is none.
func (i Inquirer) Topology(ctx context.Context, name string) (api.Topology, bool, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return api.Topology{}, false, err
	}
	out, there := held.Topology(name)
	return out, there, ended(ctx)
}

// Pods are those of a namespace, or of all if it is empty.
func (i Inquirer) Pods(ctx context.Context, namespace string) ([]api.Pod, error) {
	held, err := i.heldFor(ctx)
	if err != nil {
		return nil, err
	}
	return held.Pods(namespace), ended(ctx)
}

// Pod is one with all its layers; false when there is none.
func (i Inquirer) Pod(ctx context.Context, key model.PodKey) (api.Pod, bool, error) {
	held, err := i.Held()
	if err != nil {
		return api.Pod{}, false, err
	}
	object, err := i.Client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Pod{}, false, nil
	}
	if err != nil {
		return api.Pod{}, false, fmt.Errorf("read pod %s: %w", key, err)
	}
	facts := podFacts{object: object}
	facts.events, facts.told = i.warnings(ctx, object)
	if i.Northbound != nil && i.Southbound != nil {
		ctx, cancel := context.WithTimeout(ctx, databaseTime)
		defer cancel()
		name := key.First().PortName()
		if p := held.Objects.Pods[key]; held.attachment(p) != nil {
			name = model.AttachmentKey{Pod: key, Interface: held.attachment(p).Interface}.PortName()
		}
		rows := readPodRows(ctx, i.Northbound, i.Southbound, name)
		facts.rows = &rows
	}
	return held.podLayers(facts), true, nil
}

// warnings are a pod's, the newest first.
func (i Inquirer) warnings(ctx context.Context, pod *core.Pod) ([]core.Event, error) {
	list, err := i.Client.CoreV1().Events(pod.Namespace).List(ctx, meta.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "Pod", "involvedObject.uid": string(pod.UID), "type": core.EventTypeWarning,
	}.String()})
	if err != nil {
		return nil, err
	}
	latest := func(e core.Event) time.Time {
		last := e.LastTimestamp.Time
		if e.Series != nil && e.Series.LastObservedTime.After(last) {
			last = e.Series.LastObservedTime.Time
		}
		if e.EventTime.After(last) {
			last = e.EventTime.Time
		}
		return last
	}
	slices.SortStableFunc(list.Items, func(a, b core.Event) int { return latest(b).Compare(latest(a)) })
	return list.Items, nil
}

// Cluster says how the cluster is.
func (i Inquirer) Cluster(ctx context.Context) (api.Cluster, error) {
	held, err := i.Held()
	if err != nil {
		return api.Cluster{}, err
	}
	f := clusterFacts{source: i.Source}
	var asking sync.WaitGroup
	asking.Go(func() { f.readObjects(ctx, i.Client) })
	if i.Northbound != nil && i.Southbound != nil {
		f.databases = make([]databaseFacts, 2)
		for n, database := range []*ovsdb.Asker{i.Northbound, i.Southbound} {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, databaseTime)
				defer cancel()
				servers, err := database.Servers(ctx)
				f.databases[n] = databaseFacts{database.Database, servers, err}
			})
		}
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, databaseTime)
			defer cancel()
			f.southbound, f.southboundError = readSouthbound(ctx, i.Southbound, held.Objects.Pods)
		})
	}
	asking.Wait()
	f.now = time.Now()
	return held.clusterStatus(f), nil
}

// readObjects asks the API server for what nobody holds.
func (f *clusterFacts) readObjects(ctx context.Context, client kubernetes.Interface) {
	f.lease, f.leaseError = client.CoordinationV1().Leases(namespace).Get(ctx, leaseName, meta.GetOptions{})
	if f.leaseError != nil {
		f.lease = nil
		if apierrors.IsNotFound(f.leaseError) {
			f.leaseError = nil
		}
	}
	ours := meta.ListOptions{LabelSelector: "app.kubernetes.io/part-of=atoll"}
	if deployments, err := client.AppsV1().Deployments(namespace).List(ctx, ours); err != nil {
		f.componentError = err
	} else {
		f.deployments = deployments.Items
	}
	if daemons, err := client.AppsV1().DaemonSets(namespace).List(ctx, ours); err != nil {
		f.componentError = err
	} else {
		f.daemons = daemons.Items
	}
	f.authorities, f.authorityError = authorityEnds(ctx, client)
	// Those of the API server's cache are new enough, and cost it little.
	nodes, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0"})
	if err != nil {
		f.nodeError = err
		return
	}
	f.nodes = nodes.Items
	sortNodes(f.nodes)
}

// authorityEnds are when the authorities' certificates end, which are no secret. Who asks the API server himself may not be let: then he is told nothing of them.
func authorityEnds(ctx context.Context, client kubernetes.Interface) (map[string]time.Time, error) {
	bundles, err := client.CoreV1().ConfigMaps(certs.Namespace).Get(ctx, certs.ConfigMapName, meta.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return certs.AuthorityEnds(bundles.Data)
}

// HeldBy gives what a feed holds, in a cluster of these settings.
func HeldBy(feed *kube.Feed, settings config.Settings) (Held, error) {
	if !feed.Synced() {
		return Held{}, ErrNotRead
	}
	return Held{Objects: feed.Held(), Status: feed.NetworkStatus, Default: settings.Network, Pools: rangesOf(settings)}, nil
}
