//go:build integration

package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/wait"
)

// lookout is a node with its agent, which watches.
type lookout struct {
	*node
	agent *Agent
}

// proved sends a marked packet from a pod of the first node to an address while all nodes watch, and is where it is seen, by
// node, and what the pod is answered.
func proved(
	t *testing.T, on []lookout, from *testPod, protocol model.Protocol, port uint16, target netip.Addr, answers ...uint16,
) (map[string][]nodeapi.Point, ping.Reply) {
	t.Helper()
	mark, err := ping.NewMark()
	must(t, err)
	ctx, end := context.WithCancel(wait.Context(t, wait.Patience))
	defer end()
	for _, l := range on {
		l.appctl("revalidator/wait")
	}
	q := nodeapi.ObserveQuestion{
		User: "jo", Pod: from.asked(), Watch: observe.Watch{Protocol: protocol, Mark: mark, Targets: 1, Ports: answers, Time: observe.MaxTime},
	}
	var (
		mu     sync.Mutex
		seen   = map[string][]nodeapi.Point{}
		beats  = make([]wake.Signal, len(on))
		ending = make(chan error, len(on))
	)
	for i, l := range on {
		beats[i] = wake.NewSignal()
		go func() {
			ending <- l.inside(func() error {
				return l.agent.inquiry().Observe(ctx, q, func(line nodeapi.ObserveLine) error {
					mu.Lock()
					defer mu.Unlock()
					if line.Point != nil {
						seen[l.name] = append(seen[l.name], *line.Point)
						return nil
					}
					if line.Dropped > 0 {
						t.Errorf("on %s %d packets are dropped", l.name, line.Dropped)
					}
					beats[i].Send()
					return nil
				})
			})
		}()
	}
	await := func(count int) {
		for i := range on {
			for range count {
				select {
				case <-beats[i]:
				case <-ctx.Done():
					t.Fatalf("node %s does not watch", on[i].name)
				}
			}
		}
	}
	await(1)
	var reply ping.Reply
	spec := ping.Spec{
		Protocol: protocol, Port: port, Targets: []netip.Addr{target}, Count: 1, Size: 56, Interval: time.Second, Timeout: 2 * time.Second,
		Mark: &mark,
	}
	must(t, on[0].agent.inquiry().Ping(ctx, from.asked(), spec, func(r ping.Reply) { reply = r }))
	await(3)
	end()
	for range on {
		if err := <-ending; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	return seen, reply
}

// shorthand are points in words: there or back, what of whom, and which way, each once. Interfaces beneath a tunnel are all called tunnel.
func shorthand(points []nodeapi.Point) (out []string) {
	for _, p := range points {
		way, direction := "there", "in"
		if p.Answer {
			way = "back"
		}
		if p.Refusal {
			way = "refused"
		}
		if p.Out {
			direction = "out"
		}
		what := string(p.Kind)
		switch {
		case p.Tunnel.To.IsValid(), p.Kind == nodeapi.KindTunnel:
			what = "tunnel"
		case p.Kind == nodeapi.KindPod:
			what = p.Pod.Name
		}
		if text := fmt.Sprintf("%s %s %s", way, what, direction); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

func wantPoints(t *testing.T, what string, got []nodeapi.Point, want ...string) {
	t.Helper()
	if said := shorthand(got); !slices.Equal(said, want) {
		t.Errorf("%s: it is seen\n  %s\nwant\n  %s", what, strings.Join(said, "\n  "), strings.Join(want, "\n  "))
	}
}

// routed gives a switch a router, which is the pods' gateway, and so a load balancer a way.
func (n *node) routed(network string) {
	n.tb.Helper()
	n.nbctl("lr-add", "router", "--", "lrp-add", "router", "router-red", "0a:58:0a:00:00:01", "10.0.0.1/16", "fd00:10::1/64",
		"--", "lsp-add", network, "red-router", "--", "lsp-set-type", "red-router", "router", "--", "lsp-set-addresses", "red-router", "router",
		"--", "lsp-set-options", "red-router", "router-port=router-red")
}

// TestMarkedPacketsAreSeenOnTheirWay: where a packet is that a pod sends, and its answer, with real packets in a real OVN: on one
// node and between two, by each protocol; by a load balancer, whose addresses become others; last at the sender's link where a
// policy drops it; and no packet that is forged without the mark.
func TestMarkedPacketsAreSeenOnTheirWay(t *testing.T) {
	n := newNode(t)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	a, b := n.agent(), other.agent()
	on := []lookout{{n, a}, {other, b}}
	one, near, far := newPod(t, a, "one", 5), newPod(t, a, "near", 6), newPod(t, b, "far", 7)
	for _, p := range []struct {
		*testPod
		on *node
		a  *Agent
	}{{one, n, a}, {near, n, a}, {far, other, b}} {
		p.on.addLogicalPort("red", p.testPod)
		must(t, p.on.inside(func() error { _, err := p.a.Add(t.Context(), p.request); return err }))
	}
	a.pods.setSynced()
	b.pods.setSynced()
	for _, p := range []*testPod{near, far} {
		answering(t, p, 7777)
		await(t, func() *bool {
			if talk(t, one, p) != nil {
				return nil
			}
			return new(bool)
		})
	}
	ports := map[model.Protocol]uint16{model.TCP: 7777, model.UDP: 7777, ping.ICMP: 0}
	answersOf := func(port uint16) []uint16 {
		if port == 0 {
			return nil
		}
		return []uint16{port}
	}
	for protocol, port := range ports {
		for _, family := range []int{0, 1} {
			what := fmt.Sprintf("%s to %s", protocol, near.nic.Addresses[family])
			seen, reply := proved(t, on, one, protocol, port, near.nic.Addresses[family].Addr(), answersOf(port)...)
			wantPoints(t, what, seen["node1"], "there one in", "there near out", "back near in", "back one out")
			wantPoints(t, what+", on the other node", seen["node2"])
			if !reply.Answered {
				t.Errorf("%s: %+v", what, reply)
			}
			what = fmt.Sprintf("%s to %s", protocol, far.nic.Addresses[family])
			seen, reply = proved(t, on, one, protocol, port, far.nic.Addresses[family].Addr(), answersOf(port)...)
			if !reply.Answered {
				t.Errorf("%s: %+v", what, reply)
			}
			wantAround(t, what, seen["node1"], "there one in", "there tunnel out", "back tunnel in", "back one out")
			wantAround(t, what, seen["node2"], "there tunnel in", "there far out", "back far in", "back tunnel out")
			for _, p := range seen["node2"] {
				if ends := []netip.Addr{p.Tunnel.From, p.Tunnel.To}; p.Tunnel.To.IsValid() &&
					(!slices.Contains(ends, netip.MustParseAddr(n.encapIP)) || !slices.Contains(ends, netip.MustParseAddr(other.encapIP))) {
					t.Errorf("%s: it is in the tunnel %+v", what, p.Tunnel)
				}
				if p.Kind == nodeapi.KindPod && p.Pod != far.asked() {
					t.Errorf("%s: the link is of %+v", what, p.Pod)
				}
			}
		}
	}

	// Where nobody listens, the pod refuses, which is seen from its link on.
	seen, reply := proved(t, on, one, model.TCP, 7, near.nic.Addresses[0].Addr())
	wantPoints(t, "a port that is shut", seen["node1"], "there one in", "there near out", "refused near in", "refused one out")
	if reply.Answered {
		t.Errorf("a port that is shut: %+v", reply)
	}

	// A load balancer.
	n.routed("red")
	vip := netip.MustParseAddr("172.16.0.1")
	for _, protocol := range []string{"tcp", "udp"} {
		n.nbctl("lb-add", "lb-"+protocol, "172.16.0.1:80", far.address()+":7777", protocol, "--", "ls-lb-add", "red", "lb-"+protocol)
	}
	n.nbctl("--wait=hv", "sync")
	for _, protocol := range []model.Protocol{model.TCP, model.UDP} {
		what := fmt.Sprintf("%s by a load balancer", protocol)
		var seen map[string][]nodeapi.Point
		// The first packet waits for the router's neighbours.
		await(t, func() *bool {
			var reply ping.Reply
			if seen, reply = proved(t, on, one, protocol, 80, vip, 80, 7777); !reply.Answered {
				return nil
			}
			return new(bool)
		})
		wantAround(t, what, seen["node1"], "there one in", "there tunnel out", "back tunnel in", "back one out")
		wantAround(t, what, seen["node2"], "there tunnel in", "there far out", "back far in", "back tunnel out")
		for _, p := range slices.Concat(seen["node1"], seen["node2"]) {
			end := p.To
			if p.Answer {
				end = p.From
			}
			want := netip.AddrPortFrom(far.nic.Addresses[0].Addr(), 7777)
			if p.Kind == nodeapi.KindPod && p.Pod == one.asked() {
				want = netip.AddrPortFrom(vip, 80)
			}
			if end != want {
				t.Errorf("%s: at %s it is for %s, want %s", what, p.Interface, end, want)
			}
		}
	}

	// A policy of the receiver's drops it: before the tunnel or beyond, but it does not get to the pod.
	n.nbctl("--wait=hv", "acl-add", "red", "to-lport", "1001", fmt.Sprintf(`outport == "%s" && ip`, near.request.Pod.Key()), "drop")
	for protocol, port := range ports {
		seen, reply := proved(t, on, one, protocol, port, near.nic.Addresses[0].Addr(), answersOf(port)...)
		wantPoints(t, fmt.Sprintf("%s, dropped", protocol), seen["node1"], "there one in")
		if reply.Answered {
			t.Errorf("%s, dropped: %+v", protocol, reply)
		}
	}
}

// wantAround is wantPoints, but between two nodes both see the same at more interfaces than one: each is told once, and which of
// two comes first is not looked at beneath the tunnel.
func wantAround(t *testing.T, what string, got []nodeapi.Point, want ...string) {
	t.Helper()
	said := shorthand(got)
	// With the userspace datapath the kernel hands the node's own stack a copy of what comes in tunnels, on its bridge.
	said = slices.DeleteFunc(said, func(s string) bool { return strings.HasSuffix(s, "tunnel in") || strings.HasSuffix(s, "tunnel out") })
	want, tunnels := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.Contains(s, " tunnel ") }),
		slices.DeleteFunc(slices.Clone(want), func(s string) bool { return !strings.Contains(s, " tunnel ") })
	if !slices.Equal(said, want) {
		t.Errorf("%s: it is seen %v, want %v", what, shorthand(got), want)
	}
	for _, w := range tunnels {
		if !slices.Contains(shorthand(got), w) {
			t.Errorf("%s: it is not seen %s: %v", what, w, shorthand(got))
		}
	}
}

// answering has a pod answer at a port, by TCP and UDP.
func answering(t *testing.T, p *testPod, port int) {
	t.Helper()
	must(t, p.inside(func() error {
		listener, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_ = conn.Close()
			}
		}()
		echo, err := net.ListenPacket("udp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = echo.Close() })
		go func() {
			for buffer := make([]byte, 2000); ; {
				_, from, err := echo.ReadFrom(buffer)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = echo.WriteTo([]byte("x"), from)
				}
			}
		}()
		return nil
	}))
}

// TestForgedPacketsAreNotSeen: packets of the same pod, to the same address and port, at the same time, without the mark are not
// told of, nor is what claims another's address with a mark of its own. The control: with the mark they are.
func TestForgedPacketsAreNotSeen(t *testing.T) {
	_, a, one, two := newPair(t)
	a.pods.setSynced()
	must(t, talk(t, one, two))
	mark, err := ping.NewMark()
	must(t, err)
	other, err := ping.NewMark()
	must(t, err)
	watch := func(protocol model.Protocol, send func()) (seen []nodeapi.Point) {
		t.Helper()
		q := nodeapi.ObserveQuestion{
			User: "jo", Pod: one.asked(), Watch: observe.Watch{Protocol: protocol, Mark: mark, Targets: 1, Time: 3 * time.Second},
		}
		beats := 0
		err := a.inquiry().Observe(t.Context(), q, func(line nodeapi.ObserveLine) error {
			switch {
			case line.Point != nil:
				seen = append(seen, *line.Point)
			case beats == 0:
				beats++
				send()
			default:
				if beats++; beats == 5 {
					return errDone
				}
			}
			return nil
		})
		if !errors.Is(err, errDone) {
			t.Fatal(err)
		}
		return seen
	}
	datagram := func(payload []byte) func() { return func() { one.says(t, two, string(payload)) } }
	syn := func(sequence uint32) func() {
		return func() {
			must(t, one.inside(func() error {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
				if err != nil {
					return err
				}
				defer func() { _ = unix.Close(fd) }()
				header := make([]byte, 20)
				binary.BigEndian.PutUint16(header, 4242)
				binary.BigEndian.PutUint16(header[2:], 7777)
				binary.BigEndian.PutUint32(header[4:], sequence)
				header[12], header[13] = 5<<4, 2
				return unix.Sendto(fd, header, 0, &unix.SockaddrInet4{Addr: two.nic.Addresses[0].Addr().As4()})
			}))
		}
	}
	for name, c := range map[string]struct {
		protocol model.Protocol
		forged   func()
		marked   func()
	}{
		"datagrams":   {model.UDP, datagram(other.Payload(0)), datagram(mark.Payload(0))},
		"connections": {model.TCP, syn(other.Sequence(0)), syn(mark.Sequence(0))},
	} {
		if seen := watch(c.protocol, c.forged); len(seen) != 0 {
			t.Errorf("%s without the mark are seen: %+v", name, seen)
		}
		if seen := watch(c.protocol, c.marked); len(seen) == 0 {
			t.Errorf("the control: %s with the mark are not seen", name)
		}
	}
}

var errDone = errors.New("that was all")
