package central

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/atoll-net/atoll/pkg/process/pipe"
)

// relays carry raft between this member's server and the servers of the others. Open vSwitch's TLS has one list of CAs for all
// ports of a process, and it compares no names: a node's certificate would be enough to speak raft with a southbound server. So a
// server dials a socket of its own node. The relay behind that socket dials the other member's relay over TLS, which knows it by
// name and dials its own server's socket.
type relays struct {
	kind    Kind
	node    string
	address netip.Addr
	run     string
	// names is before a node's name in the CN of a member's certificate.
	names    string
	identity *atomic.Pointer[identity]
	// member reports whether an address is a member's.
	member func(netip.Addr) bool
	log    *slog.Logger
	// life is how long they serve; fail ends the member's server with them.
	life context.Context //nolint:containedctx // What follow begins lives longer than its caller.
	fail func(error)

	mu sync.Mutex
	// others are the members that may come, and are led to.
	others map[string]*other
}

// other is another member. Its connections, in both directions, end with ctx.
type other struct {
	address netip.Addr
	ctx     context.Context //nolint:containedctx // It is the life of the member's connections, which begin at different times.
	end     context.CancelFunc
	// ended is closed when its socket is not listened at any more.
	ended chan struct{}
	// said is why it was not reached last.
	said atomic.Pointer[string]
}

// serve serves the others.
func (r *relays) serve() error {
	listener, err := (&net.ListenConfig{}).Listen(r.life, "tcp", netip.AddrPortFrom(r.address, r.kind.RelayPort()).String())
	if err != nil {
		return fmt.Errorf("serve raft to the others: %w", err)
	}
	return proxy{
		socket: filepath.Join(r.run, raftSocket(r.kind, r.address)), identity: r.identity, admit: r.admit, member: r.member, log: r.log,
	}.serve(r.life, listener)
}

// admit lets members in, until they are none any more.
func (r *relays) admit(_ context.Context, shown *x509.Certificate) (context.Context, error) {
	node, is := strings.CutPrefix(shown.Subject.CommonName, r.names)
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.others[node]; is && o != nil {
		return o.ctx, nil
	}
	return nil, fmt.Errorf("the certificate is of %q, not of another member", shown.Subject.CommonName)
}

// follow leads to the members of a record, and lets them in, and nobody else.
func (r *relays) follow(d Database) error {
	want := map[string]netip.Addr{}
	for _, m := range d.Members {
		if m.Node != r.node {
			want[m.Node] = m.Address
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, o := range r.others {
		if want[node] != o.address {
			o.end()
			<-o.ended
			delete(r.others, node)
		}
	}
	for node, address := range want {
		if r.others[node] != nil {
			continue
		}
		o, err := r.lead(node, address)
		if err != nil {
			return err
		}
		if r.others == nil {
			r.others = map[string]*other{}
		}
		r.others[node] = o
	}
	return nil
}

// stop ends what follow began.
func (r *relays) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, o := range r.others {
		o.end()
		<-o.ended
		delete(r.others, node)
	}
}

// lead listens where this member's server looks for another's.
func (r *relays) lead(node string, address netip.Addr) (*other, error) {
	socket := filepath.Join(r.run, raftSocket(r.kind, address))
	// A relay that was killed has left it.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lead to member %s: %w", node, err)
	}
	listener, err := (&net.ListenConfig{}).Listen(r.life, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("lead to member %s: %w", node, err)
	}
	o := &other{address: address, ended: make(chan struct{})}
	o.ctx, o.end = context.WithCancel(r.life)
	go func() {
		defer close(o.ended)
		err := serveEach(o.ctx, listener, r.log, func(server net.Conn) error {
			r.reach(o, node, server)
			return nil
		})
		if o.ctx.Err() == nil {
			r.fail(fmt.Errorf("lead to member %s: %w", node, err))
		}
	}()
	return o, nil
}

// reach carries a connection of this member's server to another's relay.
func (r *relays) reach(o *other, node string, server net.Conn) {
	conn, err := r.dial(o, node)
	why := ""
	if err != nil {
		why = err.Error()
	}
	// The server tries again and again.
	if said := o.said.Swap(&why); o.ctx.Err() == nil && (said == nil || *said != why) {
		r.log.Info("raft", "to", node, "reached", err == nil, "why", why)
	}
	if err == nil {
		pipe.Join(o.ctx, server, conn)
	}
}

func (r *relays) dial(o *other, node string) (*tls.Conn, error) {
	id := r.identity.Load()
	ctx, cancel := context.WithTimeout(o.ctx, proxyHandshake)
	defer cancel()
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(o.address, r.kind.RelayPort()).String())
	if err != nil {
		return nil, err
	}
	conn := tls.Client(plain, &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{id.pair}, RootCAs: id.central, ServerName: o.address.String(),
		VerifyConnection: func(state tls.ConnectionState) error {
			if name := state.PeerCertificates[0].Subject.CommonName; name != r.names+node {
				return fmt.Errorf("the certificate is of %q, not of member %s", name, node)
			}
			return nil
		},
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return conn, nil
}
