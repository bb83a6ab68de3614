package central

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// proxyHandshake bounds how long a client may take to say who it is.
	proxyHandshake = 10 * time.Second
	// proxyClients bounds how many are served at once: northd, inspection, a few people.
	proxyClients = 256
)

// proxy serves a unix socket over TLS, to clients that the central CA has signed.
type proxy struct {
	socket string
	// identity is replaced when certificates are renewed; connections that are there go on.
	identity *atomic.Pointer[identity]
	// admit says until when a client is served, by its certificate; nil serves each. Its end is the client's.
	admit func(context.Context, *x509.Certificate) (context.Context, error)
	log   *slog.Logger
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
	return serveEach(ctx, listener, p.log, func(conn net.Conn) error { return p.forward(ctx, tls.Server(conn, config)) })
}

// serveEach has each connection served, so many at once, until ctx has ended.
func serveEach(ctx context.Context, listener net.Listener, log *slog.Logger, serve func(net.Conn) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	places := make(chan struct{}, proxyClients)
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("accept clients: %w", err)
		}
		select {
		case places <- struct{}{}:
		default:
			log.Warn("too many clients", "client", conn.RemoteAddr())
			_ = conn.Close()
			continue
		}
		running.Go(func() {
			defer func() { <-places }()
			defer conn.Close()
			if err := serve(conn); err != nil && ctx.Err() == nil {
				log.Warn("client refused", "client", conn.RemoteAddr(), "error", err)
			}
		})
	}
}

// forward carries one client's bytes until either side ends.
func (p proxy) forward(ctx context.Context, client *tls.Conn) error {
	greeting, cancel := context.WithTimeout(ctx, proxyHandshake)
	err := client.HandshakeContext(greeting)
	cancel()
	if err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	if p.admit != nil {
		if ctx, err = p.admit(ctx, client.ConnectionState().PeerCertificates[0]); err != nil {
			return err
		}
	}
	server, err := (&net.Dialer{}).DialContext(ctx, "unix", p.socket)
	if err != nil {
		return fmt.Errorf("reach the database: %w", err)
	}
	carry(ctx, server, client)
	return nil
}

// carry carries bytes both ways until either side or ctx ends. How a connection ends is the business of those who had it.
func carry(ctx context.Context, plain net.Conn, encrypted *tls.Conn) {
	both := sync.OnceFunc(func() {
		_ = plain.Close()
		_ = encrypted.NetConn().Close()
	})
	defer both()
	stop := context.AfterFunc(ctx, both)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		defer both()
		_, _ = io.Copy(plain, encrypted)
	})
	_, _ = io.Copy(encrypted, plain)
	both()
	running.Wait()
}
