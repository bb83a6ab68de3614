package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// live is a server of the world on loopback sockets.
type live struct {
	*world
	*Server
	packets, stream string
}

func newLive(t *testing.T, w *world, limits Limits) *live {
	t.Helper()
	s := newServer(options{
		zone: w.served["red"].zone, policy: policyOf(w.served["red"].network), resolvers: w.resolvers, limits: limits,
		counters: w.metrics.of("red"), log: slog.New(slog.DiscardHandler),
	})
	on, err := listen(t.Context(), Place{Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.serve(ctx, on); !errors.Is(err, context.Canceled) {
			t.Errorf("server ended: %v", err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return &live{world: w, Server: s, packets: on.packets[0].LocalAddr().String(), stream: on.listeners[0].Addr().String()}
}

func (l *live) query(t *testing.T, network, name string) *dns.Msg {
	t.Helper()
	at := l.packets
	if network == "tcp" {
		at = l.stream
	}
	m := new(dns.Msg)
	m.SetQuestion(name, dns.TypeA)
	out, _, err := (&dns.Client{Net: network, Timeout: 10 * time.Second}).ExchangeContext(t.Context(), m, at)
	if err != nil {
		t.Fatalf("%s by %s: %v", name, network, err)
	}
	return out
}

func TestServer(t *testing.T) {
	l := newLive(t, twoNetworks(t), DefaultLimits())
	for _, network := range []string{"udp", "tcp"} {
		for name, want := range map[string]int{
			"web.red.svc.cluster.local.": dns.RcodeSuccess, "web.blue.svc.cluster.local.": dns.RcodeNameError,
			"www.example.com.": dns.RcodeNameError,
		} {
			if m := l.query(t, network, name); m.Rcode != want {
				t.Errorf("%s by %s: %v", name, network, m)
			}
		}
	}
	if got := testutil.ToFloat64(l.metrics.queries.WithLabelValues("red", "NXDOMAIN")); got != 4 {
		t.Errorf("%v denials were counted, want 4", got)
	}
}

// TestServerForwards: while questions wait for the world outside, others are answered.
func TestServerForwards(t *testing.T) {
	o := newOutside(t, make(chan struct{}))
	l := newLive(t, open(t, o.address), DefaultLimits())
	var waiting sync.WaitGroup
	for _, network := range []string{"udp", "tcp"} {
		waiting.Go(func() {
			if m := l.query(t, network, "www.example.com."); len(m.Answer) != 2 {
				t.Errorf("by %s: %v", network, m)
			}
		})
	}
	if m := l.query(t, "udp", "cluster.local."); m.Rcode != dns.RcodeSuccess {
		t.Errorf("while others wait: %v", m)
	}
	close(o.hold)
	waiting.Wait()
	if m := l.query(t, "udp", "www.example.com."); len(m.Answer) != 2 {
		t.Errorf("known: %v", m)
	}
}

// TestManyQuestions of one connection, sent at once, are all answered in turn (RFC 7766).
func TestManyQuestions(t *testing.T) {
	l := newLive(t, twoNetworks(t), DefaultLimits())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.stream)
	if err != nil {
		t.Fatal(err)
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	for id := range uint16(10) {
		m := new(dns.Msg)
		m.SetQuestion("web.red.svc.cluster.local.", dns.TypeA)
		m.Id = id
		if err := c.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for id := range uint16(10) {
		if m, err := c.ReadMsg(); err != nil || m.Id != id || len(m.Answer) != 1 {
			t.Fatalf("question %d: %v, %v", id, m, err)
		}
	}
}

// TestConnectionsAreBounded: those that are too many are closed, and what is no question closes its connection.
func TestConnectionsAreBounded(t *testing.T) {
	limits := DefaultLimits()
	limits.Connections, limits.ConnectionsEach = 8, 2
	l := newLive(t, twoNetworks(t), limits)
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.stream)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ended := func(c net.Conn) bool {
		defer wait.Limit(c, wait.Patience)()
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF) || err != nil && strings.Contains(err.Error(), "reset")
	}
	first, second := dial(), dial()
	if !ended(dial()) {
		t.Error("a third connection was kept")
	}
	for what, bytes := range map[net.Conn][]byte{
		first:  binary.BigEndian.AppendUint16(nil, headerSize-1),
		second: binary.BigEndian.AppendUint16(nil, maxQuery+1),
	} {
		if _, err := what.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if !ended(what) {
			t.Errorf("a message of %x bytes did not end its connection", bytes)
		}
	}
	// Their places are free again, once the server has seen that they have gone.
	for {
		m := new(dns.Msg)
		m.SetQuestion("web.red.svc.cluster.local.", dns.TypeA)
		if _, _, err := (&dns.Client{Net: "tcp"}).ExchangeContext(t.Context(), m, l.stream); err == nil {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("no place became free")
		}
	}
}

// TestRate: a flood of one Network is answered no faster than its limit.
func TestRate(t *testing.T) {
	limits := DefaultLimits()
	limits.Queries, limits.Burst = 50, 10
	l := newLive(t, twoNetworks(t), limits)
	since := time.Now()
	const questions = 35
	for range questions {
		l.query(t, "udp", "web.red.svc.cluster.local.")
	}
	if took, least := time.Since(since), time.Duration(questions-10-1)*time.Second/50; took < least {
		t.Errorf("%d questions took %v, want at least %v", questions, took, least)
	}
}

// TestNode: servers come, take over changes, move, and go with their metrics.
func TestNode(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	o := newOutside(t, nil)
	d := NewDirectory(domain, nil, testSettings())
	d.SetComplete()
	n := NewNode(Config{
		Directory: d, Resolvers: FixedResolvers([]netip.AddrPort{o.address}), Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	})
	defer n.Close()
	places := [2]Place{{Addresses: []netip.AddrPort{unused()}}, {Addresses: []netip.AddrPort{unused()}}}
	ask := func(at Place, name string) (*dns.Msg, error) {
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		out, _, err := (&dns.Client{Timeout: 10 * time.Second}).ExchangeContext(t.Context(), m, at.Addresses[0].String())
		return out, err
	}
	serve := func(network *model.Network, at Place) {
		t.Helper()
		if err := n.Serve(t.Context(), network.UID, network, at); err != nil {
			t.Fatal(err)
		}
	}
	red := vpc("red")
	serve(red, places[0])
	first := n.servers["uid-red"]
	serve(red, places[0])
	if m, err := ask(places[0], "www.example.com."); err != nil || m.Rcode != dns.RcodeNameError {
		t.Errorf("without a way out: %v, %v", m, err)
	}
	way := *red
	way.Egress = model.EgressNode
	serve(&way, places[0])
	if m, err := ask(places[0], "www.example.com."); err != nil || len(m.Answer) != 2 {
		t.Errorf("with a way out: %v, %v", m, err)
	}
	if n.servers["uid-red"] != first {
		t.Error("a change of the Network made the server anew")
	}
	serve(&way, places[1])
	if m, err := ask(places[1], "cluster.local."); err != nil || m.Rcode != dns.RcodeSuccess {
		t.Errorf("at its new place: %v, %v", m, err)
	}
	if _, err := ask(places[0], "cluster.local."); err == nil {
		t.Error("it still answers at its old place")
	}
	if err := n.Serve(t.Context(), "uid-blue", vpc("blue"), places[1]); err == nil {
		t.Error("two servers at the same place")
	}
	// A later Network of the same name takes its place, and is not stopped with it.
	later := way
	later.UID = "uid-later"
	serve(&later, places[1])
	n.Stop("uid-red")
	if m, err := ask(places[1], "cluster.local."); err != nil || m.Rcode != dns.RcodeSuccess {
		t.Errorf("the later Network: %v, %v", m, err)
	}
	n.Stop("uid-later")
	n.Stop("uid-later")
	if _, err := ask(places[1], "cluster.local."); err == nil {
		t.Error("it still answers")
	}
	if left, err := testutil.GatherAndCount(registry); err != nil || left != 0 {
		t.Errorf("%d series are left, %v", left, err)
	}
	if len(d.served) != 0 {
		t.Errorf("the directory still serves %v", d.served)
	}
}
