package sandbox

import (
	"context"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/test/sandbox/place"
	"github.com/atoll-net/atoll/test/sandbox/relay"
)

// RESTConfig returns the administrator's client configuration. Connections are made in the control plane's
// network namespace, so that it works in a process of the machine's. client-go does not use that for exec
// and port-forward streams, which take a transport of their own.
func (s *Sandbox) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("load kubeconfig: %w", err)
	}
	config.Dial = s.dial
	config.QPS, config.Burst = -1, -1 // one user on one machine: nothing to be fair to
	return config, nil
}

// Forward connects clients of a listener in the machine's network to an address in the control plane's, until the context ends.
func (s *Sandbox) Forward(ctx context.Context, listener net.Listener, address string) error {
	return relay.Forward(ctx, listener, address,
		func(ctx context.Context, address string) (net.Conn, error) { return s.dial(ctx, "tcp", address) })
}

// dial connects from the control plane's network namespace.
func (s *Sandbox) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var conn net.Conn
	err := place.InNamespace(s.Namespace(Central), func() (err error) {
		conn, err = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}
