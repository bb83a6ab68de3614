package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/dns"
	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/process/build"
	"github.com/atoll-net/atoll/pkg/process/daemon"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Config is what the program is told when it starts.
type Config struct {
	// ResolvConf names the node's resolvers, which are asked for names outside of the cluster (resolv.conf(5)).
	ResolvConf string
	// Socket is where the agent calls; a successor takes it over.
	Socket string
	// ProbeSocket answers for this program alone, so that one can wait until a successor is ready; empty: none.
	ProbeSocket string
	// Opener is where somebody opens sockets in portholes for this program, which needs no rights then; empty: it opens them itself.
	Opener string
	// MetricsAddress serves /metrics and /healthz; empty serves neither.
	MetricsAddress string
}

// farewell is how long requests of the agent may take when the program stops.
const farewell = 2 * time.Second

// serve answers with these settings until ctx ends, and then what has been asked before a successor could be. It calls ready when
// all names are known and served.
func serve(ctx context.Context, own Config, cluster clusterSettings, api follow.Clients, log *slog.Logger, ready func()) error {
	registry := daemon.NewRegistry()
	s, err := newServer(own, cluster, registry, log)
	if err != nil {
		return err
	}
	defer s.node.Close()
	err = daemon.Run(ctx, func(ctx context.Context, part daemon.Part) error {
		return s.start(ctx, own, api, registry, part, ready)
	})
	if err != nil {
		return err
	}
	s.node.Drain()
	return nil
}

// start begins the parts, and calls ready when all names are known and served.
func (s *server) start(
	ctx context.Context, own Config, api follow.Clients, registry *prometheus.Registry, part daemon.Part, ready func(),
) error {
	if own.MetricsAddress != "" {
		part("serve metrics", func(ctx context.Context) error { return serveMetrics(ctx, own.MetricsAddress, registry) })
	}
	for name, watch := range s.watches(api) {
		part(name, watch)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.complete:
	}
	// Without it nothing would be answered, and a predecessor told that it may go.
	if err := s.opener.Await(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended.
	}
	s.look(ctx)
	part("tend portholes", s.tend)
	for _, socket := range []string{own.Socket, own.ProbeSocket} {
		if socket == "" {
			continue
		}
		listener, err := call.Listen(ctx, socket)
		if err != nil {
			return err
		}
		part("serve "+socket, func(ctx context.Context) error {
			return daemon.Serve(ctx, &http.Server{Handler: call.Handler(s), ReadHeaderTimeout: daemon.HeaderTime}, listener, farewell)
		})
	}
	s.log.Info("ready", "networks", len(s.node.Serving()), "socket", own.Socket)
	ready()
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
	mux := daemon.NewMux(registry, func(context.Context) error { return nil })
	return daemon.Serve(ctx, &http.Server{Handler: mux, ReadHeaderTimeout: daemon.HeaderTime}, listener, farewell)
}

// newServer prepares the program; nothing is opened yet.
func newServer(own Config, cluster clusterSettings, registry prometheus.Registerer, log *slog.Logger) (*server, error) {
	if err := registry.Register(build.Collector("atoll_dns")); err != nil {
		return nil, fmt.Errorf("register the metric of the build: %w", err)
	}
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
	opener := sockets.Opener(sockets.Own{})
	if own.Opener != "" {
		opener = sockets.Client{Socket: own.Opener}
	}
	directory := dns.NewDirectory(cluster.dns.Domain, cluster.dns.Addresses, cluster.compatible)
	return &server{
		directory: directory,
		opener:    opener,
		faces:     cluster.compatible.Faces,
		node: dns.NewNode(dns.Config{
			Directory: directory, Resolvers: dns.NewResolvers(own.ResolvConf, cluster.dns.Addresses), Metrics: metrics,
			Open: opener.Open, Log: log,
		}),
		watchErrors: watches,
		complete:    make(chan struct{}),
		orders:      make(chan order),
		changed:     wake.NewSignal(),
		networks:    newNetworks(),
		log:         log,
	}, nil
}
