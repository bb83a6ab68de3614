//go:build integration

package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/wait"
)

// throttled has an agent give ovn-controller no more than so many packets a second, and waits until ovn-controller comes by where
// that is so.
func (n *node) throttled(a *Agent, rate int) {
	n.tb.Helper()
	a.throttle.rate = rate
	// Its main thread has two connections, and those that answer packets and count have one each.
	wait.Eventually(n.tb, wait.Patience, "the door", func(ctx context.Context) error {
		if err := a.sweep(ctx); err != nil {
			return err
		}
		if count := n.throughDoor(); (count >= 4) != (rate > 0) {
			return fmt.Errorf("%d connections by the door at a rate of %d", count, rate)
		}
		return nil
	})
	n.nbctl("--wait=hv", "sync")
}

// throughDoor is how many connections the bridge's further socket has. (proc_net_unix(5): 03 is connected.)
func (n *node) throughDoor() (count int) {
	n.tb.Helper()
	sockets, err := os.ReadFile("/proc/thread-self/net/unix")
	must(n.tb, err)
	for line := range strings.Lines(string(sockets)) {
		if fields := strings.Fields(line); len(fields) == 8 && fields[5] == "03" && fields[7] == vswitch.Door(n.dir, "br-int") {
			count++
		}
	}
	return count
}

// TestAPodDoesNotHaveOVNControllerToItself: while one pod sends more than ovn-controller can answer, another Network's pod gets
// its answers, since ports take turns. Without a rate the one has as many answers as its port lets questions pass. All of it is
// taken back, and put back.
func TestAPodDoesNotHaveOVNControllerToItself(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	attacker, client := n.addGuest(a, "red", "attacker", 5, 5), n.addGuest(a, "blue", "client", 5, 6)
	own := attacker.end()
	router, err := net.ParseMAC("0a:58:00:00:00:01")
	must(t, err)
	last := frames.V4{
		From: own.MAC, To: router, Source: own.V4, Target: netip.MustParseAddr(world.v4), Protocol: unix.IPPROTO_UDP, Payload: frames.UDP(9, 9,
			"marked"),
	}.Bytes()
	expire(last, 1)
	measure := func(rate int) (told, answers, asked int, took time.Duration) {
		n.throttled(a, rate)
		begun, count := time.Now(), attacker.told()
		stop := attacker.flood(last)
		for ; time.Since(begun) < 3*time.Second; asked += 5 {
			answers += expired(t, client, world.v4, 5)
		}
		stop()
		return count(), answers, asked, time.Since(begun)
	}
	const rate = vswitch.LeastThrottle
	told, answers, asked, took := measure(rate)
	t.Logf("at most %d a second: in %s the one was told %d times, the other %d times of %d", rate, took, told, answers, asked)
	// What had been saved up, and what still waits, may come on top.
	if most := rate * (int(took/time.Second) + 3); told > most || told == 0 {
		t.Errorf("the one was told %d times, want %d at most", told, most)
	}
	if answers < asked/2 {
		t.Errorf("the other had %d answers of %d", answers, asked)
	}
	unbounded, answers, asked, took := measure(0)
	t.Logf("any number: in %s the one was told %d times, the other %d times of %d", took, unbounded, answers, asked)
	if unbounded < 2*told {
		t.Error("without the rate the one is not told more often: this test shows nothing")
	}
	if left := n.vsctl("get", "Bridge", "br-int", "controller") +
		n.vsctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:ovn-bridge-remote"); left != "[]" {
		t.Errorf("taken back, Open vSwitch has %s", left)
	}
	// Somebody takes the socket away under ovn-controller.
	n.throttled(a, rate)
	n.vsctl("del-controller", "br-int")
	n.throttled(a, rate)
	must(t, talk(t, client, n.addGuest(a, "blue", "new", 6, 7)))
}

// told counts what routers tell a pod of packets that they do not forward, until it is asked.
func (p *testPod) told() func() int {
	p.tb.Helper()
	var answers net.PacketConn
	must(p.tb, p.inside(func() (err error) {
		answers, err = net.ListenPacket("ip4:icmp", "0.0.0.0")
		return err
	}))
	count := make(chan int)
	go func() {
		sum, buffer := 0, make([]byte, 1500)
		for {
			n, _, err := answers.ReadFrom(buffer)
			if err != nil {
				count <- sum
				return
			}
			if n > 0 && buffer[0] == timeExceeded {
				sum++
			}
		}
	}()
	return func() int {
		_ = answers.Close()
		return <-count
	}
}
