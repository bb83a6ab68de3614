package check

import (
	"context"
	"log/slog"
	"sync"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// Query says what a check looks at.
type Query struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Northbound are the servers of the northbound database; without any, it is reached by way of the API server, and so is the
	// southbound one. Southbound are the servers of that; where there are some of Northbound alone, nobody looks whether ports are
	// up.
	Northbound, Southbound []string
	// Node is whose interfaces are looked at, in the database at Switch; empty: nobody's.
	Node, Switch string
	// Nodes: all nodes' agents are asked, too, by way of the API server; with Repair they put right what differs.
	Nodes, Repair bool
	// Settle is how long a difference must last to count.
	Settle time.Duration
}

// Run compares what OVN has with what the cluster's objects ask for. It looks until what differs has settled.
func Run(ctx context.Context, q Query) (Report, error) {
	heard := &connect.LastWarning{}
	if !q.Nodes {
		report, err := observe(ctx, q, slog.New(heard))
		return report, heard.Explain(err)
	}
	remote, err := client.NewRemote(q.Kubeconfig)
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		nodes  nodesSeen
		asking sync.WaitGroup
	)
	asking.Go(func() { nodes = checkNodes(ctx, remote, q.Settle, q.Repair) })
	if q.Repair {
		// What is repaired on nodes shows in the databases.
		asking.Wait()
	}
	report, err := observe(ctx, q, slog.New(heard))
	if err != nil {
		cancel()
	}
	asking.Wait()
	if err == nil {
		nodes.into(&report)
	}
	return report, heard.Explain(err)
}

// observe connects to everything and looks. What it opened is closed when it returns.
func observe(ctx context.Context, q Query, log *slog.Logger) (Report, error) {
	feed, stop, err := connect.OpenCluster(ctx, q.Kubeconfig, log)
	if err != nil {
		return Report{}, err
	}
	defer stop()
	northbound, end, err := connect.ToDatabase(ctx, q.Kubeconfig, api.DatabaseNorthbound, q.Northbound)
	if err != nil {
		return Report{}, err
	}
	defer end()
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: northbound, Log: log})
	if err != nil {
		return Report{}, err
	}
	defer session.Close()
	settings, err := connect.ReadSettings(ctx, q.Kubeconfig)
	if err != nil {
		return Report{}, err
	}
	s := &sources{defaults: settings, cluster: feed, objects: model.NewChanges(), northbound: connect.ViewOf(session), node: q.Node}
	if len(q.Southbound) > 0 || len(q.Northbound) == 0 {
		addresses, end, err := connect.ToDatabase(ctx, q.Kubeconfig, api.DatabaseSouthbound, q.Southbound)
		if err != nil {
			return Report{}, err
		}
		defer end()
		southbound, err := ovsdb.OpenSouthbound(ctx, ovsdb.Config{Addresses: addresses, Log: log})
		if err != nil {
			return Report{}, err
		}
		defer southbound.Close()
		s.bindings = southbound.Bindings
	}
	if q.Node != "" {
		ovs, err := connect.OpenSwitch(ctx, q.Switch, log)
		if err != nil {
			return Report{}, err
		}
		defer ovs.Close()
		s.interfaces = ovs.List
	}
	if err := connect.AwaitObjects(ctx, feed); err != nil {
		return Report{}, err
	}
	return settle(ctx, q.Settle, s.look)
}
