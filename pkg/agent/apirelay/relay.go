// Package apirelay leads connections to the Kubernetes API from a porthole to an API server of the other IP family, which no
// translation of packets in the kernel does.
//
// In flows where to listen, inside which network namespace, and who the servers are; what flows out are connections of the process's own
// namespace. The bytes are not looked at: TLS is between pod and server, and who may do what the server decides.
//
// What must stay true: one Network, or one pod, cannot use up what others need.
package apirelay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/atoll-net/atoll/pkg/process/pipe"
)

// Bounds of one porthole: connections of all its pods, and of one of them; and how long a server may take to accept one.
const (
	maxConnections = 256
	maxOfOne       = 64
	dialTimeout    = 3 * time.Second
	// idle is when a peer that says nothing is asked whether it is still there.
	idle = 30 * time.Second
)

// Relays are those of a node, by the names of their portholes. Safe for concurrent use.
type Relays struct {
	servers func() []netip.AddrPort
	log     *slog.Logger

	mu     sync.Mutex
	relays map[string]*relay
}

// New makes Relays that lead to the servers that there are when a connection comes.
func New(servers func() []netip.AddrPort, log *slog.Logger) *Relays {
	return &Relays{servers: servers, log: log, relays: map[string]*relay{}}
}

// Serve listens at addresses inside a network namespace, and nowhere else under this name. It changes nothing when it does so
// already.
func (r *Relays) Serve(name, netns string, at []netip.AddrPort) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.relays[name]; old != nil {
		if slices.Equal(old.listens, at) {
			return nil
		}
		old.close()
		delete(r.relays, name)
	}
	if len(at) == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	made := &relay{listens: slices.Clone(at), servers: r.servers, log: r.log, cancel: cancel, perClient: map[netip.Addr]int{}}
	err := ns.WithNetNSPath(netns, func(ns.NetNS) error { return made.listen(ctx) })
	if err != nil {
		made.close()
		return fmt.Errorf("listen for the Kubernetes API: %w", err)
	}
	r.relays[name] = made
	return nil
}

// Stop ends what is served under a name, with its connections.
func (r *Relays) Stop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.relays[name]; old != nil {
		old.close()
		delete(r.relays, name)
	}
}

// Close ends all of them.
func (r *Relays) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range r.relays {
		old.close()
	}
	clear(r.relays)
}

// relay is one porthole's.
type relay struct {
	listens []netip.AddrPort
	servers func() []netip.AddrPort
	log     *slog.Logger
	sockets []net.Listener
	// cancel ends connections, and attempts to reach a server.
	cancel context.CancelFunc
	parts  sync.WaitGroup

	mu sync.Mutex
	// perClient counts connections by who made them.
	perClient map[netip.Addr]int
	all       int
}

// listen opens sockets in the namespace of the calling thread, to which they belong from then on.
func (r *relay) listen(ctx context.Context) error {
	for _, at := range r.listens {
		socket, err := (&net.ListenConfig{KeepAlive: idle}).Listen(ctx, "tcp", at.String())
		if err != nil {
			return err
		}
		r.sockets = append(r.sockets, socket)
		// It ends with its socket.
		r.parts.Go(func() { r.accept(ctx, socket) })
	}
	return nil
}

func (r *relay) accept(ctx context.Context, socket net.Listener) {
	for {
		pod, err := socket.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			r.log.Warn("a connection to the Kubernetes API was not taken", "error", err)
			continue
		}
		// It ends with its connections, or with ctx.
		r.parts.Go(func() { r.lead(ctx, pod) })
	}
}

// lead leads a pod's connection to a server until both have ended it.
func (r *relay) lead(ctx context.Context, pod net.Conn) {
	defer pod.Close()
	from := netip.MustParseAddrPort(pod.RemoteAddr().String()).Addr()
	if !r.enter(from) {
		return
	}
	defer r.leave(from)
	server, err := r.dial(ctx)
	if err != nil {
		r.log.Debug("no API server took a connection", "error", err)
		return
	}
	pipe.JoinHalves(ctx, server, pod)
}

// dial connects to one of the servers, by chance, and to another one if that does not answer.
func (r *relay) dial(ctx context.Context) (net.Conn, error) {
	servers := slices.Clone(r.servers())
	//nolint:gosec // The order is no secret.
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	err := errors.New("none is known")
	for _, server := range servers {
		var conn net.Conn
		if conn, err = (&net.Dialer{Timeout: dialTimeout, KeepAlive: idle}).DialContext(ctx, "tcp", server.String()); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// enter counts a connection of a pod's; false when there are enough.
func (r *relay) enter(from netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all >= maxConnections || r.perClient[from] >= maxOfOne {
		return false
	}
	r.all++
	r.perClient[from]++
	return true
}

func (r *relay) leave(from netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.perClient[from]--; r.perClient[from] == 0 {
		delete(r.perClient, from)
	}
}

// close ends it all, and waits.
func (r *relay) close() {
	r.cancel()
	for _, socket := range r.sockets {
		_ = socket.Close()
	}
	r.parts.Wait()
}
