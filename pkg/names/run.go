package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/names/call"
)

// Config is what the program is told when it starts.
type Config struct {
	// Servers are the cluster's DNS addresses, as kubelet gives them to pods, Domain its DNS domain.
	Servers []netip.Addr
	Domain  string
	// ResolvConf names the node's resolvers, which are asked for names outside of the cluster (resolv.conf(5)).
	ResolvConf string
	// Socket is where the agent calls; a successor takes it over.
	Socket string
	// ProbeSocket answers for this program alone, so that one can wait until a successor is ready; empty: none.
	ProbeSocket string
	// MetricsAddress serves /metrics and /healthz; empty serves neither.
	MetricsAddress string
}

// Clients are the ways to the API server.
type Clients struct {
	// Metadata reads namespaces, Kube Services and slices, Networks ours.
	Metadata metadata.Interface
	Kube     kubernetes.Interface
	Networks dynamic.Interface
}

// farewell is how long requests of the agent may take when the program stops.
const farewell = 2 * time.Second

// Run answers until ctx ends, and then what has been asked before a successor could be.
func Run(ctx context.Context, config Config, api Clients, log *slog.Logger) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector(
		// What is in use, without garbage.
		collectors.WithGoCollectorRuntimeMetrics(collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)})))
	s, err := newServer(config, registry, log)
	if err != nil {
		return err
	}
	defer s.node.Close()
	if err := s.run(ctx, config, api, registry); err != nil {
		return err
	}
	s.node.Drain()
	return nil
}

// run starts the parts and ends them all together. It returns an error unless ctx has ended.
func (s *server) run(ctx context.Context, config Config, api Clients, registry *prometheus.Registry) error {
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
		part("serve metrics", func(ctx context.Context) error { return serveMetrics(ctx, config.MetricsAddress, registry) })
	}
	for name, watch := range s.watches(api) {
		part(name, watch)
	}
	select {
	case <-ctx.Done():
		return quiet(ctx)
	case <-s.complete:
	}
	s.look(ctx)
	part("tend portholes", s.tend)
	for _, socket := range []string{config.Socket, config.ProbeSocket} {
		if socket == "" {
			continue
		}
		listener, err := call.Listen(ctx, socket)
		if err != nil {
			return err
		}
		part("serve "+socket, func(ctx context.Context) error {
			return serveUntil(ctx, &http.Server{Handler: call.Handler(s), ReadHeaderTimeout: farewell}, listener)
		})
	}
	s.log.Info("ready", "networks", len(s.node.Serving()), "socket", config.Socket)
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

// serveMetrics serves what people and machines ask about the program. While it is replaced both listen, and either answers.
func serveMetrics(ctx context.Context, address string, registry *prometheus.Registry) error {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, failed)
	}}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return serveUntil(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, listener)
}

func serveUntil(ctx context.Context, server *http.Server, listener net.Listener) error {
	stopped := make(chan error, 1)
	// Requests that wait for something end with ctx.
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	stop := context.AfterFunc(ctx, func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		stopped <- server.Shutdown(late)
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}

// newServer prepares the program; nothing is opened yet.
func newServer(config Config, registry prometheus.Registerer, log *slog.Logger) (*server, error) {
	metrics, err := dns.NewMetrics(registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics of DNS: %w", err)
	}
	watches := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "atoll_dns_watch_errors_total",
		Help: "How often a watch of the API server's objects failed.",
	}, []string{"of"})
	if err := registry.Register(watches); err != nil {
		return nil, fmt.Errorf("register metrics of watches: %w", err)
	}
	directory := dns.NewDirectory(config.Domain, config.Servers)
	return &server{
		directory: directory,
		node: dns.NewNode(dns.Config{
			Directory: directory, Resolvers: dns.NewResolvers(config.ResolvConf, config.Servers), Metrics: metrics, Log: log,
		}),
		watchErrors: watches,
		complete:    make(chan struct{}),
		orders:      make(chan order),
		changed:     make(chan struct{}, 1),
		networks:    newNetworks(),
		log:         log,
	}, nil
}
