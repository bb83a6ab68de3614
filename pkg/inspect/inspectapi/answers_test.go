package inspectapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/resources"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
)

// answers are of a cluster with the Networks acme, acme--db and umbrella; asked counts what was looked up.
type answers struct {
	asked atomic.Int32
	err   error
	// tenants say whose ServiceAccounts are; block holds up whoever asks for Network umbrella, until it is closed or they have gone.
	tenants snapshot.Tenants
	block   chan struct{}
	// blockWork holds up explanations until it is closed; working are those that are being made, and most how many these were at most.
	blockWork     chan struct{}
	working, most atomic.Int32
	// idle takes the flag that they are work from ipamchecks.
	idle bool
	// blockList holds up whoever asks for all Networks.
	blockList chan struct{}
}

// table has the rows of what is read, and all other questions, answered by these answers.
func (a *answers) table() Answers {
	clusters, networks, pods := resources.Clusters(), resources.Networks(), resources.Pods()
	ipams, checks, topologies := resources.IPAMs(), resources.IPAMChecks(), resources.Topologies()
	clusters.List = func(ctx context.Context, _ snapshot.Sources, _ string) ([]api.Cluster, error) {
		one, err := a.Cluster(ctx)
		return []api.Cluster{one}, err
	}
	clusters.Get = func(ctx context.Context, _ snapshot.Sources, _, name string) (api.Cluster, bool, error) {
		if name != api.ClusterName {
			return api.Cluster{}, false, nil
		}
		one, err := a.Cluster(ctx)
		return one, true, err
	}
	networks.List, networks.Get = listBy(a.Networks), getBy(a.Network)
	ipams.List, ipams.Get = listBy(a.IPAMs), getBy(a.IPAM)
	checks.List, checks.Get, checks.Works = listBy(a.IPAMChecks), getBy(a.IPAMCheck), checks.Works && !a.idle
	topologies.List, topologies.Get = listBy(a.Topologies), getBy(a.Topology)
	pods.List = func(ctx context.Context, _ snapshot.Sources, namespace string) ([]api.Pod, error) {
		return a.Pods(ctx, namespace)
	}
	pods.Get = func(ctx context.Context, _ snapshot.Sources, namespace, name string) (api.Pod, bool, error) {
		return a.Pod(ctx, model.PodKey{Namespace: namespace, Name: name})
	}
	none := snapshot.Sources{}
	return Answers{
		Reads: []Read{
			readOf(clusters, none), readOf(networks, none), readOf(ipams, none), readOf(checks, none), readOf(topologies, none), readOf(pods, none),
		},
		Networks: a.Networks, TenantsOf: a.TenantsOf, Tenants: a.Tenants, Explain: a.Explain, Try: a.Try, TriedNetworks: a.TriedNetworks,
	}
}

func listBy[O any](list func(context.Context) ([]O, error)) func(context.Context, snapshot.Sources, string) ([]O, error) {
	return func(ctx context.Context, _ snapshot.Sources, _ string) ([]O, error) { return list(ctx) }
}

func getBy[O any](
	get func(context.Context, string) (O, bool, error),
) func(context.Context, snapshot.Sources, string, string) (O, bool, error) {
	return func(ctx context.Context, _ snapshot.Sources, _, name string) (O, bool, error) { return get(ctx, name) }
}

func (a *answers) Tenants() (snapshot.Tenants, error) { return a.tenants, nil }

func (a *answers) Cluster(context.Context) (api.Cluster, error) {
	a.asked.Add(1)
	return api.Cluster{}, a.err
}

func (a *answers) Networks(context.Context) ([]api.Network, error) {
	a.asked.Add(1)
	if a.blockList != nil {
		<-a.blockList
	}
	var out []api.Network
	for name, tenant := range map[string]string{"acme": "acme", "acme--db": "acme", "umbrella": "umbrella", "default": ""} {
		n := api.Network{Status: api.NetworkStatus{Tenant: tenant}}
		n.Name = name
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b api.Network) int { return strings.Compare(a.Name, b.Name) })
	return out, a.err
}

func (a *answers) TenantsOf(user string, _ []string) (map[string]bool, error) {
	return map[string]bool{"acme": user == "jo"}, nil
}

func (a *answers) Network(ctx context.Context, name string) (api.Network, bool, error) {
	a.asked.Add(1)
	if a.block != nil && name == "umbrella" {
		select {
		case <-a.block:
		case <-ctx.Done():
		}
	}
	return api.Network{}, name == "acme" || name == "umbrella", a.err
}

func (a *answers) IPAMs(ctx context.Context) ([]api.IPAM, error) {
	networks, err := a.Networks(ctx)
	var out []api.IPAM
	for _, n := range networks {
		i := api.IPAM{Status: api.IPAMStatus{Tenant: n.Status.Tenant}}
		i.Name = n.Name
		out = append(out, i)
	}
	pools := api.IPAM{}
	pools.Name = api.ClusterPools
	return append(out, pools), err
}

func (a *answers) IPAM(ctx context.Context, name string) (api.IPAM, bool, error) {
	_, there, err := a.Network(ctx, name)
	return api.IPAM{}, there || name == api.ClusterPools, err
}

func (a *answers) IPAMChecks(ctx context.Context) ([]api.IPAMCheck, error) {
	all, err := a.IPAMs(ctx)
	var out []api.IPAMCheck
	for _, i := range all {
		c := api.IPAMCheck{Status: api.IPAMCheckStatus{Tenant: i.Status.Tenant}}
		c.Name = i.Name
		out = append(out, c)
	}
	return out, err
}

func (a *answers) IPAMCheck(ctx context.Context, name string) (api.IPAMCheck, bool, error) {
	_, there, err := a.IPAM(ctx, name)
	c := api.IPAMCheck{}
	c.Name = name
	return c, there, err
}

func (a *answers) Topologies(ctx context.Context) ([]api.Topology, error) {
	networks, err := a.Networks(ctx)
	var out []api.Topology
	for _, n := range networks {
		t := api.Topology{Status: api.TopologyStatus{Tenant: n.Status.Tenant}}
		t.Name = n.Name
		out = append(out, t)
	}
	return out, err
}

func (a *answers) Topology(ctx context.Context, name string) (api.Topology, bool, error) {
	_, there, err := a.Network(ctx, name)
	return api.Topology{}, there, err
}

func (a *answers) Pods(context.Context, string) ([]api.Pod, error) { a.asked.Add(1); return nil, a.err }

func (a *answers) Pod(_ context.Context, key model.PodKey) (api.Pod, bool, error) {
	a.asked.Add(1)
	return api.Pod{}, key.Name == "web", a.err
}

func (a *answers) Explain(_ context.Context, spec api.ExplanationSpec, may question.MayAsk) (api.ExplanationStatus, error) {
	a.asked.Add(1)
	if a.blockWork != nil {
		now := a.working.Add(1)
		for most := a.most.Load(); now > most; most = a.most.Load() {
			a.most.CompareAndSwap(most, now)
		}
		defer a.working.Add(-1)
		<-a.blockWork
	}
	if spec.From == "" {
		return api.ExplanationStatus{}, &question.Error{Err: errors.New("from whom?")}
	}
	verdict := "everything"
	if may != nil {
		own, err := may("acme")
		other, otherErr := may("umbrella")
		if err := errors.Join(err, otherErr); err != nil {
			return api.ExplanationStatus{}, err
		}
		verdict = fmt.Sprintf("of acme %t, of umbrella %t", own, other)
	}
	return api.ExplanationStatus{Verdict: verdict}, a.err
}

func (a *answers) TriedNetworks(tried trial.Tried) ([]string, error) {
	out := []string{}
	for key := range tried {
		if key.Namespace == "" {
			return nil, nil
		}
		out = append(out, key.Namespace)
	}
	return out, nil
}

func (a *answers) Try(_ context.Context, tried trial.Tried, may question.MayAsk, seen *trial.TriedFlows) (api.PolicyTrialStatus, error) {
	a.asked.Add(1)
	verdict := fmt.Sprintf("%d of everything", len(tried))
	if seen != nil {
		return api.PolicyTrialStatus{Verdict: fmt.Sprintf("%d flows of %s: %s", len(seen.Flows), seen.Since, seen.Problem)}, a.err
	}
	if may != nil {
		own, err := may("acme")
		other, otherErr := may("umbrella")
		if err := errors.Join(err, otherErr); err != nil {
			return api.PolicyTrialStatus{}, err
		}
		verdict = fmt.Sprintf("%d, of acme %t, of umbrella %t", len(tried), own, other)
	}
	return api.PolicyTrialStatus{Verdict: verdict}, a.err
}
