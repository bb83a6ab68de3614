// Command atoll-controller turns Networks and pods into rows of the OVN northbound database.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/build"
	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/pkg/scrape"
)

type options struct {
	kubeconfig     string
	nbAddresses    string
	leaderElect    bool
	leaseNamespace string
	defaultNetwork string
	defaultSubnet  string
	faces          []string
	services       []string
	gateways       []string
	dnsService     string
	infrastructure []string
	connections    uint32
	metricsAddress string
	scrapeAddress  string
	pprofAddress   string
	qps            float32
	burst          int
	logLevel       string
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
		Short:         "Turns Networks and pods into rows of the OVN northbound database",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as the pod that we run in)")
	f.StringVar(&o.nbAddresses, "nb-address", "unix:/var/run/ovn/ovnnb_db.sock", "servers of the northbound database, separated by commas")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "write only while holding a Lease")
	f.StringVar(&o.leaseNamespace, "leader-elect-namespace", "atoll-system", "namespace of the Lease")
	f.StringVar(&o.defaultNetwork, "default-network", "default", "Network of pods that choose none")
	f.StringVar(&o.defaultSubnet, "default-subnet", "10.128.0.0/14", "CIDR of a Network that lists no subnet")
	f.StringSliceVar(&o.faces, "face-ranges", controller.DefaultFaces(), "ranges that nodes get their pods' faces from, the addresses by which Kubernetes knows the pods of Networks: one per IP family, used by nothing else (empty: pods have no faces)")
	f.StringSliceVar(&o.services, "service-cidrs", nil, "ranges of the cluster's Services (the API server's --service-cluster-ip-range), which no Network can have for its own")
	f.StringSliceVar(&o.gateways, "gateway-ranges", controller.DefaultGateways(), "ranges that Gateways get their addresses from, in each Network anew: one per IP family, neither Kubernetes' Services nor anything outside that pods reach (empty: Gateways get none)")
	f.StringVar(&o.dnsService, "dns-service", controller.DefaultDNS().String(), "namespace/name of the Service whose addresses kubelets tell pods to ask for names")
	f.StringSliceVar(&o.infrastructure, "infra-namespaces", controller.DefaultInfrastructure(), "namespaces whose pods in the default Network reach the pods of all Networks, beside those with the label "+model.LabelInfrastructure+"=true")
	f.Uint32Var(&o.connections, "max-pod-connections", controller.DefaultConnections, "how many connections a pod may have at a time inside its Network, made by it or to it; infrastructure's pods in the default Network have any number (0: all pods have)")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:9410", "where /metrics and /healthz are served (empty: nowhere)")
	f.StringVar(&o.scrapeAddress, "scrape-address", "", "where /metrics alone is served to others, over TLS and to whoever may get /metrics by RBAC: an address of this machine, with a port or without (9410) (empty: nowhere)")
	f.StringVar(&o.pprofAddress, "pprof-address", "", "where Go's profiles are served, on a loopback address (empty: nowhere)")
	f.Float32Var(&o.qps, "kube-api-qps", 2000, "requests per second to the API server at most")
	f.IntVar(&o.burst, "kube-api-burst", 4000, "requests to the API server that may come at once")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func run(ctx context.Context, o options) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	subnet, err := netip.ParsePrefix(o.defaultSubnet)
	if err != nil {
		return fmt.Errorf("--default-subnet: %w", err)
	}
	faces, err := controller.ParseFaces(o.faces)
	if err != nil {
		return fmt.Errorf("--face-ranges: %w", err)
	}
	services, err := controller.ParseRanges(o.services)
	if err != nil {
		return fmt.Errorf("--service-cidrs: %w", err)
	}
	gateways, err := controller.ParseGateways(o.gateways)
	if err != nil {
		return fmt.Errorf("--gateway-ranges: %w", err)
	}
	dns, err := controller.ParseService(o.dnsService)
	if err != nil {
		return fmt.Errorf("--dns-service: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	cluster, err := kube.Config(o.kubeconfig, o.qps, o.burst)
	if err != nil {
		return err
	}
	feed, err := kube.NewFeed(cluster, kube.Options{Logger: log, Registerer: registry})
	if err != nil {
		return err
	}
	writer, err := kube.NewWriter(cluster, feed, kube.WriterOptions{Logger: log, Registerer: registry})
	if err != nil {
		return err
	}
	reviews, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return fmt.Errorf("make API client: %w", err)
	}
	cfg := controller.Config{
		Database: ovsdb.Config{Addresses: strings.Split(o.nbAddresses, ","), Log: log},
		Defaults: controller.Defaults{Network: o.defaultNetwork, Subnet: subnet, Faces: faces, Services: services, Gateways: gateways, DNS: dns, Infrastructure: o.infrastructure, Connections: o.connections},
		Source:   feed,
		Sink:     writer,
		Log:      log,
		Metrics:  controller.NewMetrics(registry),
	}

	var engine running
	registry.MustRegister(build.Collector("atoll_controller"), controller.NewCapacityCollector(engine.Load))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return feed.Run(ctx) })
	group.Go(func() error { writer.Run(ctx); return nil })
	if o.metricsAddress != "" {
		group.Go(func() error { return controller.ServeMetrics(ctx, o.metricsAddress, registry, engine.healthy) })
	}
	if o.scrapeAddress != "" {
		group.Go(func() error {
			return scrape.Serve(ctx, build.ScrapeAddress(o.scrapeAddress, 9410), registry, reviews)
		})
	}
	if o.pprofAddress != "" {
		group.Go(func() error { return servePprof(ctx, o.pprofAddress) })
	}
	group.Go(func() error { return lead(ctx, o, cluster, cfg, &engine) })
	return group.Wait()
}
