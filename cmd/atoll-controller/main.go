// Command atoll-controller turns Networks and pods into rows of the OVN northbound database.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/southbound"
	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/scrape"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/process/build"
)

type options struct {
	kubeconfig     string
	nbAddresses    string
	nbRecord       bool
	goneAfter      time.Duration
	leaderElect    bool
	leaseNamespace string
	metricsAddress string
	scrapeAddress  string
	pprofAddress   string
	qps            float32
	burst          int
	signs          bool
	life           time.Duration
	logLevel       string
	clean          bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer boundGarbage()()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "atoll-controller:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:           "atoll-controller",
		Version:       build.Version(),
		Short:         "Turns Networks and pods into rows of the OVN northbound database",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as the pod that we run in)")
	f.StringVar(&o.nbAddresses, "nb-address", "unix:/var/run/ovn/ovnnb_db.sock", "servers of the northbound database, separated by commas")
	f.BoolVar(&o.nbRecord, "nb-record", false, "in place of --nb-address: the servers that ConfigMap "+central.RecordName+" names, by TLS")
	f.DurationVar(&o.goneAfter, "chassis-gone-after", 5*time.Minute,
		"with --nb-record: how long a chassis must have no Node object until it is deleted from the southbound database")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "write only while holding a Lease")
	f.StringVar(&o.leaseNamespace, "leader-elect-namespace", "atoll-system", "namespace of the Lease")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:9410", "where /metrics and /healthz are served (empty: nowhere)")
	f.StringVar(&o.scrapeAddress, "scrape-address", "",
		"where /metrics alone is served to others, over TLS and to whoever may get /metrics by RBAC: an address of this machine, with a port "+
			"or without (9410) (empty: nowhere)")
	f.StringVar(&o.pprofAddress, "pprof-address", "", "where Go's profiles are served, on a loopback address (empty: nowhere)")
	f.Float32Var(&o.qps, "kube-api-qps", 2000, "requests per second to the API server at most")
	f.IntVar(&o.burst, "kube-api-burst", 4000, "requests to the API server that may come at once")
	f.BoolVar(&o.signs, "sign-certificates", true,
		"keep the authorities of OVN's certificates, and sign for members and nodes, while leading; without, databases are "+
			"reached by sockets or unencrypted")
	f.DurationVar(&o.life, "certificate-life", certs.MaxLife, "how long certificates are valid that ask for no less: 10m to 2160h")
	f.BoolVar(&o.clean, "clean", false,
		"only delete all that controllers wrote to the northbound database, and end: for atoll uninstall, when no controller runs")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func run(ctx context.Context, o options) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	cluster, err := kube.Config(o.kubeconfig, o.qps, o.burst)
	if err != nil {
		return err
	}
	reviews, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	settings, err := dynamic.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	p := &process{
		options: o, cluster: cluster, settings: settings, log: log, registry: registry,
		database: ovsdb.Config{Addresses: strings.Split(o.nbAddresses, ","), Log: log},
		metrics:  controller.NewMetrics(registry),
	}
	if o.signs {
		if o.life < certs.MinLife || o.life > certs.MaxLife {
			return fmt.Errorf("--certificate-life: %s is not between %s and %s", o.life, certs.MinLife, certs.MaxLife)
		}
		p.signer = certs.NewSigner(certs.SignerConfig{Client: reviews, Log: log, Life: o.life})
		p.database.TLS = p.signer.TLS()
		registry.MustRegister(p.signer)
	}
	if o.clean {
		return clean(ctx, p.database, p.signer, log)
	}
	if o.nbRecord {
		if !o.signs {
			return errors.New("--nb-record needs --sign-certificates: the controller signs its own certificate, too")
		}
		p.records = central.Store{Client: reviews, Namespace: o.leaseNamespace}
		p.database.Find = p.records.Servers(central.Northbound, central.Northbound.ClientPort())
		p.southbound = ovsdb.Config{TLS: p.database.TLS, Log: log, Find: p.records.Servers(central.Southbound, central.FullPort)}
		p.shown = &southbound.Certificates{Records: p.records, TLS: p.database.TLS, Log: log}
		registry.MustRegister(p.shown)
		p.learnt = southbound.NewLearnt(registry)
		p.claims = southbound.NewClaimMetrics(registry)
	}
	registry.MustRegister(build.Collector("atoll_controller"), controller.NewCapacityCollector(p.engine.Load))
	group, ctx := errgroup.WithContext(ctx)
	if o.metricsAddress != "" {
		group.Go(func() error { return controller.ServeMetrics(ctx, o.metricsAddress, registry, p.healthy) })
	}
	if o.scrapeAddress != "" {
		group.Go(func() error {
			return scrape.Serve(ctx, build.ScrapeAddress(o.scrapeAddress, 9410), registry, reviews)
		})
	}
	if o.pprofAddress != "" {
		group.Go(func() error { return servePprof(ctx, o.pprofAddress) })
	}
	group.Go(func() error { return p.run(ctx) })
	return group.Wait()
}
