package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
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
)

// connectTime is how long a connection to a database may take to be made.
const connectTime = 20 * time.Second

// TunnelQuery says what a Tunnel leads to.
type TunnelQuery struct {
	// Kubeconfig says how to reach the API server; empty: as kubectl does.
	Kubeconfig string
	// Database is api.DatabaseNorthbound or api.DatabaseSouthbound.
	Database string
	// Write: what goes through may write the database.
	Write bool
}

// Tunnel is a way to one of OVN's databases by way of the API server: a unix socket that nobody but this user can open, until it is closed. Each connection to it becomes one to the
// server that leads the database at that moment.
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
	cfg, err := kube.UserConfig(q.Kubeconfig, userAgent)
	if err != nil {
		return nil, err
	}
	t := &Tunnel{query: q, config: cfg, first: make(chan net.Conn, 1)}
	conn, err := t.dial(ctx)
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
	path := filepath.Join(t.dir, "db.sock")
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
		if far, err = t.dial(ctx); err != nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.failed = err
			return
		}
	}
	closing := func() { _, _ = local.Close(), far.Close() }
	defer closing()
	defer context.AfterFunc(ctx, closing)()
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(local, far); closing() })
	_, _ = io.Copy(far, local)
	closing()
	back.Wait()
}

func (t *Tunnel) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	query := url.Values{}
	if t.query.Write {
		query.Set(api.ProxyWrite, "true")
	}
	path := "/apis/" + api.GroupName + "/" + api.Version + "/" + api.ResourceDatabases + "/" + t.query.Database + "/" + api.SubresourceProxy
	conn, err := kube.DialStream(ctx, t.config, path, query, api.ProxyProtocol)
	if err == nil {
		return conn, nil
	}
	status, answered := errors.AsType[*apierrors.StatusError](err)
	switch {
	case errors.Is(err, kube.ErrNoUpgrade):
		return nil, fmt.Errorf("connect to the %s database: %w %s", t.query.Database, err, whereToLook)
	case !answered && ctx.Err() != nil:
		return nil, fmt.Errorf("connect to the %s database: %w", t.query.Database, context.Cause(ctx))
	case !answered:
		return nil, fmt.Errorf("ask the API server at %s: %w", t.config.Host, err)
	}
	return nil, fmt.Errorf("connect to the %s database: %w", t.query.Database, t.inWords(status))
}

// whereToLook is for those whom nobody has answered.
const whereToLook = "(is the API there? kubectl describe apiservice " + api.Version + "." + api.GroupName + "; atoll status)"

// inWords says what to do about an answer that is none.
func (t *Tunnel) inWords(err *apierrors.StatusError) error {
	switch {
	case apierrors.IsForbidden(err) && t.query.Write:
		return fmt.Errorf("%w. To write it takes the verbs get and update of %s/%s, which ClusterRole atoll-database-admin has: who has it may undo every wall between tenants", err, api.ResourceDatabases, api.SubresourceProxy)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w. To read it takes the verb get of %s/%s, which ClusterRole atoll-check has", err, api.ResourceDatabases, api.SubresourceProxy)
	case apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("%w %s", err, whereToLook)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: the cluster has no such API (dist/inspect installs it), or Atoll is of an earlier version", err)
	}
	return err
}

// way leads to a database: by addresses, or a tunnel where there are none. It is to be closed.
func way(ctx context.Context, kubeconfig, database string, addresses []string) ([]string, func(), error) {
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
