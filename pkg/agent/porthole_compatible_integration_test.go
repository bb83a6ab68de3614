//go:build integration

package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// peers are two nodes of one OVN. Each Network is on one of them, with one pod, and all pods have the same address and the same
// MAC address. OVN has no row that says who reaches whom: what is judged is judged by the nodes.
type peers struct {
	tb     testing.TB
	nodes  [2]*node
	agents [2]*Agent
	// pods are those of the Networks, and home their nodes, by Network.
	pods map[string]*testPod
	home map[string]int
}

// newPeers makes the Networks of each of two nodes.
func newPeers(tb testing.TB, first, second []string) *peers {
	tb.Helper()
	n := newNode(tb)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	given := []*model.Node{givenTo(n.name, 1), givenTo(other.name, 2)}
	given[0].Addresses, given[1].Addresses = []netip.Addr{netip.MustParseAddr(n.encapIP)}, []netip.Addr{netip.MustParseAddr(other.encapIP)}
	n.addDefault(given...)
	p := &peers{
		tb: tb, nodes: [2]*node{n, other}, agents: [2]*Agent{n.agent(), other.agent()}, pods: map[string]*testPod{}, home: map[string]int{},
	}
	var networks []*model.Network
	for i, names := range [][]string{first, second} {
		for _, name := range names {
			n.addNetwork(name, testSubnet, testSubnet6)
			networks = append(networks, vpc(name))
			p.home[name] = i
		}
	}
	for i, a := range p.agents {
		a.seesCluster(nil, given, networks...)
		must(tb, p.nodes[i].inside(func() error { return a.sweep(tb.Context()) }))
	}
	tb.Cleanup(func() { n.clearPortholes(p.agents[0]) })
	for i, names := range [][]string{first, second} {
		for face, name := range names {
			must(tb, p.nodes[i].inside(func() error {
				p.pods[name] = p.nodes[i].addGuest(p.agents[i], name, "pod", 5, 5+face)
				return nil
			}))
			serveSeen(tb, p.pods[name].inside, name)
		}
	}
	n.nbctl("--wait=hv", "sync")
	return p
}

// change has both agents see a Network otherwise.
func (p *peers) change(network string, do func(*model.Network)) {
	p.tb.Helper()
	for i, a := range p.agents {
		m := *a.world.Network(uidOf(network))
		do(&m)
		a.world.SetNetwork(&m)
		must(p.tb, p.nodes[i].inside(func() error { return a.portholes.Refresh(p.tb.Context(), portholes.Trusting) }))
	}
}

// serve makes a Network the provider of those consumers, and of no others.
func (p *peers) serve(provider string, consumers ...string) {
	p.tb.Helper()
	p.change(provider, func(m *model.Network) {
		m.CompatibleWith = nil
		for _, consumer := range consumers {
			m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Network: consumer})
		}
	})
}

// face is where a Network's pod is dialled.
func (p *peers) face(network string, family int) netip.Addr { return p.pods[network].nic.Faces[family] }

// serveSeen tells each client that comes to port 80, by TCP or UDP, who it is, and then sends back what it says, until the test ends.
func serveSeen(tb testing.TB, inside func(func() error) error, name string) {
	tb.Helper()
	var listener net.Listener
	var datagrams net.PacketConn
	must(tb, inside(func() (err error) {
		if listener, err = net.Listen("tcp", ":80"); err != nil {
			return err
		}
		datagrams, err = net.ListenPacket("udp", ":80")
		return err
	}))
	tb.Cleanup(func() { _, _ = listener.Close(), datagrams.Close() })
	go func() { // ends with the socket
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprintf(conn, "%s sees %s\n", name, conn.RemoteAddr())
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	go func() { // ends with the socket
		buffer := make([]byte, 2048)
		for {
			n, from, err := datagrams.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo(fmt.Appendf(nil, "%s sees %s\n%s", name, from, buffer[:n]), from)
		}
	}()
}

// dial opens a connection to port 80 of an address, from a port of the client's, 0 for any, and returns what it is told.
func dial(
	ctx context.Context, inside func(func() error) error, network string, to netip.Addr, from int,
) (conn net.Conn, told string, err error) {
	err = inside(func() (err error) {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: from}}
		if network == "udp" {
			dialer.LocalAddr = &net.UDPAddr{Port: from}
		}
		conn, err = dialer.DialContext(ctx, network, net.JoinHostPort(to.String(), "80"))
		return err
	})
	if err != nil {
		return nil, "", err
	}
	open := conn // What is returned may be none when the context ends.
	stop := context.AfterFunc(ctx, func() { _ = open.SetDeadline(time.Now()) })
	if network == "udp" {
		_, err = conn.Write([]byte("hello"))
	}
	if err == nil {
		told, err = bufio.NewReaderSize(conn, 128).ReadString('\n')
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, "", errors.Join(err, conn.Close())
	}
	return conn, strings.TrimSpace(told), nil
}

// echoes reports whether an address answers an echo request: each is another one, since what is alike is one connection.
func echoes(ctx context.Context, inside func(func() error) error, to netip.Addr) error {
	network, from, protocol, request, reply := "ip4:icmp", "0.0.0.0", 1, icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	if to.Is6() {
		network, from, protocol, request, reply = "ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	return inside(func() error {
		conn, err := net.ListenPacket(network, from)
		if err != nil {
			return err
		}
		defer conn.Close()
		question, err := (&icmp.Message{Type: request, Body: &icmp.Echo{ID: int(texts.Add(1)), Seq: 1, Data: []byte(to.String())}}).Marshal(nil)
		if err != nil {
			return err
		}
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
		if _, err := conn.WriteTo(question, &net.IPAddr{IP: to.AsSlice()}); err != nil {
			return err
		}
		buffer := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return err
			}
			if answer, err := icmp.ParseMessage(protocol, buffer[:n]); err == nil && answer.Type == reply && from.String() == to.String() {
				return nil
			}
		}
	})
}

// asks is what one learns who dials a pod's face by TCP, UDP and ICMP, of both families, all at once: who was reached, and as
// whom one was seen.
func (p *peers) asks(ctx context.Context, inside func(func() error) error, to string) (answers []string) {
	p.tb.Helper()
	all := make([]string, 6)
	var asking sync.WaitGroup
	for family := range 2 {
		for i, network := range []string{"tcp", "udp"} {
			asking.Go(func() {
				conn, told, err := dial(ctx, inside, network, p.face(to, family), 0)
				if err != nil {
					return
				}
				conn.Close()
				told = told[:strings.LastIndex(told, ":")]
				all[3*family+i] = network + " " + strings.NewReplacer("[", "", "]", "").Replace(told)
			})
		}
		asking.Go(func() {
			if echoes(ctx, inside, p.face(to, family)) == nil {
				all[3*family+2] = "icmp"
			}
		})
	}
	asking.Wait()
	return slices.DeleteFunc(all, func(answer string) bool { return answer == "" })
}

// wantReaches expects that a pod reaches another one by everything that asks tries, as its own face.
func (p *peers) wantReaches(from, to string) {
	p.tb.Helper()
	var want []string
	for family := range 2 {
		sees := fmt.Sprintf("%s sees %s", to, p.face(from, family))
		want = append(want, "tcp "+sees, "udp "+sees, "icmp")
	}
	if got := p.asks(wait.Context(p.tb, 3*time.Second), p.pods[from].inside, to); strings.Join(got, ", ") != strings.Join(want, ", ") {
		p.tb.Errorf("%s reaches %s by %q, want %q", from, to, got, want)
	}
}

// wantKeptFrom expects that it reaches it by nothing. The marker is the node that the pod is on, which may dial each face: it
// asks the same, after the pod, and goes as often through a porthole and through the tunnel.
func (p *peers) wantKeptFrom(from, to string) {
	p.tb.Helper()
	ctx, cancel := context.WithCancel(p.tb.Context())
	defer cancel()
	var asking sync.WaitGroup
	var answers [2][]string
	round := 0
	wait.Never(p.tb, from+" reaches "+to, wait.Attack{
		Send: func() {
			at := &answers[round]
			round++
			asking.Go(func() { *at = p.asks(ctx, p.pods[from].inside, to) })
		},
		Marker: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			if got := p.asks(ctx, p.nodes[p.home[from]].inside, to); len(got) != 6 {
				return fmt.Errorf("the node is answered by %q only", got)
			}
			return nil
		},
		Came: func() string {
			cancel()
			asking.Wait()
			return strings.Join(append(answers[0], answers[1]...), ", ")
		},
	})
}
