// Command tenants measures what tenants cost: whether one more costs the same among many, and what one more Network costs that uses
// another one.
//
//	Tenants, Networks, pods -> kube-apiserver -> atoll-controller -> ovsdb-server -> ovn-northd -> ovn-controller:
//	rows, logical flows, memory, processor time
//
// Each tenant has a default Network, a second one, and a service Network that both use, all with the same addresses. Then one
// Network of another tenant gets consumers: all at once, and at the full size some more, one by one. Then Networks of a third are
// joined by mode Routed, and among a thousand Networks single ones begin to use each other. At last one tenant changes policies
// without a pause, and then labels, while another one makes pods. Nodes are names only, and pods are objects of the API, but for
// a few nodes on which Open vSwitch and ovn-controller run, with one pod each. It prints a table; everything that it starts lives
// in temporary directories and ends with it.
//
// The environment names the programs that are not ours, as for the tests: ATOLL_KUBE_BIN, ATOLL_ETCD and ATOLL_OVN_PREFIX.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

type options struct {
	controller, dist, json string
	tenants, pods, nodes   int
	consumers, more        int
	joined                 int
	networks, edges        int
	settle, restless       time.Duration
	only                   string
}

func main() {
	var o options
	flag.StringVar(&o.controller, "controller", "bin/atoll-controller", "the controller to measure")
	flag.StringVar(&o.dist, "dist", "dist", "directory of the manifests")
	flag.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	flag.IntVar(&o.tenants, "tenants", 200, "tenants at the end; it is also measured at a quarter and at half of them")
	flag.IntVar(&o.pods, "pods", 5, "pods in each Network of a tenant")
	flag.IntVar(&o.nodes, "nodes", 50, "nodes that the pods name")
	flag.IntVar(&o.consumers, "consumers", 500, "Networks that begin to use one of another tenant")
	flag.IntVar(&o.more, "more", 10, "Networks that do so after these, one by one")
	flag.IntVar(&o.joined, "joined", 32, "Networks that mode Routed joins to each other")
	flag.IntVar(&o.networks, "networks", 1000, "Networks that there are at least when single ones begin to use each other")
	flag.IntVar(&o.edges, "edges", 5, "Networks that do so then in each way, one after the other")
	flag.DurationVar(&o.settle, "settle", 35*time.Second,
		"how long nodes have nothing to do before their memory is read: they give back what they need no more after 30 s")
	flag.DurationVar(&o.restless, "restless", time.Minute,
		"how long a tenant changes policies without a pause, and then labels, while others' pods are made; 0: not")
	flag.StringVar(&o.only, "only", "", "measure only this beside what tenants cost: consumers, joined or restless")
	flag.Parse()
	harness.Main("tenants", func(ctx context.Context) error {
		results, err := measure(ctx, o)
		if err != nil {
			return err
		}
		return harness.Tell(results, o.json)
	})
}

// measuring is a run.
type measuring struct {
	*lab.Lab
	o        options
	tenants  dynamic.ResourceInterface
	out      results
	progress *lab.Progress
	// made is how many pods there are on nodes that are names, and networks how many Networks.
	made, networks int
	// rows is told of Networks that begin to use each other.
	rows *follower
	// nodes are those on which OVN runs.
	nodes []*node
}

// check refuses sizes with which nothing can be measured.
func (o options) check() error {
	if o.tenants < 8 || o.consumers < 1 || o.more < 1 || o.joined < 2 || o.joined > compatible.MaxJoined || o.edges < 1 {
		return fmt.Errorf(
			"--tenants=%d, --consumers=%d, --more=%d, --joined=%d, --edges=%d: at least 8, 1, 1, 2 and 1 are needed, and at most %d are joined",
			o.tenants, o.consumers, o.more, o.joined, o.edges, compatible.MaxJoined)
	}
	if !slices.Contains([]string{"", "consumers", "joined", "restless"}, o.only) {
		return fmt.Errorf("--only=%s: it is consumers, joined, restless, or empty for all", o.only)
	}
	return nil
}

// measure starts everything, measures and ends everything.
func measure(ctx context.Context, o options) (_ results, err error) {
	if err := o.check(); err != nil {
		return results{}, err
	}
	m := &measuring{o: o, progress: lab.NewProgress(os.Stderr), out: results{
		PodsPerNetwork: o.pods, Nodes: o.nodes, Processors: runtime.NumCPU(),
	}}
	if m.Lab, err = lab.Start(ctx, lab.Options{Controller: o.controller, Dist: o.dist, Northd: true, WithoutQuotas: true}); err != nil {
		return m.out, err
	}
	defer func() {
		for _, n := range m.nodes {
			n.Stop()
		}
		err = errors.Join(err, m.Stop())
	}()
	if m.rows, err = follow(ctx, m.Database.NBAddress()); err != nil {
		return m.out, err
	}
	defer m.rows.close()
	path, err := m.Kubeconfig("")
	if err != nil {
		return m.out, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return m.out, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return m.out, fmt.Errorf("make client: %w", err)
	}
	m.tenants = client.Resource(v1alpha1.SchemeGroupVersion.WithResource("tenants"))
	if err := m.StartController(ctx); err != nil {
		return m.out, err
	}
	m.progress.Done("start API server, OVN and controller")
	// The first tenant brings what is there once, and a pod on each node what nodes bring.
	if err := m.warmUp(ctx); err != nil {
		return m.out, err
	}
	done := 1
	for _, upTo := range []int{o.tenants / 4, o.tenants / 2, o.tenants} {
		if err := m.atSize(ctx, done, upTo); err != nil {
			return m.out, fmt.Errorf("%d tenants: %w", upTo, err)
		}
		done, m.networks = upTo, upTo*perTenant
		m.progress.Done(fmt.Sprintf("%d tenants", upTo))
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"consumers", m.consumers}, {"joined", m.joined}, {"edges", m.edges}, {"restless", m.restless}} {
		if o.only != "" && o.only != part.name {
			continue
		}
		if err := part.run(ctx); err != nil {
			return m.out, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return m.out, nil
}
