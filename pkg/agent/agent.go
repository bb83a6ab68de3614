package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/flows"
	"github.com/atoll-net/atoll/pkg/agent/locks"
	"github.com/atoll-net/atoll/pkg/agent/names"
	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/agent/verdicts"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/scrape"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/pkg/process/build"
	"github.com/atoll-net/atoll/pkg/process/daemon"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Config is what the agent is told when it starts.
type Config struct {
	// Node is the name of this node; only its pods are read.
	Node string
	// OVSDB is the address of the local Open vSwitch database, Bridge the bridge that OVN uses.
	OVSDB, Bridge string
	// OVNRunDir is OVN's run directory, where ovn-controller takes commands.
	OVNRunDir string
	// Southbound are the servers of OVN's southbound database, separated by commas; empty: those of ovn-controller.
	Southbound string
	// Socket is where the plugin's requests are served.
	Socket string
	// ConfDir and BinDir are the runtime's directories for network configurations and plugins.
	ConfDir, BinDir string
	// Plugin is the program to install as atoll-cni; empty when it is there already.
	Plugin string
	// NRISocket is where the container runtime asks plugins about containers; empty leaves containers as they are.
	NRISocket string
	// KubeletDir is kubelet's directory, with the pods' hosts files; RunDir is for what goes with a reboot. The
	// container runtime must see both under the same names.
	KubeletDir, RunDir string
	// Bounds are what an interface of a pod may send.
	Bounds netdev.Bounds
	// ControllerRate is how many packets a second ovn-controller is asked about at most, vswitch.LeastThrottle or more; 0: any number.
	ControllerRate int
	// MTU of pods in bytes; 0 takes what the tunnel leaves of its interface's.
	MTU int
	// LeaseNamespace is where the controller that leads has its Lease.
	LeaseNamespace string
	// NamesSocket is where the node's DNS program is told of portholes; empty when nobody answers for names.
	NamesSocket string
	// InspectAddress is where atoll-inspect asks about the node and its pods, with a port or without; empty: nowhere.
	InspectAddress string
	// ScrapeAddress serves /metrics alone, to whoever may read them; empty does not.
	ScrapeAddress string
	// MetricsAddress serves /metrics and /healthz; empty serves neither.
	MetricsAddress string
}

// Agent serves one node.
type Agent struct {
	node string
	// bridge is OVN's.
	bridge string
	ovs    *vswitch.Client
	pods   *pods
	world  *world.World
	// portholes are made by keeper, and names answers in them; it is nil when nobody does.
	portholes *portholes.Portholes
	keeper    *porthole.Keeper
	names     *names.Names
	// locks give turns to requests, one at a time for each container.
	locks *locks.Locks

	metrics *metrics
	// verdicts count what policies decide, and flows keep about whom.
	verdicts *verdicts.Counter
	flows    *flows.Flows
	// bounds keep what pods send to what they may.
	bounds bounds
	// throttle keeps ovn-controller from having too much to answer.
	throttle throttle
	mtu      int
	// sockets are those of the node's Open vSwitch and OVN, for whoever may use them.
	sockets sockets
	// southbound are the servers of the southbound database that this agent was told.
	southbound []netip.AddrPort
	log        *slog.Logger
	// nri is nil when containers are left as they are.
	nri *nri.Plugin
	// teller tells pods what they wait for; leader and networks are whom it asks. bindings is what OVN said last.
	teller   *teller
	leader   leader
	networks dynamic.Interface
	bindings bindings
	// nudge asks for a sweep before its time.
	nudge wake.Signal
	// told is the signal to compare the node's own report again.
	told wake.Signal
	// swept is closed after the first sweep that found pods and database read: then pods can be served. Its
	// repairs need not all have worked: what cannot be removed does not keep a node from serving, and is tried,
	// logged and counted again with every sweep.
	swept chan struct{}
}

// Run serves until ctx ends. It waits for Open vSwitch, and tells the runtime that pods may come only once it
// can serve them.
func Run(ctx context.Context, config Config, api follow.Clients, log *slog.Logger) error {
	registry := daemon.NewRegistry()
	metrics, err := newMetrics(registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	ovs, err := vswitch.Dial(ctx, config.OVSDB, config.Bridge, log)
	if err != nil {
		return err
	}
	defer ovs.Close()
	keeper, err := porthole.NewKeeper()
	if err != nil {
		return err
	}
	keeper.OnStep = metrics.portholes.Step
	a := newAgent(config, ovs, keeper, metrics, log)
	defer a.portholes.Close()
	err = errors.Join(
		registry.Register(build.Collector("atoll_agent")),
		gauge(registry, "atoll_agent_ovsdb_connected", "1 while the Open vSwitch database answers.", ovs.Connected),
		gauge(registry, "atoll_agent_pods_synced", "1 once the node's pods have been read.", a.pods.inSync),
	)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if err := errors.Join(registry.Register(verdicts.NewCollector(a.verdicts)), registry.Register(flows.NewCollector(a.flows))); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if config.NRISocket != "" {
		if a.nri, err = a.newNRI(config, registry); err != nil {
			return err
		}
	}
	// Without it no pod is let in; the sweep keeps it up.
	if err := netdev.Guard(); err != nil {
		return fmt.Errorf("guard the node against pods: %w", err)
	}
	return a.run(ctx, config, api, registry)
}

func newAgent(config Config, ovs *vswitch.Client, keeper *porthole.Keeper, metrics *metrics, log *slog.Logger) *Agent {
	database := &southbound{told: config.Southbound, ovs: ovs, dir: readerDir(config), log: log}
	a := &Agent{
		node:    config.Node,
		bridge:  config.Bridge,
		ovs:     ovs,
		pods:    newPods(),
		world:   world.New(config.Node),
		keeper:  keeper,
		locks:   locks.New(),
		metrics: metrics,
		verdicts: verdicts.New(verdicts.Config{
			Node: config.Node, Southbound: database.read, Socket: bridgeSocket(config.OVSDB, config.Bridge), Log: log,
		}),
		bindings:   bindings{southbound: database},
		bounds:     bounds{wanted: config.Bounds},
		throttle:   newThrottle(config),
		mtu:        config.MTU,
		sockets:    socketsOf(config),
		southbound: vswitch.Servers(config.Southbound),
		log:        log,
		teller:     newTeller(config.Node, nil, log),
		nudge:      wake.NewSignal(),
		told:       wake.NewSignal(),
		swept:      make(chan struct{}),
	}
	a.flows = flows.New(flows.Config{Node: config.Node, Switch: ovs, Southbound: database.read, Lives: a.lives, Log: log})
	a.names = names.New(config.NamesSocket, metrics.nameless, log)
	a.bindPortholes()
	return a
}

// bindPortholes gives portholes what they are made from, and by.
func (a *Agent) bindPortholes() {
	a.portholes = portholes.New(portholes.Config{
		Node: a.node, World: a.world, Switch: a.ovs, Keeper: a.keeper, Names: a.names,
		Southbound: func() []netip.AddrPort { return a.southbound }, Fabric: a.fabric,
		Attached: a.attached, Undisturbed: a.undisturbed, Soon: a.sweepSoon, Swept: a.metrics.swept, Metrics: a.metrics.portholes, Log: a.log,
	})
}

// attached is what the controller decided about the interface of a link; lives is false when its pod has gone.
func (a *Agent) attached(owner netdev.Owner) (key model.AttachmentKey, n attachment.NIC, lives bool, err error) {
	p, lives := a.pods.getByUID(owner.PodUID)
	n, err = attachment.Parse(p.attachments, p.uid, owner.Interface)
	return p.attachment(owner.Interface), n, lives, err
}

// lives reports whether a pod, NAMESPACE/NAME, is one of the node's.
func (a *Agent) lives(name string) bool {
	namespace, name, _ := strings.Cut(name, "/")
	_, there := a.pods.get(model.PodKey{Namespace: namespace, Name: name})
	return there
}

// undisturbed does something unless a request for the container is in flight.
func (a *Agent) undisturbed(container string, do func()) {
	if release, free := a.locks.Try(container); free {
		defer release()
		do()
	}
}

// run serves until ctx ends, or a part of the agent fails.
func (a *Agent) run(ctx context.Context, config Config, api follow.Clients, registry *prometheus.Registry) error {
	a.teller = newTeller(config.Node, api.Kube.CoreV1(), a.log)
	a.leader.leases, a.leader.namespace, a.networks = api.Kube.CoordinationV1(), config.LeaseNamespace, api.Networks
	return daemon.Run(ctx, func(ctx context.Context, part daemon.Part) error { return a.start(ctx, config, api, registry, part) })
}

// start begins the agent's parts, in the order in which they need each other, and returns when pods can be served.
func (a *Agent) start(ctx context.Context, config Config, api follow.Clients, registry *prometheus.Registry, part daemon.Part) error {
	if config.MetricsAddress != "" {
		part("serve metrics", func(ctx context.Context) error { return a.serveMetrics(ctx, config.MetricsAddress, registry, api.Kube) })
	}
	if config.ScrapeAddress != "" {
		part("serve scrapes", func(ctx context.Context) error {
			return scrape.Serve(ctx, build.ScrapeAddress(config.ScrapeAddress, 9411), registry, api.Kube)
		})
	}
	if config.InspectAddress != "" {
		part("keep the agent's certificate", func(ctx context.Context) error { return a.keepCertificate(ctx, config, api.Kube) })
		part("answer atoll-inspect", func(ctx context.Context) error { return a.serveInspection(ctx, config) })
	}
	part("keep the certificate for the southbound database", func(ctx context.Context) error {
		return a.bindings.southbound.keep(ctx, config.Node, api.Kube)
	})
	part("follow the AtollConfig", func(ctx context.Context) error { return a.followConfig(ctx, api.Networks) })
	part("watch pods", func(ctx context.Context) error { return a.watchPods(ctx, api.Metadata, config.Node) })
	part("watch Networks", func(ctx context.Context) error { return a.watchNetworks(ctx, api.Networks) })
	part("watch nodes", func(ctx context.Context) error { return a.watchNodes(ctx, api.Kube) })
	part("watch which nodes are shut out", func(ctx context.Context) error { return a.watchShutOut(ctx, api.Kube) })
	part("watch NodeReports", func(ctx context.Context) error { return a.watchReports(ctx, api.Networks) })
	part("report the node", func(ctx context.Context) error { return a.reportForever(ctx, reportsOf(api.Networks)) })
	part("watch the API's Service", func(ctx context.Context) error { return a.watchAPIService(ctx, api.Kube) })
	part("watch the API servers", func(ctx context.Context) error { return a.watchAPIServers(ctx, api.Kube) })
	part("count verdicts", a.verdicts.Serve)
	part("keep flows", a.flows.Serve)
	part("drop router advertisements", (&sentry{socket: bridgeSocket(config.OVSDB, config.Bridge), log: a.log}).serve)
	part("sweep", a.sweepForever)
	part("bound what pods send", a.keepBounds)
	part("follow pods' connections", a.followCrowds)
	// Before the first sweep nobody knows whom portholes are for.
	known := func(ctx context.Context) func() bool {
		return func() bool { return a.sweptOnce() && a.ready(ctx) == nil }
	}
	part("tend portholes", func(ctx context.Context) error { return a.portholes.Tend(ctx, known(ctx)) })
	part("mend what the node loses", func(ctx context.Context) error { return a.portholes.FollowLosses(ctx, known(ctx)) })
	part("follow tunnels", a.portholes.FollowUnderlay)
	part("tell of the controller", func(ctx context.Context) error {
		// Of its own, so that pods do not wait for Networks.
		return a.tellOfAbsence(ctx, newTeller(config.Node, api.Kube.CoreV1(), a.log))
	})
	if a.nri != nil {
		part("serve NRI", a.serveNRI)
	}
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
		return nil
	case <-a.swept:
	}
	if err := writeConf(config.ConfDir, config.BinDir, config.Socket); err != nil {
		return err
	}
	a.log.Info("ready", "node", config.Node, "socket", config.Socket)
	return nil
}

// sweptOnce reports whether the first sweep is over.
func (a *Agent) sweptOnce() bool {
	select {
	case <-a.swept:
		return true
	default:
		return false
	}
}
