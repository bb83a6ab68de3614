//go:build integration

package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/miekg/dns"
	"github.com/vishvananda/netlink"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/wait"
)

func uid(network string) types.UID { return types.UID("uid-of-" + network) }

// program is one that runs.
type program struct {
	client *call.Client
	stop   context.CancelFunc
	ended  chan error
}

// start starts a program and waits until it is ready.
func start(tb testing.TB, dir string, number int, api follow.Clients) *program {
	tb.Helper()
	config := Config{
		ResolvConf: "/etc/resolv.conf",
		Socket:     filepath.Join(dir, "dns.sock"), ProbeSocket: filepath.Join(dir, fmt.Sprintf("probe-%d.sock", number)),
	}
	config.Opener = openSockets(tb, filepath.Join(dir, fmt.Sprintf("portholes-%d.sock", number)))
	ctx, stop := context.WithCancel(tb.Context())
	p := &program{client: call.NewClient(config.ProbeSocket), stop: stop, ended: make(chan error, 1)}
	go func() { p.ended <- Run(ctx, config, api, slog.New(slog.NewTextHandler(testWriter{tb}, nil))) }()
	wait.Eventually(tb, wait.Patience, "the program", func(context.Context) error {
		select {
		case err := <-p.ended:
			tb.Fatalf("the program ended: %v", err)
		default:
		}
		return p.client.Ready(ctx)
	})
	return p
}

func (p *program) end(tb testing.TB) {
	tb.Helper()
	p.stop()
	must(tb, <-p.ended)
}

// TestPortholesAreFound: the program needs nobody to tell it where to answer, and follows whatever becomes of a porthole.
func TestPortholesAreFound(t *testing.T) {
	dir, api := t.TempDir(), cluster(t, "red", "blue")
	red := openPorthole(t, "red")
	p := start(t, dir, 0, api)
	defer p.end(t)
	client := &dns.Client{Timeout: time.Second}
	want := func(id porthole.ID, network, answer string) {
		t.Helper()
		for _, server := range testServers {
			// An address that was given anew may take a moment.
			wait.Eventually(t, wait.Patience, network, func(ctx context.Context) error {
				if got := askIn(ctx, id, network, client, server); !strings.Contains(got, answer) {
					return fmt.Errorf("at %s: %s, want %s", server, got, answer)
				}
				return nil
			})
		}
	}
	agent := call.NewClient(filepath.Join(dir, "dns.sock"))
	want(red, "red", "10.96.1.0")
	// The agent makes a porthole and asks for it.
	blue := openPorthole(t, "blue")
	must(t, agent.Serve(t.Context(), string(blue)))
	want(blue, "blue", "10.96.1.1")
	want(blue, "red", "NXDOMAIN")
	// A porthole that is made anew is another, whether the program was told or not.
	closePorthole(t, red)
	red = openPorthole(t, "red")
	must(t, agent.Serve(t.Context(), string(red)))
	want(red, "red", "10.96.1.0")
	// Nobody is to answer any more: the agent has taken the addresses away.
	must(t, ns.WithNetNSPath(red.NetnsPath(), func(ns.NetNS) error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range testServers {
			err = errors.Join(err, netlink.AddrDel(lo, onLoopback(a)))
		}
		return err
	}))
	must(t, agent.Look(t.Context()))
	must(t, ns.WithNetNSPath(red.NetnsPath(), func(ns.NetNS) error { return giveAddresses() }))
	want(red, "red", "connection refused")
	must(t, agent.Look(t.Context()))
	want(red, "red", "10.96.1.0")
	// It lets go of one that is to go, and of one whose Network has gone.
	must(t, agent.Leave(t.Context(), string(red)))
	want(red, "red", "connection refused")
	must(t, api.Networks.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Delete(t.Context(), "blue", metav1.DeleteOptions{}))
	wait.Eventually(t, wait.Patience, "a Network that has gone", func(ctx context.Context) error {
		if got := askIn(ctx, blue, "blue", client, testServers[0]); !strings.Contains(got, "refused") {
			return fmt.Errorf("it is answered: %s", got)
		}
		return nil
	})
	// Without its Network a porthole waits.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asking sync.WaitGroup
	var served atomic.Bool
	wait.Never(t, "the porthole of a Network that has gone is served", wait.Attack{
		Send: func() {
			asking.Go(func() {
				if agent.Serve(ctx, string(blue)) == nil {
					served.Store(true)
				}
			})
		},
		Marker: func(ctx context.Context) error { return agent.Serve(ctx, string(red)) },
		Came: func() string {
			cancel()
			asking.Wait()
			return map[bool]string{true: "it is served"}[served.Load()]
		},
	})
}

// TestHandover replaces the program again and again under load: no question is lost, by UDP or TCP, in either family, from new sockets
// or old ones.
func TestHandover(t *testing.T) {
	const turns = 12
	dir, api := t.TempDir(), cluster(t, "red")
	red := openPorthole(t, "red")
	now := start(t, dir, 0, api)
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var mu sync.Mutex
	answers, slowest := map[string]int{}, time.Duration(0)
	for _, transport := range []string{"udp", "tcp"} {
		for _, server := range testServers {
			for range 2 {
				asking.Go(func() {
					for ctx.Err() == nil {
						since := time.Now()
						// Whoever asks for the time that the handover takes is not cut off by the end of the test.
						got := askIn(context.WithoutCancel(ctx), red, "red", &dns.Client{Net: transport, Timeout: 2 * time.Second}, server)
						mu.Lock()
						answers[transport+" "+got]++
						slowest = max(slowest, time.Since(since))
						mu.Unlock()
					}
				})
			}
		}
	}
	asking.Go(func() { askFromOneSocket(ctx, t, red, testServers[0]) })
	for turn := range turns {
		next := start(t, dir, turn+1, api)
		now.end(t)
		now = next
		wait.Until(t, wait.Patience, "enough questions since the last replacement", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return answers["udp 10.96.1.0"] >= 100*(turn+1) && answers["tcp 10.96.1.0"] >= 50*(turn+1)
		})
	}
	stop()
	asking.Wait()
	now.end(t)
	t.Logf("%d replacements: %v, slowest %s", turns, answers, slowest)
	for got := range maps.Keys(answers) {
		if !strings.HasSuffix(got, " 10.96.1.0") {
			t.Errorf("%d times: %s", answers[got], got)
		}
	}
}

// askFromOneSocket asks from one port all the time.
func askFromOneSocket(ctx context.Context, t *testing.T, id porthole.ID, server netip.Addr) {
	var conn *dns.Conn
	err := ns.WithNetNSPath(id.NetnsPath(), func(ns.NetNS) (err error) {
		conn, err = dns.Dial("udp", netip.AddrPortFrom(server, sockets.Port).String())
		return err
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	client := &dns.Client{Timeout: 2 * time.Second}
	for ctx.Err() == nil {
		question := new(dns.Msg)
		question.SetQuestion("db.red.svc.cluster.local.", dns.TypeA)
		if m, _, err := client.ExchangeWithConnContext(context.WithoutCancel(ctx), question, conn); err != nil || len(m.Answer) != 1 {
			t.Errorf("from one socket: %v, %v", m, err)
		}
	}
}

// testWriter writes a program's log to the test's.
type testWriter struct{ tb testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.tb.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// TestSettingsChange: another domain comes into force while pods ask, by UDP and TCP. Each question has an answer, of the old
// domain or the new.
func TestSettingsChange(t *testing.T) {
	api := cluster(t, "red")
	red := openPorthole(t, "red")
	p := start(t, t.TempDir(), 0, api)
	defer p.end(t)
	asking, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, transport := range []string{"udp", "tcp"} {
		running.Go(func() {
			must(t, ns.WithNetNSPath(red.NetnsPath(), func(ns.NetNS) error {
				client := &dns.Client{Net: transport, Timeout: 2 * time.Second}
				for asking.Err() == nil {
					question := new(dns.Msg)
					question.SetQuestion("db.red.svc.cluster.local.", dns.TypeA)
					if _, _, err := client.ExchangeContext(t.Context(), question, net.JoinHostPort(testServers[0].String(), "53")); err != nil {
						t.Errorf("%s: %v", transport, err)
					}
				}
				return nil
			}))
		})
	}
	object := settings(t, testServers...)
	must(t, unstructured.SetNestedField(object.Object, "other.example", "spec", "dns", "domain"))
	status, _, err := unstructured.NestedMap(object.Object, "spec")
	must(t, err)
	must(t, unstructured.SetNestedMap(object.Object, status, "status", "active"))
	_, err = api.Networks.Resource(v1alpha1.SchemeGroupVersion.WithResource("atollconfigs")).Update(t.Context(), object,
		metav1.UpdateOptions{})
	must(t, err)
	wait.Eventually(t, wait.Patience, "the other domain", func(ctx context.Context) error {
		var got string
		must(t, ns.WithNetNSPath(red.NetnsPath(), func(ns.NetNS) error {
			question := new(dns.Msg)
			question.SetQuestion("db.red.svc.other.example.", dns.TypeA)
			reply, _, err := (&dns.Client{}).ExchangeContext(ctx, question, net.JoinHostPort(testServers[0].String(), "53"))
			if err == nil {
				got = dns.RcodeToString[reply.Rcode] + fmt.Sprint(len(reply.Answer))
			}
			return nil
		}))
		if got != "NOERROR1" {
			return errors.New(got)
		}
		return nil
	})
}
