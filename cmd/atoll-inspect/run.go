package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/inspect/inspectapi"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/scrape"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/build"
	"github.com/atoll-net/atoll/pkg/process/daemon"
)

const (
	// inspectPort and metricsPort are where inspection and metrics are served, unless an address says otherwise.
	inspectPort, metricsPort = 9413, 9421
)

// program is what its parts have in common.
type program struct {
	options
	log      *slog.Logger
	client   kubernetes.Interface
	objects  dynamic.Interface
	feed     *kube.Feed
	settings atomic.Pointer[config.Settings]
	// asks keeps what is shown to databases and agents, serves what is shown to the API server.
	asks, serves *certs.Keeper
}

// dir is where one of the certificates is kept.
func (o options) dir(of string) string { return filepath.Join(o.certificates, of) }

const asking, serving = "client", "server"

func run(ctx context.Context, o options, log *slog.Logger) error {
	cluster, err := kube.Config(o.kubeconfig, o.qps, o.burst)
	if err != nil {
		return err
	}
	cluster.UserAgent = "atoll-inspect/" + build.Version()
	p, err := newProgram(cluster, o, log)
	if err != nil {
		return err
	}
	registry := p.registry()
	return daemon.Run(ctx, func(_ context.Context, part daemon.Part) error {
		if o.metricsAddress != "" {
			part("serve metrics", func(ctx context.Context) error { return p.serveMetrics(ctx, registry) })
		}
		if o.scrapeAddress != "" {
			part("serve scrapes", func(ctx context.Context) error {
				return scrape.Serve(ctx, build.ScrapeAddress(o.scrapeAddress, metricsPort), registry, p.client)
			})
		}
		part("keep the certificate for databases and agents", p.asks.Run)
		part("keep the certificate for the API server", p.serves.Run)
		part("read the cluster", p.feed.Run)
		part("follow the AtollConfig", func(ctx context.Context) error {
			config.Follow(ctx, p.objects, func(err error) { log.Debug("settings cannot be read", "error", err) },
				func(s config.Settings) { p.settings.Store(&s) })
			return nil
		})
		part("answer", p.serve)
		return nil
	})
}

// registry has the metrics of this process.
func (p *program) registry() *prometheus.Registry {
	registry := daemon.NewRegistry()
	ready := prometheus.GaugeOpts{
		Name: "atoll_inspect_ready", Help: "1 while this process has a certificate by which the API server believes it.",
	}
	registry.MustRegister(build.Collector("atoll_inspect"), certificates{p.asks, p.serves}, prometheus.NewGaugeFunc(ready, func() float64 {
		if p.ready() != nil {
			return 0
		}
		return 1
	}))
	return registry
}

func newProgram(cluster *rest.Config, o options, log *slog.Logger) (*program, error) {
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	objects, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	feed, err := kube.NewFeed(cluster, kube.Options{Logger: log, ShutOut: true})
	if err != nil {
		return nil, err
	}
	keeper := func(signer, dir string) *certs.Keeper {
		return certs.NewKeeper(certs.KeeperConfig{Client: client, Log: log, Signer: signer, Node: o.node, Dir: o.dir(dir)})
	}
	return &program{
		options: o, log: log, client: client, objects: objects, feed: feed,
		asks: keeper(certs.SignerInspect, asking), serves: keeper(certs.SignerInspectServer, serving),
	}, nil
}

// databases are how OVN's are reached, with all rights.
func (p *program) databases() (northbound, southbound ovsdb.Config) {
	tls := certs.Reader(p.dir(asking))
	northbound = ovsdb.Config{Addresses: strings.Split(p.nbAddresses, ","), TLS: tls, Log: p.log}
	southbound = ovsdb.Config{Addresses: strings.Split(p.sbAddresses, ","), TLS: tls, Log: p.log}
	if p.nbRecord {
		records := central.Store{Client: p.client, Namespace: certs.Namespace}
		northbound.Find = records.Servers(central.Northbound, central.Northbound.ClientPort())
		southbound.Find = records.Servers(central.Southbound, central.FullPort)
	}
	return northbound, southbound
}

// serve answers until ctx ends. It begins before it knows the cluster: an API that nobody serves keeps Kubernetes from deleting namespaces.
func (p *program) serve(ctx context.Context) error {
	northbound, southbound := p.databases()
	mirror := snapshot.NewMirror(northbound)
	defer mirror.Close()
	north := ovsdb.Asker{Config: northbound, Database: ovsdb.NorthboundDatabase}
	south := ovsdb.Asker{Config: southbound, Database: ovsdb.SouthboundDatabase}
	from := snapshot.Sources{
		Source: "atoll-inspect " + p.node, Client: p.client, Held: p.held, Northbound: &north, Southbound: &south, Mirror: mirror,
		Settings: p.known,
	}
	dir := p.dir(asking)
	return inspectapi.Serve(ctx, build.ScrapeAddress(p.address, inspectPort), inspectapi.Config{
		Client: p.client, Sources: from, Agents: inspectapi.AgentsBy(dir), FlowAgents: inspectapi.FlowAgentsBy(dir),
		CheckAgents: inspectapi.CheckAgentsBy(dir), Databases: inspectapi.Databases(north, south),
		TLS: certs.InspectServer(p.dir(serving)), Log: p.log,
	})
}

// held is what the feed knows of the cluster.
func (p *program) held() (snapshot.Held, error) {
	settings, err := p.known()
	if err != nil {
		return snapshot.Held{}, err
	}
	return snapshot.HeldBy(p.feed, settings)
}

// known are the settings in force.
func (p *program) known() (config.Settings, error) {
	settings := p.settings.Load()
	if settings == nil {
		return config.Settings{}, question.ErrNotRead
	}
	return *settings, nil
}

// ready is an error until there is a certificate by which the API server believes this process.
func (p *program) ready() error {
	select {
	case <-p.serves.Ready():
		return nil
	default:
		return p.serves.Healthy()
	}
}

// serveMetrics answers this node: /metrics, /healthz (it runs), and /readyz (it has a certificate by which the API server believes it).
func (p *program) serveMetrics(ctx context.Context, registry *prometheus.Registry) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.metricsAddress)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := daemon.NewMux(registry, func(context.Context) error { return nil })
	mux.HandleFunc("GET /readyz", daemon.Check(func(context.Context) error { return p.ready() }))
	return daemon.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: daemon.HeaderTime}, listener, 0)
}

// certificates tells when they end.
type certificates []*certs.Keeper

// Describe implements prometheus.Collector. It names nothing: each Keeper would name the same metric.
func (certificates) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c certificates) Collect(to chan<- prometheus.Metric) {
	for _, keeper := range c {
		keeper.Collect(to)
	}
}
