package status

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// namespace is where Atoll is, leaseName the Lease of the controller that leads.
const namespace, leaseName = "atoll-system", "atoll-controller"

// Cluster says how the cluster is.
func Cluster(ctx context.Context, s snapshot.Sources) (api.Cluster, error) {
	held, err := s.Held()
	if err != nil {
		return api.Cluster{}, err
	}
	f := clusterFacts{source: s.Source}
	var asking sync.WaitGroup
	asking.Go(func() { f.readObjects(ctx, s.Client) })
	if s.Northbound != nil && s.Southbound != nil {
		f.databases = make([]databaseFacts, 2)
		for n, database := range []*ovsdb.Asker{s.Northbound, s.Southbound} {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
				defer cancel()
				servers, err := database.Servers(ctx)
				f.databases[n] = databaseFacts{database.Database, servers, err}
			})
		}
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
			defer cancel()
			f.southbound, f.southboundError = readSouthbound(ctx, s.Southbound, held.Objects.Pods)
		})
	}
	asking.Wait()
	f.now = time.Now()
	return statusOfCluster(held, f), nil
}

// readObjects reads from the API server the objects that no cache holds.
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
	// The API server's cache is new enough, and reading it is cheap.
	nodes, err := client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0"})
	if err != nil {
		f.nodeError = err
		return
	}
	f.nodes = nodes.Items
	sortNodes(f.nodes)
}

// authorityEnds returns when the certificates of the authorities expire. These dates are no secret. A user who reads them from the
// API server directly may lack the right to; the result is then nil, without an error.
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
