package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/process/pipe"
)

// connectTime is how long a connection may take to be made.
const connectTime = 20 * time.Second

// TunnelQuery says what a Tunnel leads to: a database, or a socket of a node.
type TunnelQuery struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Database is api.DatabaseNorthbound or api.DatabaseSouthbound.
	Database string
	// Node is a node's name, Socket which of its sockets is meant (api.NodeDatabase, api.NodeOpenFlow, or a daemon's name), and
	// Bridge the bridge that api.NodeOpenFlow is of.
	Node, Socket, Bridge string
	// Write: what goes through may write.
	Write bool
}

// String says what it leads to.
func (q TunnelQuery) String() string {
	switch {
	case q.Node == "":
		return "the " + q.Database + " database"
	case q.Socket == api.NodeDatabase:
		return "Open vSwitch's database on node " + q.Node
	case q.Socket == api.NodeOpenFlow:
		return "bridge " + q.Bridge + " on node " + q.Node
	}
	return q.Socket + " on node " + q.Node
}

// request is how it is asked for, and in which protocol.
func (q TunnelQuery) request() (path string, query url.Values, protocol string) {
	path, query = "/apis/"+api.GroupName+"/"+api.Version+"/", url.Values{}
	if q.Write {
		query.Set(api.ProxyWrite, "true")
	}
	if q.Node == "" {
		return path + api.ResourceDatabases + "/" + q.Database + "/" + api.SubresourceProxy, query, api.ProxyProtocol
	}
	query.Set(api.NodeSocket, q.Socket)
	if q.Bridge != "" {
		query.Set(api.NodeBridge, q.Bridge)
	}
	return path + api.ResourceNodes + "/" + url.PathEscape(q.Node) + "/" + api.SubresourceProxy, query, api.NodeProtocol
}

// socket is the name of the tunnel's socket: that of a bridge is found by Open vSwitch's programs under the bridge's own.
func (q TunnelQuery) socket() string {
	if q.Bridge != "" {
		return q.Bridge + ".mgmt"
	}
	return "db.sock"
}

// Tunnel is a way to one of OVN's databases, or to a socket of a node, by way of the API server: a unix socket that nobody but
// this user can open, until it is closed. Each connection to it becomes one to the server that leads the database at that moment,
// or to the node's socket.
type Tunnel struct {
	query    TunnelQuery
	config   *rest.Config
	dir      string
	listener net.Listener
	// first is a connection that has been made to see whether it can be.
	first chan net.Conn
	stop  context.CancelFunc

	running sync.WaitGroup
	mu      sync.Mutex
	failed  error
}

// OpenTunnel connects, and says why if that cannot be done. The tunnel ends with ctx at the latest.
func OpenTunnel(ctx context.Context, q TunnelQuery) (*Tunnel, error) {
	cfg, err := kube.UserConfig(q.Kubeconfig, UserAgent)
	if err != nil {
		return nil, err
	}
	t := &Tunnel{query: q, config: cfg, first: make(chan net.Conn, 1)}
	conn, err := q.dial(ctx, cfg)
	if err != nil {
		return nil, err
	}
	t.first <- conn
	if err := t.listen(ctx); err != nil {
		_ = conn.Close()
		_ = os.RemoveAll(t.dir)
		return nil, err
	}
	ctx, t.stop = context.WithCancel(ctx)
	t.running.Go(func() { t.serve(ctx) })
	return t, nil
}

// DialTunnel connects without a socket of our own.
func DialTunnel(ctx context.Context, q TunnelQuery) (net.Conn, error) {
	cfg, err := kube.UserConfig(q.Kubeconfig, UserAgent)
	if err != nil {
		return nil, err
	}
	return q.dial(ctx, cfg)
}

// Dir is the directory that the socket is in, with nothing beside it.
func (t *Tunnel) Dir() string { return t.dir }

// Address is how OVN's programs name the socket.
func (t *Tunnel) Address() string { return "unix:" + t.listener.Addr().String() }

// Err says why a later connection could not be made; nil if all were.
func (t *Tunnel) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Close ends the tunnel with all that goes through, and removes the socket.
func (t *Tunnel) Close() {
	t.stop()
	t.running.Wait()
	select {
	case conn := <-t.first:
		_ = conn.Close()
	default:
	}
	_ = os.RemoveAll(t.dir)
}

func (t *Tunnel) listen(ctx context.Context) (err error) {
	// It is readable for this user alone, and so is what is in it.
	if t.dir, err = os.MkdirTemp("", "atoll-"); err != nil {
		return fmt.Errorf("make a directory for a socket: %w", err)
	}
	path := filepath.Join(t.dir, t.query.socket())
	if t.listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path); err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = t.listener.Close()
		return fmt.Errorf("make a socket: %w", err)
	}
	return nil
}

func (t *Tunnel) serve(ctx context.Context) {
	defer context.AfterFunc(ctx, func() { _ = t.listener.Close() })()
	for {
		local, err := t.listener.Accept()
		if err != nil {
			_ = t.listener.Close()
			return
		}
		t.running.Go(func() { t.join(ctx, local) })
	}
}

// join leads one connection to the database.
func (t *Tunnel) join(ctx context.Context, local net.Conn) {
	defer func() { _ = local.Close() }()
	var far net.Conn
	select {
	case far = <-t.first:
	default:
		var err error
		if far, err = t.query.dial(ctx, t.config); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.failed = err
			return
		}
	}
	pipe.Join(ctx, local, far)
}

func (q TunnelQuery) dial(ctx context.Context, cfg *rest.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	path, query, protocol := q.request()
	conn, err := kube.DialStream(ctx, cfg, path, query, protocol)
	if err == nil {
		return conn, nil
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case errors.Is(err, kube.ErrNoUpgrade):
		return nil, fmt.Errorf("connect to %s: %w %s", q, err, whereToLook)
	case !answered && ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", q, context.Cause(ctx))
	case !answered:
		return nil, fmt.Errorf("ask the API server at %s: %w", cfg.Host, err)
	}
	return nil, fmt.Errorf("connect to %s: %w", q, q.inWords(status))
}

// whereToLook is for those whom nobody has answered.
const whereToLook = "(is the API there? kubectl describe apiservice " + api.Version + "." + api.GroupName + "; atoll status)"

// inWords says what to do about an answer that is none.
func (q TunnelQuery) inWords(err *apierrors.StatusError) error {
	resource, reads, writes, harm := api.ResourceDatabases, "atoll-check", "atoll-database-admin", "may undo every wall between tenants"
	if q.Node != "" {
		resource, reads, writes, harm = api.ResourceNodes, "atoll-node-reader",
			"atoll-node-admin", "may undo every wall between tenants on the node"
	}
	switch {
	case apierrors.IsForbidden(err) && q.Write:
		return fmt.Errorf("%w. To write it takes the verbs get and update of %s/%s, which ClusterRole %s has: who has it %s", err, resource,
			api.SubresourceProxy, writes, harm)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w. To read it takes the verb get of %s/%s, which ClusterRole %s has", err, resource, api.SubresourceProxy, reads)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w %s", err, whereToLook)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: the cluster has no such API (dist/inspect installs it), or Atoll is of an earlier version", err)
	}
	return err
}

// ToDatabase leads to a database: by addresses, or a tunnel where there are none. It is to be closed.
func ToDatabase(ctx context.Context, kubeconfig, database string, addresses []string) ([]string, func(), error) {
	if len(addresses) > 0 {
		return addresses, func() {}, nil
	}
	t, err := OpenTunnel(ctx, TunnelQuery{Kubeconfig: kubeconfig, Database: database})
	if err != nil {
		flag := map[string]string{api.DatabaseNorthbound: "--nb-address", api.DatabaseSouthbound: "--sb-address"}[database]
		return nil, nil, fmt.Errorf("%w; where its servers can be reached, name them with %s", err, flag)
	}
	return []string{t.Address()}, t.Close, nil
}
