package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"
)

// Limits bound what the pods of one Network on one node can use.
type Limits struct {
	// Queries per second, and at once. Beyond that they stay in the socket, and when it is full the kernel drops them,
	// which costs the agent nothing.
	Queries rate.Limit
	Burst   int
	// Forwards are the questions that wait for the node's resolvers, in all and for one pod.
	Forwards, ForwardsEach int
	// Connections by TCP, in all and for one pod.
	Connections, ConnectionsEach int
	// CacheBytes are kept of what the node's resolvers replied.
	CacheBytes int
}

// DefaultLimits are generous for pods that behave.
func DefaultLimits() Limits {
	return Limits{
		Queries: 10000, Burst: 1000, Forwards: 64, ForwardsEach: 32, Connections: 64, ConnectionsEach: 32, CacheBytes: 128 << 10,
	}
}

// How long a connection may wait: for its first question and for more, and for the asker to take a reply.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 2 * time.Second
)

// maxPerConnection is how many questions a connection may bring.
const maxPerConnection = 128

// options are what a Server needs.
type options struct {
	zone      *Zone
	policy    Policy
	resolvers *Resolvers
	limits    Limits
	counters  *counters
	log       *slog.Logger
}

// Server answers the pods of one Network on this node.
type Server struct {
	zone        *Zone
	policy      atomic.Pointer[Policy]
	ranges      []netip.Prefix
	forward     *forwarder
	connections *slots
	rate        *rate.Limiter
	counters    *counters
	log         *slog.Logger
}

func newServer(o options) *Server {
	s := &Server{
		zone:   o.zone,
		ranges: localRanges(),
		forward: &forwarder{
			resolvers: o.resolvers, cache: newCache(o.limits.CacheBytes), slots: newSlots(o.limits.Forwards, o.limits.ForwardsEach),
		},
		connections: newSlots(o.limits.Connections, o.limits.ConnectionsEach),
		rate:        rate.NewLimiter(o.limits.Queries, o.limits.Burst),
		counters:    o.counters,
		log:         o.log,
	}
	s.policy.Store(&o.policy)
	return s
}

// serve answers on the sockets until ctx ends, one of them fails, or they are drained; it closes them, and returns when all
// that it started has stopped.
func (s *Server) serve(ctx context.Context, on *sockets) error {
	ctx, stop := context.WithCancelCause(ctx)
	var reading, running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	closing := context.AfterFunc(ctx, func() { _ = on.close() })
	defer closing()
	for _, conn := range on.packets {
		reading.Go(func() { stopUnlessDrained(stop, s.servePackets(ctx, conn, &running)) })
	}
	for _, listener := range on.listeners {
		reading.Go(func() { stopUnlessDrained(stop, s.serveConnections(ctx, listener, &running)) })
	}
	reading.Wait()
	if ctx.Err() == nil {
		// What has been asked is answered, by the same sockets.
		running.Wait()
		return errors.Join(errDrained, on.close())
	}
	return context.Cause(ctx)
}

// errDrained ends a server whose sockets get nothing any more.
var errDrained = errors.New("drained")

func stopUnlessDrained(stop context.CancelCauseFunc, err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		stop(err)
	}
}

// servePackets answers by UDP: from the Network's own knowledge at once, in turn; what has to be asked elsewhere goes on
// by itself, within bounds.
func (s *Server) servePackets(ctx context.Context, conn *net.UDPConn, running *sync.WaitGroup) error {
	packet := make([]byte, maxQuery)
	for {
		if err := s.rate.Wait(ctx); err != nil {
			return ctx.Err()
		}
		n, from, err := conn.ReadFromUDPAddrPort(packet)
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil && left(conn, conn.SetReadDeadline) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read DNS question: %w", err)
		}
		since := time.Now()
		send := func(q query, m *dns.Msg) {
			s.send(q, m, since, func(reply []byte) error {
				_, err := conn.WriteToUDPAddrPort(reply, from)
				return err
			})
		}
		q, m := readQuery(packet[:n], false)
		if q.request == nil || m != nil {
			send(q, m)
			continue
		}
		m, away := s.resolve(q)
		if away != nil {
			if m = s.begin(from.Addr(), away); m == nil {
				running.Go(func() {
					defer s.forward.slots.release(from.Addr())
					send(q, s.run(ctx, away))
				})
				continue
			}
		}
		send(q, m)
	}
}

// send packs a reply and hands it to write; with no reply it does nothing.
func (s *Server) send(q query, m *dns.Msg, since time.Time, write func([]byte) error) {
	if m == nil {
		return
	}
	reply, err := pack(m, max(q.size, dns.MinMsgSize))
	s.counters.replied(m.Rcode, since)
	if err == nil {
		err = write(reply)
	}
	if err != nil {
		s.log.Debug("DNS reply was not sent", "error", err)
	}
}

// serveConnections answers by TCP. A connection that is too many is closed at once.
func (s *Server) serveConnections(ctx context.Context, listener *net.TCPListener, running *sync.WaitGroup) error {
	for {
		conn, err := listener.AcceptTCP()
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil && left(listener, listener.SetDeadline) {
			continue
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
			// Such as no file descriptors: others give theirs back.
			s.log.Warn("connection for DNS was not accepted", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		who := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
		if !s.connections.take(who) {
			_ = conn.Close()
			continue
		}
		running.Go(func() {
			defer s.connections.release(who)
			defer conn.Close()
			closing := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer closing()
			if err := s.serveConnection(ctx, conn, who); err != nil {
				s.log.Debug("connection for DNS ended", "error", err)
			}
		})
	}
}

// serveConnection answers one question after the other (RFC 7766): a message has its length in front.
func (s *Server) serveConnection(ctx context.Context, conn net.Conn, who netip.Addr) error {
	const lengthSize = 2
	var length [lengthSize]byte
	for range maxPerConnection {
		if err := conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return err
		}
		n := binary.BigEndian.Uint16(length[:])
		if n < headerSize || n > maxQuery {
			return fmt.Errorf("question of %d bytes", n)
		}
		packet := make([]byte, n)
		if _, err := io.ReadFull(conn, packet); err != nil {
			return err
		}
		if err := s.rate.Wait(ctx); err != nil {
			return err
		}
		since := time.Now()
		q, m := readQuery(packet, true)
		if q.request == nil && m == nil {
			return errors.New("message that is no question")
		}
		if m == nil {
			m = s.inTurn(ctx, q, who)
		}
		var failed error
		s.send(q, m, since, func(reply []byte) error {
			if failed = conn.SetWriteDeadline(time.Now().Add(writeTimeout)); failed != nil {
				return failed
			}
			_, failed = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			return failed
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// inTurn answers a question and waits for the reply, wherever it comes from.
func (s *Server) inTurn(ctx context.Context, q query, who netip.Addr) *dns.Msg {
	m, away := s.resolve(q)
	if away == nil {
		return m
	}
	if m = s.begin(who, away); m != nil {
		return m
	}
	defer s.forward.slots.release(who)
	return s.run(ctx, away)
}
