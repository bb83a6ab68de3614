package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/kube/scrape"
	"github.com/atoll-net/atoll/pkg/process/daemon"
)

// farewell is how long requests may take to clear up when the agent stops.
const farewell = undoTimeout + 2*time.Second

// listen opens the plugin's socket. Only root reaches it: whoever does can name any pod of the node.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, fmt.Errorf("make directory of socket: %w", err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for CNI requests: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), listener.Close())
	}
	return listener, nil
}

// serveCNI serves requests until ctx ends; their contexts end with it.
func (a *Agent) serveCNI(ctx context.Context, listener net.Listener) error {
	return daemon.Serve(ctx, &http.Server{Handler: cni.Handler(a, a.log), ReadHeaderTimeout: daemon.HeaderTime}, listener, farewell)
}

// serveMetrics serves what people and machines ask about the agent.
func (a *Agent) serveMetrics(ctx context.Context, address string, registry *prometheus.Registry, client kubernetes.Interface) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return daemon.Serve(ctx, &http.Server{Handler: a.local(registry, client), ReadHeaderTimeout: daemon.HeaderTime}, listener, farewell)
}

// local answers clients on the node. Answers about all tenants' pods need a right, because any process in the node's own network
// namespace can ask.
func (a *Agent) local(registry *prometheus.Registry, client kubernetes.Interface) http.Handler {
	// Healthy is an agent that runs: what it waits for does not come sooner by killing it.
	mux := daemon.NewMux(registry, func(context.Context) error { return nil })
	mux.HandleFunc("GET /readyz", daemon.Check(a.ready))
	for path, handler := range map[string]http.Handler{"/verdicts": a.verdicts, "/flows": a.flows} {
		mux.Handle("GET "+path, scrape.Guard(client, path, handler))
	}
	return mux
}
