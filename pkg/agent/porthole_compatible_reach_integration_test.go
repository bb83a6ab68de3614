//go:build integration

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/wait"
)

// TestConsumersReachProvidersByTheirFaces: one and two are consumers of near, on their node, and of far, on another; away, on
// that, is one of near. Nobody else reaches anybody, nor any of these a provider's consumer. Without the rules everybody reaches
// everybody.
func TestConsumersReachProvidersByTheirFaces(t *testing.T) {
	p := newPeers(t, []string{"near", "one", "two", "stranger"}, []string{"far", "away"})
	everybody := func(check func(from, to string, reaches bool)) {
		reaches := map[string]bool{"one near": true, "two near": true, "away near": true, "one far": true, "two far": true}
		var all sync.WaitGroup
		for from := range p.pods {
			all.Go(func() {
				for to := range p.pods {
					if from != to {
						check(from, to, reaches[from+" "+to])
					}
				}
			})
		}
		all.Wait()
	}
	everybody(func(from, to string, _ bool) { p.wantKeptFrom(from, to) })
	p.serve("near", "one", "two", "away")
	p.serve("far", "one", "two")
	judged := func(from, to string, reaches bool) {
		if reaches {
			p.wantReaches(from, to)
		} else {
			p.wantKeptFrom(from, to)
		}
	}
	everybody(judged)
	// The node's own table alone judges the same.
	for network := range p.pods {
		p.openPorthole(network)
	}
	everybody(judged)
	for i := range p.nodes {
		p.openNode(i)
	}
	everybody(func(from, to string, _ bool) { p.wantReaches(from, to) })
}

// openPorthole has a porthole let through whatever comes.
func (p *peers) openPorthole(network string) {
	p.tb.Helper()
	door := porthole.IDOf(uidOf(network)).Name()
	for _, chain := range []string{"in", "out"} {
		without(p.tb, wall{door, "flush chain inet atoll " + chain}, wall{door, "add rule inet atoll " + chain + " accept"})
	}
}

// openNode has a node let through whatever comes from portholes and to them.
func (p *peers) openNode(number int) {
	p.tb.Helper()
	must(p.tb, p.nodes[number].inside(func() error {
		for _, chain := range []string{"from-porthole", "to-porthole"} {
			if out, err := exec.Command("nft", "flush", "chain", "inet", "atoll", chain).CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
		}
		return nil
	}))
}

// TestNobodyReachesAProviderOfHisProvider: on one node both portholes are looked at.
func TestNobodyReachesAProviderOfHisProvider(t *testing.T) {
	p := newPeers(t, []string{"first", "second", "third"}, nil)
	p.serve("second", "first")
	p.serve("third", "second")
	for _, reach := range [][2]string{{"first", "second"}, {"second", "third"}} {
		p.wantReaches(reach[0], reach[1])
		p.wantKeptFrom(reach[1], reach[0])
	}
	p.wantKeptFrom("first", "third")
	p.wantKeptFrom("third", "first")
	// The control: by itself it does.
	p.serve("third", "first", "second")
	p.wantReaches("first", "third")
}

// TestConsumersOfOneAddressAndPort: two pods of one address dial a provider from one port at the same time, and it tells them apart.
func TestConsumersOfOneAddressAndPort(t *testing.T) {
	p := newPeers(t, []string{"near", "one", "two"}, []string{"far"})
	p.serve("near", "one", "two")
	p.serve("far", "one", "two")
	port := 4711
	for _, network := range []string{"tcp", "udp"} {
		for _, provider := range []string{"near", "far"} {
			for family := range 2 {
				// Whoever ends a connection keeps its port for a while.
				port++
				open := map[string]net.Conn{}
				for _, consumer := range []string{"one", "two"} {
					conn, told, err := dial(wait.Context(t, 3*time.Second), p.pods[consumer].inside, network, p.face(provider, family), port)
					must(t, err)
					defer conn.Close()
					if want := fmt.Sprintf("%s sees %s", provider, netip.AddrPortFrom(p.face(consumer, family), uint16(port))); told != want {
						t.Errorf("%s is told %q, want %q", consumer, told, want)
					}
					open[consumer] = conn
				}
				for consumer, conn := range open {
					if err := says(conn, consumer); err != nil {
						t.Errorf("%s to %s by %s, with another one's connection open: %v", consumer, provider, network, err)
					}
					conn.Close()
				}
			}
		}
	}
}

// says sends a text, and expects it back.
func says(conn net.Conn, text string) error {
	defer wait.Limit(conn, 3*time.Second)()
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	buffer := make([]byte, 2048)
	n, err := conn.Read(buffer)
	if err == nil && !bytes.HasSuffix(buffer[:n], []byte(text)) {
		return fmt.Errorf("%q came back", buffer[:n])
	}
	return err
}

// TestConsumersReachServices: what a load balancer in the consumer's switch makes of an address are faces, on its node and on
// another. A stranger with the same load balancer reaches none.
func TestConsumersReachServices(t *testing.T) {
	p := newPeers(t, []string{"near", "one", "stranger"}, []string{"far"})
	p.serve("near", "one")
	p.serve("far", "one")
	addresses := []netip.Addr{netip.MustParseAddr("10.97.0.10"), netip.MustParseAddr("fd00:97::a")}
	for family, address := range addresses {
		for _, protocol := range []string{"tcp", "udp"} {
			name := fmt.Sprint("offered-", protocol, family)
			endpoint := func(provider string) string { return netip.AddrPortFrom(p.face(provider, family), 80).String() }
			p.nodes[0].nbctl("lb-add", name, netip.AddrPortFrom(address, 80).String(), endpoint("near")+","+endpoint("far"), protocol,
				"--", "ls-lb-add", "one", name, "--", "ls-lb-add", "stranger", name)
		}
	}
	p.nodes[0].nbctl("--wait=hv", "sync")
	for family, address := range addresses {
		for _, network := range []string{"tcp", "udp"} {
			reached := map[string]bool{}
			for range 20 {
				conn, told, err := dial(wait.Context(t, 3*time.Second), p.pods["one"].inside, network, address, 0)
				must(t, err)
				if err := says(conn, "again"); err != nil {
					t.Errorf("%s %s: %v", network, address, err)
				}
				conn.Close()
				reached[told[:strings.LastIndex(told, ":")]] = true
			}
			sees := " sees " + strings.TrimSuffix(netip.AddrPortFrom(p.face("one", family), 0).String(), ":0")
			if len(reached) != 2 || !reached["near"+sees] || !reached["far"+sees] {
				t.Errorf("%s %s reaches %v", network, address, reached)
			}
			p.wantServiceKept(network, address)
		}
	}
}

// wantServiceKept expects that a stranger is not led to a Service's endpoints. The marker is a consumer with the same load
// balancer, which dials after the stranger, as often as there are endpoints and more.
func (p *peers) wantServiceKept(network string, address netip.Addr) {
	p.tb.Helper()
	ctx, cancel := context.WithCancel(p.tb.Context())
	defer cancel()
	var asking sync.WaitGroup
	told := make(chan string, 10)
	wait.Never(p.tb, fmt.Sprintf("a stranger reaches %s by %s", address, network), wait.Attack{
		Send: func() {
			asking.Go(func() {
				if conn, who, err := dial(ctx, p.pods["stranger"].inside, network, address, 0); err == nil {
					conn.Close()
					told <- who
				}
			})
		},
		Marker: func(ctx context.Context) error {
			for range 4 {
				ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
				conn, _, err := dial(ctx, p.pods["one"].inside, network, address, 0)
				cancel()
				if err != nil {
					return err
				}
				conn.Close()
			}
			return nil
		},
		Came: func() string {
			cancel()
			asking.Wait()
			select {
			case who := <-told:
				return who
			default:
				return ""
			}
		},
	})
}

// TestErrorsBetweenFaces: who dials a port at which nobody listens is told, and who sends what is too large for a link on the way
// learns of it.
func TestErrorsBetweenFaces(t *testing.T) {
	p := newPeers(t, []string{"near", "one"}, []string{"far"})
	p.serve("near", "one")
	p.serve("far", "one")
	for _, provider := range []string{"near", "far"} {
		for family := range 2 {
			// The first packet into a new tunnel may be lost, and nobody repeats a datagram: TCP goes first.
			conn, _, err := dial(wait.Context(t, 3*time.Second), p.pods["one"].inside, "tcp", p.face(provider, family), 0)
			must(t, err)
			conn.Close()
			err = p.pods["one"].inside(func() error {
				conn, err := net.Dial("udp", net.JoinHostPort(p.face(provider, family).String(), "9"))
				if err != nil {
					return err
				}
				defer conn.Close()
				defer wait.Limit(conn, 3*time.Second)()
				if _, err := conn.Write([]byte("anybody?")); err != nil {
					return err
				}
				_, err = conn.Read(make([]byte, 1))
				return err
			})
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("family %d of %s: %v, want a refusal", family, provider, err)
			}
		}
		// The node tells the consumer's pod, and the porthole the provider's.
		id := porthole.IDOf(uidOf(provider))
		must(t, p.nodes[p.home[provider]].inside(func() error { return narrow(id.HostLink()) }))
		must(t, ns.WithNetNSPath(id.NetnsPath(), func(ns.NetNS) error { return narrow("host0") }))
		for family := range 2 {
			conn, _, err := dial(wait.Context(t, 3*time.Second), p.pods["one"].inside, "tcp", p.face(provider, family), 0)
			must(t, err)
			defer conn.Close()
			if err := transfer(conn); err != nil {
				t.Errorf("much to family %d of %s, over a link with a smaller MTU: %v", family, provider, err)
			}
		}
	}
}

// narrow gives a link of the calling thread's namespace a smaller MTU.
func narrow(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	return netlink.LinkSetMTU(link, 1300)
}

// TestProviderWithTheConsumersAddress: a provider that would look for its client among its own serves nobody.
func TestProviderWithTheConsumersAddress(t *testing.T) {
	p := newPeers(t, []string{"near", "one"}, nil)
	p.serve("near", "one")
	p.wantReaches("one", "near")
	p.change("near", func(m *model.Network) {
		m.Subnets = append(m.Subnets[:1:1], model.Subnet{Name: "b", CIDRs: []netip.Prefix{netip.MustParsePrefix("100.64.1.0/24")}})
	})
	if conn, told, err := dial(wait.Context(t, 3*time.Second), p.pods["one"].inside, "tcp", p.face("near", 0), 4711); err == nil {
		conn.Close()
		t.Errorf("told %q", told)
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
}
