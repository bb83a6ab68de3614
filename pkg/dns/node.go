package dns

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Config is what all servers of a node have in common.
type Config struct {
	// Directory holds the names.
	Directory *Directory
	// Resolvers are asked for names outside of the cluster.
	Resolvers *Resolvers
	// Limits of each Network; the zero value takes DefaultLimits.
	Limits  Limits
	Metrics *Metrics
	// Open makes the sockets of a place; nil: Open.
	Open func(ctx context.Context, at Place) ([]*os.File, error)
	Log  *slog.Logger
}

// Node has the servers of all Networks of a node. Close ends it.
type Node struct {
	config Config

	mu      sync.Mutex
	servers map[string]*running
}

// Place is where a Network's pods ask.
type Place struct {
	// Namespace is the path of a network namespace; empty: that of this process.
	Namespace string
	// Addresses are those to answer at.
	Addresses []netip.AddrPort
}

// running is one Network's server.
type running struct {
	place Place
	// inode is that of the namespace: a path may be given to another one.
	inode   uint64
	server  *Server
	on      *sockets
	network *model.Network
	stop    context.CancelFunc
	done    chan struct{}
}

// NewNode makes a Node without servers.
func NewNode(config Config) *Node {
	if config.Limits == (Limits{}) {
		config.Limits = DefaultLimits()
	}
	if config.Open == nil {
		config.Open = Open
	}
	return &Node{config: config, servers: map[string]*running{}}
}

// Serve has a Network's pods answered at a place until Stop or Close, under an ID that tells it from a later Network of
// its name. If they are already it only takes over changes of the Network; a server that has failed, or is at another
// place, is made anew.
func (n *Node) Serve(ctx context.Context, id string, network *model.Network, at Place) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	inode, err := inodeOf(at.Namespace)
	if err != nil {
		return fmt.Errorf("serve DNS of Network %s: %w", network.Name, err)
	}
	if r := n.servers[id]; r != nil {
		if r.is(at, inode) {
			n.update(r, network)
			return nil
		}
		n.stop(id, r)
	}
	for other, r := range n.servers {
		if r.network.Name == network.Name {
			n.stop(other, r)
			continue
		}
		// The kernel would give each some of the questions: it cannot tell this server from a predecessor's.
		if r.inode == inode && slices.ContainsFunc(at.Addresses, func(a netip.AddrPort) bool { return slices.Contains(r.place.Addresses, a) }) {
			return fmt.Errorf("serve DNS of Network %s: Network %s is served at the same place", network.Name, r.network.Name)
		}
	}
	files, err := n.config.Open(ctx, at)
	if err != nil {
		return fmt.Errorf("serve DNS of Network %s: %w", network.Name, err)
	}
	on, err := taken(files, at)
	if err != nil {
		return fmt.Errorf("serve DNS of Network %s: %w", network.Name, err)
	}
	n.start(ctx, id, &running{place: at, inode: inode, network: network, on: on})
	return nil
}

// start begins to serve. The caller holds mu.
func (n *Node) start(ctx context.Context, id string, r *running) {
	counters := n.config.Metrics.of(r.network.Name)
	log := n.config.Log.With("network", r.network.Name)
	r.server = newServer(options{
		zone: n.config.Directory.Serve(r.network), policy: policyOf(r.network), resolvers: n.config.Resolvers,
		limits: n.config.Limits, counters: counters, log: log,
	})
	// It outlives the request that asked for it.
	ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	n.servers[id] = r
	go func() {
		defer close(r.done)
		defer counters.forget()
		if err := r.server.serve(ctx, r.on); !errors.Is(err, context.Canceled) && !errors.Is(err, errDrained) {
			log.Warn("DNS server failed", "error", err)
		}
	}()
}

// update takes over a change of the Network.
func (n *Node) update(r *running, network *model.Network) {
	if r.network == network {
		return
	}
	r.network = network
	n.config.Directory.Serve(network)
	policy := policyOf(network)
	r.server.policy.Store(&policy)
}

// is reports whether a server answers at a place.
func (r *running) is(at Place, inode uint64) bool {
	select {
	case <-r.done:
		return false
	default:
		return r.inode == inode && r.place.Namespace == at.Namespace && slices.Equal(r.place.Addresses, at.Addresses)
	}
}

// Stop ends the server of an ID, if there is one, and returns when its sockets are closed: they would keep the network
// namespace from going.
func (n *Node) Stop(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.servers[id]; r != nil {
		n.stop(id, r)
	}
}

// Serving are the IDs of all servers.
func (n *Node) Serving() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.servers))
}

// farewell is how long a Node that drains waits for answers under way, and for connections that are open.
const farewell = readTimeout

// Drain leaves all questions that come from now on to a successor, which already listens at the same places, and returns
// when those that came before are answered. Nobody may call Serve any more. Without a successor it is like Close, but slow.
func (n *Node) Drain() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.servers {
		if err := r.on.drain(); err != nil {
			n.config.Log.Warn("sockets for DNS are closed with what is in them", "network", r.network.Name, "error", err)
			n.stop(id, r)
		}
	}
	late := time.After(farewell)
	for _, r := range n.servers {
		select {
		case <-r.done:
		case <-late:
			return
		}
	}
}

// Close ends all servers.
func (n *Node) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.servers {
		n.stop(id, r)
	}
}

// stop ends a server. The caller holds mu.
func (n *Node) stop(id string, r *running) {
	r.stop()
	<-r.done
	delete(n.servers, id)
	n.config.Directory.Leave(r.network.Name)
}

// inodeOf tells a network namespace from a later one under its path. Sockets keep theirs, so that its number is not used
// again while they are open.
func inodeOf(path string) (uint64, error) {
	if path == "" {
		return 0, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("find network namespace: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("find network namespace %s: %w", path, fs.ErrInvalid)
	}
	return stat.Ino, nil
}

func policyOf(n *model.Network) Policy {
	p := Policy{Outside: n.Egress == model.EgressNode, Ranges: slices.Clone(n.ServiceCIDRs)}
	for _, s := range n.Subnets {
		p.Ranges = append(p.Ranges, s.CIDRs...)
	}
	return p
}
