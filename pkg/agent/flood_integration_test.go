//go:build integration

package agent

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// packetSocket is a socket for frames at a pod's interface.
func (p *testPod) packetSocket(protocol uint16) (socket, link int) {
	p.tb.Helper()
	must(p.tb, p.inside(func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		link = eth0.Attrs().Index
		if socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0); err != nil {
			return err
		}
		// A queue that holds what comes while the test has no processor.
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		return unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: protocol, Ifindex: link})
	}))
	return socket, link
}

// blast sends a frame so many times a second for some time, and gives how often that was. A processor that is wanted elsewhere makes it
// less.
func (p *testPod) blast(raw []byte, rate int, during time.Duration) (sent int) {
	p.tb.Helper()
	const every = 10 * time.Millisecond
	socket, link := p.packetSocket(0)
	defer unix.Close(socket)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for until := time.Now().Add(during); time.Now().Before(until); <-tick.C {
		for range rate / int(time.Second/every) {
			if unix.Sendto(socket, raw, 0, &unix.SockaddrLinklayer{Ifindex: link}) == nil {
				sent++
			}
		}
	}
	return sent
}

// counted counts the frames with a text that come to a pod's interface, until the test ends.
func (p *testPod) counted(text string) *atomic.Int64 {
	p.tb.Helper()
	socket, _ := p.packetSocket(unix.ETH_P_ALL << 8)
	n := &atomic.Int64{}
	done := make(chan struct{})
	second := unix.Timeval{Usec: 100_000}
	must(p.tb, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 1<<16)
		for {
			select {
			case <-done:
				return
			default:
			}
			if got, _, err := unix.Recvfrom(socket, buffer, 0); err == nil && bytes.Contains(buffer[:got], []byte(text)) {
				n.Add(1)
			}
		}
	}()
	p.tb.Cleanup(func() {
		close(done)
		<-ended
		_ = unix.Close(socket)
	})
	return n
}

// pingPong has one pod ask another by UDP, one question after the other, until stop is called, which gives how many were answered.
func pingPong(tb testing.TB, from, to *testPod) (stop func() int) {
	tb.Helper()
	var server net.PacketConn
	must(tb, to.inside(func() (err error) {
		server, err = net.ListenPacket("udp4", ":7")
		return err
	}))
	go func() {
		buffer := make([]byte, 64)
		for {
			n, peer, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(buffer[:n], peer)
		}
	}()
	var client net.Conn
	must(tb, from.inside(func() (err error) {
		client, err = net.Dial("udp4", to.address()+":7")
		return err
	}))
	end, answers := make(chan struct{}), make(chan int)
	go func() {
		n, buffer := 0, make([]byte, 64)
		for {
			select {
			case <-end:
				answers <- n
				return
			default:
			}
			_, _ = client.Write([]byte("question"))
			_ = client.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := client.Read(buffer); err == nil {
				n++
			}
		}
	}()
	return func() int {
		close(end)
		defer server.Close()
		defer client.Close()
		return <-answers
	}
}

// TestFloodsAreBounded: what a pod sends to many at once comes to its neighbours no faster than its Network may, whatever it sends. Without
// the rows all of it comes. Another Network has a bound of its own, and its pods go on talking.
func TestFloodsAreBounded(t *testing.T) {
	j := newJudged(t)
	attacker, neighbour := j.pod("red", "attacker", "10.0.0.5", "a"), j.pod("red", "neighbour", "10.0.0.6", "b")
	one, two := j.pod("blue", "one", "10.0.0.5", "a"), j.pod("blue", "two", "10.0.0.6", "b")
	const during, size, rate = 2 * time.Second, 1000, 4000
	broadcast := func(p *testPod, text string) []byte {
		own, err := net.ParseMAC(p.nic.MAC)
		must(t, err)
		return frame{
			from: own, to: net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source: p.nic.Addresses[0].Addr(), target: netip.MustParseAddr("10.0.255.255"),
			protocol: unix.IPPROTO_UDP, payload: datagram(9, text+strings.Repeat(".", size-42-len(text))),
		}.bytes()
	}
	quiet := pingPong(t, one, two)
	<-time.After(during) // that is how long the others last
	alone := quiet()
	flood := func(text string) (sent, arrived, answers int) {
		got := neighbour.counted(text)
		stop := pingPong(t, one, two)
		sent = attacker.blast(broadcast(attacker, text), rate, during)
		answers = stop()
		<-time.After(200 * time.Millisecond) // what is under way arrives, or never does
		return sent, int(got.Load()), answers
	}
	sent, arrived, answers := flood("bounded flood")
	// The bucket is empty; another Network's is not.
	other := two.counted("another Network")
	for range 20 {
		one.sendFrame(broadcast(one, "another Network"))
	}
	await(t, func() *bool {
		if all := other.Load() == 20; all {
			return &all
		}
		return nil
	})
	// As fast as may be, and what the bucket holds from before; a tenth for clocks.
	const most = 4_000_000 / 8 / size * 34 / 10
	if sent < 3*most/2 || arrived > most || arrived < most/10 {
		t.Errorf("%d frames sent, %d arrived; want no more than %d, and some", sent, arrived, most)
	}
	j.halt()
	j.nbctl("--wait=hv", "clear", "Logical_Switch", "red/a", "qos_rules")
	sentFree, arrivedFree, answersFree := flood("unbounded flood")
	// A machine that is busy with what arrives sends less.
	if arrivedFree*sent < 2*arrived*sentFree {
		t.Errorf("without bounds %d of %d arrive: this test shows nothing", arrivedFree, sentFree)
	}
	t.Logf("answers between pods of another Network in %s: %d alone, %d beside a bounded flood (%d of %d frames arrived), %d beside an unbounded one (%d of %d)",
		during, alone, answers, arrived, sent, answersFree, arrivedFree, sentFree)
}

// cpuOf is the processor time that a daemon of the node has had.
func (n *node) cpuOf(name string) time.Duration {
	n.tb.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(n.tb, err)
	for _, file := range all {
		text, _ := os.ReadFile(file)
		if !strings.Contains(string(text), "--unixctl="+filepath.Join(n.dir, name+".ctl")) {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		must(n.tb, err)
		// In hundredths of a second, behind the name in parentheses. (proc(5).)
		words := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
		user, _ := strconv.Atoi(words[12])
		system, _ := strconv.Atoi(words[13])
		return time.Duration(user+system) * 10 * time.Millisecond
	}
	n.tb.Fatalf("%s does not run", name)
	return 0
}

// TestControllersAreBounded: packets that ovn-controller must answer itself are answered no faster than the bounds say, so that a pod
// does not keep it busy; and what one Network has used up, another has still.
func TestControllersAreBounded(t *testing.T) {
	j := newJudged(t)
	attacker, blue := j.pod("red", "attacker", "10.0.0.5", "a"), j.pod("blue", "one", "10.0.0.5", "a")
	neighbour, two := j.pod("red", "neighbour", "10.0.0.6", "b"), j.pod("blue", "two", "10.0.0.6", "b")
	own, err := net.ParseMAC(attacker.nic.MAC)
	must(t, err)
	const during = 2 * time.Second
	// The time to live ends at the Network's router.
	expired := frame{from: own, to: j.routerMAC("red"), source: netip.MustParseAddr("10.0.0.5"), target: netip.MustParseAddr("198.51.100.7"), protocol: unix.IPPROTO_UDP, payload: datagram(9, "expired")}.bytes()
	expired[14+8] = 1
	expired[14+10], expired[14+11] = 0, 0
	sum := checksum(expired[14:34])
	expired[14+10], expired[14+11] = byte(sum>>8), byte(sum)
	type figures struct {
		sent, answers int
		busy          time.Duration
	}
	try := func(raw []byte, answer string) figures {
		got, before := attacker.counted(answer), j.cpuOf("controller")
		sent := attacker.blast(raw, 5000, during)
		<-time.After(300 * time.Millisecond) // what is under way arrives, or never does
		return figures{sent, int(got.Load()), j.cpuOf("controller") - before}
	}
	// The message, and the neighbour's address with the option for its MAC address. (RFC 792, RFC 4861.)
	advertised := func(p *testPod) string { return string(p.nic.Addresses[1].Addr().AsSlice()) + "\x02\x01" }
	attacks := map[string]struct {
		raw    []byte
		answer string
		rate   int
	}{"time to live": {expired, "\x0b\x00", 300}, "neighbour discovery": {attacker.solicitation(t, neighbour.nic.Addresses[1].Addr()), advertised(neighbour), 500}}
	bounded := map[string]figures{}
	for name, a := range attacks {
		f := try(a.raw, a.answer)
		bounded[name] = f
		if most := a.rate * 4; f.sent < 3*most/2 || f.answers > most || f.answers < a.rate/10 {
			t.Errorf("%s: %d sent, %d answered; want no more than %d, and some", name, f.sent, f.answers, most)
		}
	}
	// Red has just used up what it had.
	heard := blue.counted(advertised(two))
	blue.sendFrame(blue.solicitation(t, two.nic.Addresses[1].Addr()))
	await(t, func() *bool {
		if got := heard.Load() > 0; got {
			return &got
		}
		return nil
	})
	j.halt()
	j.nbctl("--wait=hv", "clear", "Logical_Router", "red", "copp", "--", "clear", "Logical_Switch", "red/a", "copp")
	for name, a := range attacks {
		f := try(a.raw, a.answer)
		if f.answers < 2*bounded[name].answers {
			t.Errorf("%s: without bounds %d of %d are answered: this test shows nothing", name, f.answers, f.sent)
		}
		t.Logf("%s, %s: %d of %d answered, ovn-controller busy for %s; without bounds %d of %d, busy for %s",
			name, during, bounded[name].answers, bounded[name].sent, bounded[name].busy, f.answers, f.sent, f.busy)
	}
}

// routerMAC is the MAC address of a Network's router in the subnet a.
func (j *judged) routerMAC(network string) net.HardwareAddr {
	j.tb.Helper()
	mac, err := net.ParseMAC(strings.Trim(strings.TrimSpace(j.nbctl("get", "Logical_Router_Port", network+"/a:gateway", "mac")), `"`))
	must(j.tb, err)
	return mac
}

// solicitation is a pod's question for the MAC address of a neighbour. (RFC 4861, 4.3.)
func (p *testPod) solicitation(t *testing.T, target netip.Addr) []byte {
	t.Helper()
	own, err := net.ParseMAC(p.nic.MAC)
	must(t, err)
	wanted, group := target.As16(), netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], wanted[13:])
	body := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, wanted[:]...)
	body = append(append(body, 1, 1), own...)
	raw := frame6{
		from: own, to: net.HardwareAddr{0x33, 0x33, 0xff, wanted[13], wanted[14], wanted[15]},
		source: p.nic.Addresses[1].Addr(), target: netip.AddrFrom16(group), header: unix.IPPROTO_ICMPV6, payload: body,
	}.bytes()
	// The checksum is over a header that is not sent, too. (RFC 8200, 8.1.)
	sum := checksum(append(append(append([]byte{}, raw[14+8:14+40]...), 0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6), body...))
	raw[14+40+2], raw[14+40+3] = byte(sum>>8), byte(sum)
	return raw
}
