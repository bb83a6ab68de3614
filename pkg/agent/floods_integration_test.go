//go:build integration

package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/wait"
)

// testBounds are the agent's unless it is told otherwise.
func testBounds() netdev.Bounds { return netdev.Bounds{Broadcasts: 200, Requests: 500} }

// flood has a pod send a frame again and again, as fast as it can until stop is called.
func (p *testPod) flood(raw []byte) (stop func()) {
	p.tb.Helper()
	var end atomic.Bool
	var sender sync.WaitGroup
	socket := p.rawSocket()
	sender.Go(func() {
		for !end.Load() {
			// What is dropped is an error, sometimes.
			_, _ = unix.Write(socket, raw)
		}
	})
	return func() {
		end.Store(true)
		sender.Wait()
		must(p.tb, unix.Close(socket))
	}
}

// rawSocket sends frames by a pod's interface.
func (p *testPod) rawSocket() (socket int) {
	p.tb.Helper()
	must(p.tb, p.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
	}))
	return socket
}

// owner is for whom the pod's interface was made.
func (p *testPod) owner() netdev.Owner {
	return netdev.Owner{ContainerID: p.request.ContainerID, Interface: p.request.Interface, PodUID: p.request.Pod.UID, Netns: p.request.Netns}
}

// bound has an agent bound all interfaces anew.
func (n *node) bound(a *Agent, to netdev.Bounds) {
	n.tb.Helper()
	a.bounds.wanted = to
	must(n.tb, a.lookAtBounds(n.tb.Context()))
}

// judged is what the bounds of a pod's interface are, and what they dropped.
func (n *node) judged(a *Agent, p *testPod) netdev.Bounded {
	n.tb.Helper()
	at := n.at(a, p)
	all, err := netdev.ReadBounds(at.Netns)
	must(n.tb, err)
	return all[at.Device]
}

// answered is how many questions by UDP, one after the other, another pod answers within a time.
func answered(t *testing.T, from, to *testPod, window time.Duration) (count int) {
	t.Helper()
	var client net.Conn
	var listener net.PacketConn
	must(t, to.inside(func() (err error) {
		listener, err = net.ListenPacket("udp", to.address()+":7")
		return err
	}))
	defer listener.Close()
	go func() {
		buffer := make([]byte, 64)
		for {
			n, peer, err := listener.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = listener.WriteTo(buffer[:n], peer)
		}
	}()
	must(t, from.inside(func() (err error) {
		client, err = net.Dial("udp", to.address()+":7")
		return err
	}))
	defer client.Close()
	buffer := make([]byte, 64)
	for i, until := 0, time.Now().Add(window); time.Now().Before(until); i++ {
		question := fmt.Sprint(i)
		_, _ = client.Write([]byte(question))
		must(t, client.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		for {
			n, err := client.Read(buffer)
			if err != nil {
				break
			}
			if string(buffer[:n]) == question {
				count++
				break
			}
		}
	}
	return count
}

// question is an ARP request for an address that nobody has, followed by a text.
func question(to net.HardwareAddr, from frames.End, text string) []byte {
	out := frames.ARPReply(to, from.MAC, from.MAC, from.V4, netip.MustParseAddr("10.0.77.77"), text)
	const operation = 14 + 7
	out[operation] = 1
	return out
}

// expire gives a frame with a packet of IPv4 another time to live.
func expire(raw []byte, ttl byte) {
	header := raw[14:34]
	header[8], header[10], header[11] = ttl, 0, 0
	binary.BigEndian.PutUint16(header[10:], frames.Checksum(header))
}

// counter counts the frames with a text that come to a pod's interface, until it is asked and none comes any more.
func (p *testPod) counter(text string) func() int {
	p.tb.Helper()
	frames := p.inbox()
	return func() (count int) {
		for {
			frame, ok := frames.next(300 * time.Millisecond)
			switch {
			case !ok:
				return count
			case strings.Contains(frame, text):
				count++
			}
		}
	}
}

// at is where a pod is bounded.
func (n *node) at(a *Agent, p *testPod) netdev.Post {
	n.tb.Helper()
	userspace, err := a.ovs.Userspace(n.tb.Context())
	must(n.tb, err)
	return post(userspace, p.owner())
}

// timeExceeded is the ICMP message about a packet whose time to live is at its end. (RFC 792)
const timeExceeded = 11

// expired is how many of some packets that a router must not forward it tells a pod of, one after the other. Each is made by
// ovn-controller.
func expired(t *testing.T, from *testPod, target string, questions int) (count int) {
	t.Helper()
	var answers net.PacketConn
	var client net.Conn
	must(t, from.inside(func() (err error) {
		if answers, err = net.ListenPacket("ip4:icmp", "0.0.0.0"); err != nil {
			return err
		}
		dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (failed error) {
			err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TTL, 1) })
			return errors.Join(err, failed)
		}}
		client, err = dialer.Dial("udp4", target+":9")
		return err
	}))
	defer answers.Close()
	defer client.Close()
	buffer := make([]byte, 1500)
	for range questions {
		// What is told of one before is an error of this one.
		_, _ = client.Write([]byte("question"))
		stop := wait.Limit(answers, 300*time.Millisecond)
		n, _, err := answers.ReadFrom(buffer)
		stop()
		if err == nil && n > 0 && buffer[0] == timeExceeded {
			count++
		}
	}
	return count
}

// burst has a pod send 1,000 frames, no more at a time than everybody on the way has room for, and gives how many came to another
// pod in how many seconds, begun ones included.
func (p *testPod) burst(to *testPod, raw []byte, pastQueues int) (seconds, arrived int) {
	p.tb.Helper()
	begun, counted, socket := time.Now(), to.counter("marked"), p.rawSocket()
	defer unix.Close(socket)
	must(p.tb, unix.SetsockoptInt(socket, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, pastQueues))
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for range 20 {
		for range 50 {
			// What is dropped is an error, sometimes.
			_, _ = unix.Write(socket, raw)
		}
		<-pause.C
	}
	arrived = counted()
	return int(time.Since(begun)/time.Second) + 1, arrived
}

// TestWhatAPodSendsIsBounded: of more than a pod may send no more arrives at its neighbour, whatever it is too much of, and all of it
// without the bound. Its owner is told, and all is counted. What an ordinary pod sends at once when it starts is not too much.
func TestWhatAPodSendsIsBounded(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	attacker, neighbour := n.addGuest(a, "red", "attacker", 5, 5), n.addGuest(a, "red", "neighbour", 6, 7)
	api := kubefake.NewClientset()
	a.teller = newTeller(testNode, api.CoreV1(), a.log)
	own, its := attacker.end(), neighbour.end()
	to := func(protocol byte, payload []byte) []byte {
		return frames.V4{From: own.MAC, To: its.MAC, Source: own.V4, Target: its.V4, Protocol: protocol, Payload: payload}.Bytes()
	}
	hidden := frames.V6{
		From: own.MAC, To: its.MAC, Source: own.V6, Target: its.V6, Payload: frames.Options(unix.IPPROTO_ICMPV6, frames.ICMP(129, "marked")),
	}.Bytes()
	last := to(unix.IPPROTO_UDP, frames.UDP(9, 9, "marked"))
	expire(last, 1)
	bounded, rates := netdev.Bounds{Broadcasts: 20, Requests: 40}, map[netdev.Bound]int{
		netdev.BoundBroadcasts: 20, netdev.BoundRequests: 40, netdev.BoundPackets: 100,
	}
	for _, flood := range []struct {
		name  string
		which netdev.Bound
		frame []byte
		// past the queues of the pod's own network stack. (packet(7), PACKET_QDISC_BYPASS)
		past int
	}{
		{"ARP to all", netdev.BoundBroadcasts, question(frames.Everybody(), own, "marked"), 0},
		{"ARP to one", netdev.BoundRequests, question(its.MAC, own, "marked"), 0},
		{"ICMP", netdev.BoundRequests, to(unix.IPPROTO_ICMP, frames.ICMP(0, "marked")), 0},
		{"ICMPv6 behind options", netdev.BoundRequests, hidden, 0},
		{"the end of its time to live", netdev.BoundRequests, last, 0},
		{"UDP", netdev.BoundPackets, to(unix.IPPROTO_UDP, frames.UDP(9, 9, "marked")), 0},
		{"UDP past queues", netdev.BoundPackets, to(unix.IPPROTO_UDP, frames.UDP(9, 9, "marked")), 1},
	} {
		t.Run(flood.name, func(t *testing.T) {
			burst := func() (seconds, arrived int) {
				return attacker.burst(neighbour, flood.frame, flood.past)
			}
			to := bounded
			if flood.which == netdev.BoundPackets {
				to.Packets = uint32(rates[flood.which])
			}
			n.bound(a, to)
			seconds, arrived := burst()
			dropped := n.judged(a, attacker).Dropped[flood.which]
			// A burst of five seconds' number is the most that any bound allows.
			if most := rates[flood.which] * (seconds + 5); arrived > most || arrived == 0 || dropped == 0 {
				t.Errorf("%d arrived in %d s and %d were dropped, want %d at most", arrived, seconds, dropped, most)
			}
			must(t, a.lookAtBounds(t.Context()))
			if counted := testutil.ToFloat64(a.metrics.dropped.WithLabelValues(string(flood.which))); counted == 0 {
				t.Error("the agent has not counted what was dropped")
			}
			n.bound(a, netdev.Bounds{})
			if _, all := burst(); all <= 2*arrived {
				t.Errorf("without the bound %d arrived, with it %d: this test shows nothing", all, arrived)
			}
		})
	}
	// With the userspace datapath the node's end is no place for it.
	if n.at(a, attacker).Netns != "" {
		n.bound(a, netdev.Bounds{})
		must(t, netdev.NodePost(attacker.owner()).Set(bounded))
		if _, arrived := attacker.burst(neighbour, question(frames.Everybody(), own, "marked"), 0); arrived <= 240 {
			t.Errorf("bounded at the node's end, only %d frames arrived", arrived)
		}
	}
	events, err := api.CoreV1().Events("red").List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(events.Items) != 1 || events.Items[0].Reason != model.ReasonPacketsDropped || events.Items[0].InvolvedObject.Name != "attacker" {
		t.Errorf("the pod was told %v", events.Items)
	}
	n.bound(a, testBounds())
	socket := neighbour.rawSocket()
	defer unix.Close(socket)
	for range 900 {
		_, err := unix.Write(socket, question(frames.Everybody(), its, ""))
		must(t, err)
	}
	must(t, talk(t, attacker, neighbour))
	for _, p := range []*testPod{attacker, neighbour} {
		for which, packets := range n.judged(a, p).Dropped {
			if packets > 0 {
				t.Errorf("%s: %d packets dropped by bound %s", p.request.Pod.Name, packets, which)
			}
		}
	}
}

// TestNeighboursOfAFlood: while a pod of another Network has its node answer as much as it can, a neighbour gets through more often where
// that is bounded. The kernel's datapath forwards by itself what the userspace one does in turn with all else: there the neighbour asks
// what ovs-vswitchd is needed for, here anything.
func TestNeighboursOfAFlood(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	attacker := n.addGuest(a, "red", "attacker", 5, 5)
	client, server := n.addGuest(a, "blue", "client", 5, 6), n.addGuest(a, "blue", "server", 6, 8)
	userspace, err := a.ovs.Userspace(t.Context())
	must(t, err)
	ask := func() int {
		if userspace {
			return answered(t, client, server, 500*time.Millisecond)
		}
		return expired(t, client, world.v4, 10)
	}
	router, err := net.ParseMAC("0a:58:00:00:00:01")
	must(t, err)
	own := attacker.end()
	last := frames.V4{
		From: own.MAC, To: router, Source: own.V4, Target: netip.MustParseAddr(world.v4), Protocol: unix.IPPROTO_UDP, Payload: frames.UDP(9, 9,
			"last"),
	}.Bytes()
	expire(last, 1)
	// What may come at once has come, and what is queued is done, of what was before too.
	settle := func() { <-time.After(time.Second) }
	var quiet, with, without int
	// Other programs of the machine have their turns, too: one round alone says little.
	for round := 1; round <= 10; round++ {
		settle()
		quiet += ask()
		flooded := func(to netdev.Bounds) int {
			n.bound(a, to)
			stop := attacker.flood(last)
			defer stop()
			settle()
			return ask()
		}
		with += flooded(testBounds())
		without += flooded(netdev.Bounds{})
		if round >= 3 && with >= 2*without {
			break
		}
	}
	t.Logf("answers: %d quiet, %d flooded with bounds, %d flooded without", quiet, with, without)
	if with < 2*without {
		t.Error("the bounds help no neighbour")
	}
}

// TestBoundsAreKept: pods that an agent before this one left unbounded, or whose bounds somebody removed, are bounded at the next look; who
// goes leaves nothing behind.
func TestBoundsAreKept(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	p := n.addGuest(a, "red", "one", 5, 5)
	if got := n.judged(a, p).Bounds; got != testBounds() {
		t.Fatalf("a pod that was added has bounds %+v", got)
	}
	must(t, n.at(a, p).Set(netdev.Bounds{Broadcasts: 1, Requests: 1}))
	must(t, a.lookAtBounds(t.Context()))
	if got := n.judged(a, p).Bounds; got != testBounds() {
		t.Errorf("other bounds became %+v", got)
	}
	remove := unguard
	if n.at(a, p).Netns != "" {
		remove = func(tb testing.TB) { must(tb, p.inside(func() error { unguard(tb); return nil })) }
	}
	remove(t)
	if got := n.judged(a, p).Bounds; got != (netdev.Bounds{}) {
		t.Fatalf("removed bounds are %+v", got)
	}
	successor := n.successor(a)
	must(t, successor.lookAtBounds(t.Context()))
	if got := n.judged(a, p).Bounds; got != testBounds() {
		t.Errorf("no bounds became %+v", got)
	}
	// On either datapath.
	must(t, netdev.NodePost(p.owner()).Set(testBounds()))
	must(t, a.Del(t.Context(), p.request))
	must(t, a.lookAtBounds(t.Context()))
	must(t, netdev.ForgetBounds())
	if left, err := netdev.ReadBounds(""); err != nil || len(left) > 0 {
		t.Errorf("bounds of pods that have gone: %v (error %v)", left, err)
	}
}
