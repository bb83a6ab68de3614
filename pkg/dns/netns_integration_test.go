//go:build integration

package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// porthole is a network namespace of the test with the addresses that pods ask.
type porthole struct{ ns.NetNS }

func newPorthole(t testing.TB) porthole {
	t.Helper()
	made, err := testutils.NewNS()
	if err != nil {
		t.Fatalf("make a network namespace (as root): %v", err)
	}
	t.Cleanup(func() {
		_ = made.Close()
		_ = testutils.UnmountNS(made)
	})
	err = made.Do(func(ns.NetNS) error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, text := range []string{"10.96.0.10/32", "fd00:96::a/128"} {
			a, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			// Without duplicate detection an IPv6 address can be used at once.
			a.Flags = 0x02
			if err := netlink.AddrAdd(lo, a); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	return porthole{made}
}

func (p porthole) place() Place {
	return Place{
		Namespace: p.Path(), Addresses: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.10:53"), netip.MustParseAddrPort("[fd00:96::a]:53")},
	}
}

// ask asks from within, by UDP three times as a resolver does: on a machine that is busy the kernel may lose a datagram.
func (p porthole) ask(ctx context.Context, network, at, name string, kind uint16) (out *dns.Msg, err error) {
	failed := p.Do(func(ns.NetNS) error {
		m := new(dns.Msg)
		m.SetQuestion(name, kind)
		tries := 1
		if network == "udp" {
			tries = 3
		}
		for range tries {
			if out, _, err = (&dns.Client{Net: network, Timeout: 5 * time.Second}).ExchangeContext(ctx, m, at); !errors.Is(err,
				os.ErrDeadlineExceeded) {
				break
			}
		}
		return err
	})
	return out, failed
}

func newTestNode(t testing.TB, resolvers *Resolvers) (*Node, *Directory) {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d := NewDirectory(domain, []netip.Addr{addr("10.96.0.10"), addr("fd00:96::a")}, testSettings())
	n := NewNode(Config{Directory: d, Resolvers: resolvers, Metrics: metrics, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(n.Close)
	return n, d
}

// TestPortholes: two Networks have the same address for DNS in namespaces of their own, and each its own answers, by UDP
// and TCP, IPv4 and IPv6. Names outside are asked from the node's namespace. Nothing is left when the servers go.
func TestPortholes(t *testing.T) {
	o := newOutside(t, nil)
	n, d := newTestNode(t, FixedResolvers([]netip.AddrPort{o.address}))
	for i, network := range []string{"red", "blue"} {
		d.SetNamespace(namespaceIn(network, network))
		d.SetService(headless(network + "/db"))
		d.SetSlice(SliceKey{Namespace: network, Name: "db"}, slice(network+"/db", network, fmt.Sprintf("db-0=10.0.0.%d", 10+i)))
	}
	d.SetComplete()
	red, blue := vpc("red"), vpc("blue")
	red.Egress = model.EgressNode
	portholes := map[string]porthole{}
	for _, network := range []*model.Network{red, blue} {
		portholes[network.Name] = newPorthole(t)
		if err := n.Serve(t.Context(), network.UID, network, portholes[network.Name].place()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ network, name, want string }{
		{"red", "db-0.db.red.svc.cluster.local.", "NOERROR\ndb-0.db.red.svc.cluster.local. A 10.0.0.10"},
		{"red", "db-0.db.blue.svc.cluster.local.", "NXDOMAIN"},
		{"red", "www.example.com.", "NOERROR\nhost.example.com. A 192.0.2.53\nwww.example.com. CNAME host.example.com."},
		{"blue", "db-0.db.blue.svc.cluster.local.", "NOERROR\ndb-0.db.blue.svc.cluster.local. A 10.0.0.11"},
		{"blue", "db-0.db.red.svc.cluster.local.", "NXDOMAIN"},
		{"blue", "www.example.com.", "NXDOMAIN"},
	} {
		for _, at := range portholes[test.network].place().Addresses {
			for _, transport := range []string{"udp", "tcp"} {
				m, err := portholes[test.network].ask(t.Context(), transport, at.String(), test.name, dns.TypeA)
				if err != nil {
					t.Errorf("%s in %s by %s at %s: %v", test.name, test.network, transport, at, err)
				} else if got := answered(m); got != test.want {
					t.Errorf("%s in %s by %s at %s: %s; want %s", test.name, test.network, transport, at, got, test.want)
				}
			}
		}
	}
	// The porthole is made anew under its path: the server follows.
	again := newPorthole(t)
	if err := n.Serve(t.Context(), blue.UID, blue, again.place()); err != nil {
		t.Fatal(err)
	}
	if m, err := again.ask(t.Context(), "udp", "10.96.0.10:53", "cluster.local.", dns.TypeSOA); err != nil || len(m.Answer) != 1 {
		t.Errorf("in the porthole that was made anew: %v, %v", m, err)
	}
	n.Stop(red.UID)
	if _, err := portholes["red"].ask(t.Context(), "tcp", "10.96.0.10:53", "cluster.local.", dns.TypeSOA); err == nil {
		t.Error("a server that was stopped answers")
	}
}

// TestCostOfANetwork: what a hundred servers hold in the agent's memory, each with the names of a small tenant and after
// some use.
func TestCostOfANetwork(t *testing.T) {
	const networks, services, endpoints = 100, 10, 5
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	n, d := newTestNode(t, FixedResolvers(nil))
	var portholes []porthole
	for i := range networks {
		name := fmt.Sprintf("net-%d", i)
		d.SetNamespace(namespaceIn(name, name))
		for s := range services {
			service := fmt.Sprintf("%s/service-%d", name, s)
			d.SetService(clusterIP(service, fmt.Sprintf("10.96.%d.%d", i+1, s)))
			var at []string
			for e := range endpoints {
				at = append(at, fmt.Sprintf("host-%d=10.0.%d.%d", e, s, e+1))
			}
			d.SetSlice(SliceKey{Namespace: name, Name: fmt.Sprintf("service-%d-abcde", s)}, slice(service, name, at...))
		}
		p := newPorthole(t)
		portholes = append(portholes, p)
		if err := n.Serve(t.Context(), name, vpc(name), p.place()); err != nil {
			t.Fatal(err)
		}
	}
	d.SetComplete()
	for i, p := range portholes {
		m, err := p.ask(t.Context(), "udp", "10.96.0.10:53", fmt.Sprintf("service-1.net-%d.svc.cluster.local.", i), dns.TypeA)
		if err != nil || len(m.Answer) != 1 {
			t.Fatalf("Network %d: %v, %v", i, m, err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapInuse+after.StackInuse) - int64(before.HeapInuse+before.StackInuse)) / networks
	t.Logf("per Network: %d KiB of heap and stacks, %.1f goroutines", each>>10, float64(runtime.NumGoroutine()-goroutines)/networks)
	if each > 256<<10 {
		t.Errorf("a Network takes %d bytes", each)
	}
}

// TestFloodOfOne: while one Network floods its server, another is answered, and soon.
func TestFloodOfOne(t *testing.T) {
	n, d := newTestNode(t, FixedResolvers(nil))
	d.SetComplete()
	var at [2]porthole
	for i, name := range []string{"red", "blue"} {
		at[i] = newPorthole(t)
		if err := n.Serve(t.Context(), name, vpc(name), at[i].place()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var flooding sync.WaitGroup
	defer flooding.Wait()
	defer stop()
	m := new(dns.Msg)
	m.SetQuestion("kubernetes.default.svc.cluster.local.", dns.TypeANY)
	packet, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var conn net.Conn
	if err := at[0].Do(func(ns.NetNS) error {
		conn, err = (&net.Dialer{}).DialContext(ctx, "udp", "10.96.0.10:53")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	flooding.Go(func() {
		defer conn.Close()
		for ctx.Err() == nil {
			_, _ = conn.Write(packet)
		}
	})
	var worst time.Duration
	for range 200 {
		since := time.Now()
		if _, err := at[1].ask(t.Context(), "udp", "10.96.0.10:53", "cluster.local.", dns.TypeSOA); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, time.Since(since))
	}
	t.Logf("slowest of 200 answers beside a flood: %v", worst)
}
