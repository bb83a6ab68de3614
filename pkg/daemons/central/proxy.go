package central

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/atoll-net/atoll/pkg/process/connlimit"
	"github.com/atoll-net/atoll/pkg/process/pipe"
)

const (
	// proxyHandshake bounds how long a client may take to say who it is.
	proxyHandshake = 10 * time.Second
	// proxyGreeted bounds how many of one source may be about to say who they are, proxyStrangers how many of all sources, so that
	// strangers keep nobody else away.
	proxyGreeted, proxyStrangers = 16, 1024
	// proxyClients bounds how many are served at once, of those who have said it: northd, inspection, a few people.
	proxyClients = 256
)

// proxy serves a unix socket over TLS, to clients that the central CA has signed.
type proxy struct {
	socket string
	// identity is replaced when certificates are renewed; connections that are there go on.
	identity *atomic.Pointer[identity]
	// admit returns an error for a client that is not served, by its certificate, or a context with whose end the client's
	// connection ends. If admit is nil, every client is served.
	admit func(context.Context, *x509.Certificate) (context.Context, error)
	// member reports whether a member has an address. Machines on the members' link may share 64 bits of IPv6 with them; each member
	// is a source by itself.
	member func(netip.Addr) bool
	log    *slog.Logger
}

// serve returns when ctx has ended and all connections with it.
func (p proxy) serve(ctx context.Context, listener net.Listener) error {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			id := p.identity.Load()
			return &tls.Config{
				MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{id.pair},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: id.central,
				// A session of before would be taken up again without a look at whom is trusted now.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
	strangers := connlimit.Strangers{Each: proxyGreeted, All: proxyStrangers, Alone: p.member}
	places := make(chan struct{}, proxyClients)
	return serveEach(ctx, listener, p.log, func(conn net.Conn) error {
		client := tls.Server(conn, config)
		leave := strangers.Enter(conn)
		greeting, cancel := context.WithTimeout(ctx, proxyHandshake)
		err := client.HandshakeContext(greeting)
		cancel()
		leave()
		if err != nil {
			return fmt.Errorf("greet: %w", err)
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			return errors.New("too many clients")
		}
		return p.forward(ctx, client)
	})
}

// serveEach has each connection served until ctx has ended.
func serveEach(ctx context.Context, listener net.Listener, log *slog.Logger, serve func(net.Conn) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	said := rate.Sometimes{First: 10, Interval: time.Second} // Strangers do not fill the log.
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("accept clients: %w", err)
		}
		running.Go(func() {
			defer conn.Close()
			if err := serve(conn); err != nil && ctx.Err() == nil {
				said.Do(func() { log.Warn("client refused", "client", conn.RemoteAddr(), "error", err) })
			}
		})
	}
}

// forward carries a client's bytes, of which it is known who it is, until either side ends.
func (p proxy) forward(ctx context.Context, client *tls.Conn) (err error) {
	if p.admit != nil {
		if ctx, err = p.admit(ctx, client.ConnectionState().PeerCertificates[0]); err != nil {
			return err
		}
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	if err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	pipe.Join(ctx, server, client)
	return nil
}
