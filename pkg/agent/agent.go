package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/metadata"

	"github.com/atoll-net/atoll/pkg/netdev"
	"github.com/atoll-net/atoll/pkg/vswitch"
)

// Config is what the agent is told when it starts.
type Config struct {
	// Node is the name of this node; only its pods are read.
	Node string
	// OVSDB is the address of the local Open vSwitch database, Bridge the bridge that OVN uses.
	OVSDB, Bridge string
	// Socket is where the plugin's requests are served.
	Socket string
	// ConfDir and BinDir are the runtime's directories for network configurations and plugins.
	ConfDir, BinDir string
	// Plugin is the program to install as atoll-cni; empty when it is there already.
	Plugin string
	// MTU of pods in bytes; 0 takes what the tunnel leaves of its interface's.
	MTU int
	// MetricsAddress serves /metrics and /healthz; empty serves neither.
	MetricsAddress string
}

// Agent serves one node.
type Agent struct {
	ovs     *vswitch.Client
	pods    *pods
	locks   *locks
	metrics *metrics
	mtu     int
	log     *slog.Logger
	// nudge asks for a sweep before its time. It holds at most one.
	nudge chan struct{}
	// swept is closed after the first sweep that found pods and database read: then pods can be served. Its
	// repairs need not all have worked: what cannot be removed does not keep a node from serving, and is tried,
	// logged and counted again with every sweep.
	swept chan struct{}
}

// Run serves until ctx ends. It waits for Open vSwitch, and tells the runtime that pods may come only once it
// can serve them.
func Run(ctx context.Context, config Config, api metadata.Interface, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	metrics, err := newMetrics(registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	ovs, err := vswitch.Dial(ctx, config.OVSDB, config.Bridge, log)
	if err != nil {
		return err
	}
	defer ovs.Close()
	a := newAgent(ovs, metrics, config.MTU, log)
	err = errors.Join(
		gauge(registry, "atoll_agent_ovsdb_connected", "1 while the Open vSwitch database answers.", ovs.Connected),
		gauge(registry, "atoll_agent_pods_synced", "1 once the node's pods have been read.", a.pods.inSync),
	)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	// Without it no pod is let in; the sweep keeps it up.
	if err := netdev.Guard(); err != nil {
		return fmt.Errorf("guard the node against pods: %w", err)
	}
	return a.run(ctx, config, api, registry)
}

func newAgent(ovs *vswitch.Client, metrics *metrics, mtu int, log *slog.Logger) *Agent {
	return &Agent{
		ovs:     ovs,
		pods:    newPods(),
		locks:   newLocks(),
		metrics: metrics,
		mtu:     mtu,
		log:     log,
		nudge:   make(chan struct{}, 1),
		swept:   make(chan struct{}),
	}
}

// run starts the agent's parts, in the order in which they need each other, and ends them all together.
func (a *Agent) run(ctx context.Context, config Config, api metadata.Interface, registry *prometheus.Registry) error {
	ctx, stop := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	part := func(name string, serve func(context.Context) error) {
		parts.Go(func() {
			if err := serve(ctx); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	if config.MetricsAddress != "" {
		part("serve metrics", func(ctx context.Context) error { return a.serveMetrics(ctx, config.MetricsAddress, registry) })
	}
	part("watch pods", func(ctx context.Context) error { return a.watchPods(ctx, api, config.Node) })
	part("sweep", a.sweepForever)
	if config.Plugin != "" {
		if err := installPlugin(config.Plugin, config.BinDir); err != nil {
			return err
		}
	}
	listener, err := listen(ctx, config.Socket)
	if err != nil {
		return err
	}
	part("serve CNI requests", func(ctx context.Context) error { return a.serveCNI(ctx, listener) })
	select {
	case <-ctx.Done():
		return quiet(ctx)
	case <-a.swept:
	}
	if err := writeConf(config.ConfDir, config.Socket); err != nil {
		return err
	}
	a.log.Info("ready", "node", config.Node, "socket", config.Socket)
	<-ctx.Done()
	return quiet(ctx)
}

// quiet is why ctx ended, unless somebody asked for it.
func quiet(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
