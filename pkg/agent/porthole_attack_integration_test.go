//go:build integration

package agent

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/frames"
	"github.com/atoll-net/atoll/test/wait"
)

// TestPodsAreKeptFromTheInfrastructure has a pod dial everything that its Network must not reach. Its Network has a way
// out and the Kubernetes API, as Networks have by default. Then what keeps it from that is taken out, and it reaches all of it where
// anybody is.
func TestPodsAreKeptFromTheInfrastructure(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	other := givenTo("node2", 2)
	other.Addresses = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	a.world.SetNode(other)
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	neighbour := n.addGuest(a, "red", "two", 6, 7)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	infra := n.addDefaultPod(a, "infra", 5)
	for _, p := range []*testPod{red, blue, neighbour, infra} {
		serveName(t, p.inside, ":80", p.request.Pod.Key().String())
	}
	for _, port := range []string{":22", ":80", ":6443", ":9000"} {
		serveName(t, here, port, "the node")
	}
	door := porthole.IDOf(uidOf("red")).Name()
	inDoor := func(f func() error) error {
		return ns.WithNetNSPath("/run/netns/"+door, func(ns.NetNS) error { return f() })
	}
	for _, port := range []string{":22", ":53", ":80"} {
		serveName(t, inDoor, port, "the porthole")
	}
	// What clouds and others have somewhere is outside here.
	elsewhere := []string{
		"169.254.169.254", "168.63.129.16", "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "64:ff9b::c000:201", "192.0.0.192", "240.0.0.1", "fec0::1",
		"203.0.113.9",
		"10.96.0.50", "fd00:96::50",
	}
	for _, address := range elsewhere {
		must(t, world.inside(func() error { return giveAddress("wan0", address) }))
	}
	for _, port := range []string{":80", ":9000"} {
		serveName(t, world.inside, port, "outside")
	}
	// What is allowed works, or else all that follows shows nothing.
	wantAnswer(t, red.inside, world.v4+":80", "outside sees "+world.nodeV4)
	wantAnswer(t, red.inside, "["+world.v6+"]:80", "outside sees "+world.nodeV6)
	somebodys := []string{
		// Faces of another Network.
		blue.nic.Faces[0].String() + ":80", "[" + blue.nic.Faces[1].String() + "]:80",
		// The porthole, by every address that can be guessed.
		"169.254.100.2:22", "169.254.100.2:53", testDNS + ":80", "[fd00:96::a]:80",
		// The node, and others.
		testEncapIP + ":9000", world.nodeV4 + ":22", "10.128.1.1:9000", "203.0.113.9:9000",
		"[" + world.nodeV6 + "]:9000", "[fd00:128::1:1]:9000",
		// The API server past the Service.
		testEncapIP + ":6443", "[" + world.nodeV6 + "]:6443",
		// The default Network, Services, machines' credentials.
		"10.128.2.5:80", "[fd00:128::2:5]:80", "10.96.0.50:80", "[fd00:96::50]:80",
		"169.254.169.254:80", "168.63.129.16:80", "[fd00:ec2::254]:80", "[64:ff9b::a9fe:a9fe]:80", "[64:ff9b::c000:201]:9000",
		// Ranges that are nobody's.
		"192.0.0.192:80", "240.0.0.1:80", "[fec0::1]:80",
	}
	// Nobody's, and a neighbour's face, which has no way back: a controller has OVN lead to it.
	nobodys := []string{
		neighbour.nic.Faces[0].String() + ":80", "100.64.1.99:80", "100.64.77.5:80", "[fd64:a701::77:5]:80", "169.254.100.5:80",
		"169.254.100.6:80", testAPI + ":80",
	}
	for _, target := range append(somebodys, nobodys...) {
		t.Run(target, func(t *testing.T) { wantRefused(t, red.inside, target) })
	}
	// An address for a link only is looked for on the pod's own link, where nothing has it.
	for _, target := range []string{"[fe80::ca7:1ff:fe00:1%eth0]:80", "[fe80::a701:2%eth0]:80", "[fe80::a702:1%eth0]:22"} {
		t.Run(target, func(t *testing.T) { wantSilence(t, red.inside, target) })
	}
	if answer, err := ask(infra.inside, net.JoinHostPort(red.nic.Faces[0].String(), "80")); err != nil || answer != "red/one sees 10.128.2.5" {
		t.Errorf("a pod of the default Network gets %q (error %v) from a face", answer, err)
	}
	openAll(t)
	for _, target := range somebodys {
		t.Run("the control: "+target, func(t *testing.T) {
			if answer, err := ask(red.inside, target); err != nil {
				t.Errorf("without the chains it answers %q (error %v): this test shows nothing", answer, err)
			}
		})
	}
}

// openAll takes out what judges packets from the porthole of Network red: its own chains, those of the node, and of Network
// blue's porthole.
func openAll(t *testing.T) {
	t.Helper()
	door, next := porthole.IDOf(uidOf("red")).Name(), porthole.IDOf(uidOf("blue")).Name()
	// Answers between faces are judged as what asks for them is.
	for _, open := range [][2]string{{door, "in"}, {door, "out"}, {door, "input"}, {next, "in"}, {next, "out"}} {
		without(t, wall{open[0], "flush chain inet atoll " + open[1]}, wall{open[0], "add rule inet atoll " + open[1] + " accept"})
	}
	for _, chain := range []string{"input", "from-porthole", "to-porthole"} {
		without(t, wall{"", "flush chain inet atoll " + chain})
	}
}

// wantSilence expects that a connection does not come about.
func wantSilence(tb testing.TB, inside func(func() error) error, address string) {
	tb.Helper()
	err := inside(func() error {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			return conn.Close()
		}
		return err
	})
	if err == nil {
		tb.Errorf("%s can be reached", address)
	}
}

// addService does what kube-proxy does for a Service's address. An endpoint without a port has 80.
func (n *node) addService(address, endpoint string) {
	n.tb.Helper()
	if !strings.Contains(endpoint, ":") {
		endpoint += ":80"
	}
	n.nft(
		"add table ip services",
		"add chain ip services pre { type nat hook prerouting priority dstnat; }",
		"add chain ip services out { type nat hook output priority -100; }",
		fmt.Sprintf("add rule ip services pre ip daddr %s tcp dport 80 dnat to %s", address, endpoint),
		fmt.Sprintf("add rule ip services out ip daddr %s tcp dport 80 dnat to %s", address, endpoint),
	)
}

// nft changes the node's rules.
func (n *node) nft(commands ...string) {
	n.tb.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		n.tb.Fatalf("nft: %v %s", err, out)
	}
}

// A Network with direct access reaches nodes and the default Network, and still no other Network and no metadata.
func TestDirectAccessEndsAtOtherNetworks(t *testing.T) {
	n, a, world := portholeNode(t, func(red, _ *model.Network) { red.Infra, red.Egress = model.InfraDirect, model.EgressNone })
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	infra := n.addDefaultPod(a, "infra", 5)
	for _, p := range []*testPod{red, blue, infra} {
		serveName(t, p.inside, ":80", p.request.Pod.Key().String())
	}
	serveName(t, here, ":9000", "the node")
	n.addService("10.96.0.50", "10.128.2.5")
	n.addService("10.96.0.51", blue.nic.Faces[0].String())
	face := red.nic.Faces[0].String()
	wantAnswer(t, red.inside, testEncapIP+":9000", "the node sees "+face)
	wantAnswer(t, red.inside, "10.128.2.5:80", "default/infra sees "+face)
	wantAnswer(t, red.inside, "10.96.0.50:80", "default/infra sees "+face)
	must(t, world.inside(func() error { return giveAddress("wan0", "169.254.169.254") }))
	serveName(t, world.inside, ":80", "outside")
	closed := []string{"10.96.0.51:80", blue.nic.Faces[0].String() + ":80", "169.254.169.254:80", world.v4 + ":80"}
	for _, target := range closed {
		t.Run(target, func(t *testing.T) { wantRefused(t, red.inside, target) })
	}
	openAll(t)
	for _, target := range closed {
		t.Run("the control: "+target, func(t *testing.T) {
			if _, err := ask(red.inside, target); err != nil {
				t.Errorf("without the chains: %v; this test shows nothing", err)
			}
		})
	}
}

// sendFrame sends a frame from a pod's interface as it is.
func (p *testPod) sendFrame(raw []byte) {
	p.tb.Helper()
	must(p.tb, p.inside(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		return unix.Sendto(socket, raw, 0, &unix.SockaddrLinklayer{Ifindex: link.Attrs().Index})
	}))
}

// listenUDP receives datagrams at an address, and gives who sent each with its text.
func listenUDP(tb testing.TB, inside func(func() error) error, address string) <-chan string {
	tb.Helper()
	var conn net.PacketConn
	must(tb, inside(func() (err error) {
		conn, err = net.ListenPacket("udp", address)
		return err
	}))
	tb.Cleanup(func() { _ = conn.Close() })
	got := make(chan string, 100)
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			got <- fmt.Sprintf("%s %s", from, buffer[:min(n, 40)])
		}
	}()
	return got
}

// TestSpoofedPackets sends what a pod with rights over its interface can send. Each packet goes twice: as OVN lets it
// through, and with OVN's port security away, so that the porthole stands alone.
func TestSpoofedPackets(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	serveName(t, red.inside, ":80", "red")
	got := listenUDP(t, world.inside, ":9")
	node := listenUDP(t, here, ":9")
	victim := listenUDP(t, blue.inside, ":9")
	router, err := net.ParseMAC("0a:58:00:00:00:01")
	must(t, err)
	own, err := net.ParseMAC(red.nic.MAC)
	must(t, err)
	address := netip.MustParseAddr
	udp := func(source, target, text string) frames.V4 {
		return frames.V4{
			From: own, To: router, Source: address(source), Target: address(target), Protocol: unix.IPPROTO_UDP, Payload: frames.UDP(4711, 9, text),
		}
	}
	// honest arrives last: what was sent before it has arrived by then, or never will.
	honest := func(text string) {
		t.Helper()
		red.sendFrame(udp("10.0.0.5", world.v4, text).Bytes())
		select {
		case line := <-got:
			if line != world.nodeV4+":4711 "+text && !strings.HasSuffix(line, " "+text) {
				t.Errorf("outside got %q", line)
			}
		case <-wait.Context(t, wait.Patience).Done():
			t.Fatal("the honest packet does not arrive: this test shows nothing")
		}
		for _, silent := range []<-chan string{got, node, victim} {
			select {
			case line := <-silent:
				t.Errorf("a packet got through: %q", line)
			default:
			}
		}
	}
	neighbours := func() string {
		out, err := exec.Command("ip", "netns", "exec", porthole.IDOf(uidOf("red")).Name(), "sh", "-c",
			"ip neigh; ip -6 neigh; ip route show table all; ip -6 route show table all").CombinedOutput()
		must(t, err)
		return string(out)
	}
	before := neighbours()
	redirect := append([]byte{5, 1, 0, 0, 10, 0, 0, 5}, udp("10.0.0.5", "100.64.1.5", "x").Bytes()[14:42]...)
	binary.BigEndian.PutUint16(redirect[2:], frames.Checksum(redirect))
	mac := func(text string) net.HardwareAddr {
		m, err := net.ParseMAC(text)
		must(t, err)
		return m
	}
	hostEnd := func(name string) net.HardwareAddr {
		link, err := netlink.LinkByName(name)
		must(t, err)
		return link.Attrs().HardwareAddr
	}
	to := func(m net.HardwareAddr, f frames.V4) frames.V4 { f.To = m; return f }
	attacks := map[string]func(){
		"a source of nobody":              func() { red.sendFrame(udp("10.0.0.77", world.v4, "spoofed").Bytes()) },
		"a source outside":                func() { red.sendFrame(udp("8.8.8.8", world.v4, "spoofed").Bytes()) },
		"its own face":                    func() { red.sendFrame(udp("100.64.1.5", world.v4, "spoofed").Bytes()) },
		"another's face":                  func() { red.sendFrame(udp("100.64.1.6", world.v4, "spoofed").Bytes()) },
		"the node's address":              func() { red.sendFrame(udp(testEncapIP, world.v4, "spoofed").Bytes()) },
		"the porthole's address":          func() { red.sendFrame(udp("169.254.100.2", world.v4, "spoofed").Bytes()) },
		"to the node from the node":       func() { red.sendFrame(udp(world.nodeV4, testEncapIP, "spoofed").Bytes()) },
		"to a face as a probe":            func() { red.sendFrame(udp("10.128.1.1", "100.64.1.6", "spoofed").Bytes()) },
		"past the router to the porthole": func() { red.sendFrame(to(mac(model.PortholeMAC), udp("10.0.0.5", testEncapIP, "spoofed")).Bytes()) },
		"past the router to the node": func() {
			red.sendFrame(
				to(mac("0e:a7:02:00:00:01"), udp("10.0.0.5", testEncapIP, "spoofed")).Bytes())
		},
		"to the bridge's end of its own link": func() {
			red.sendFrame(to(hostEnd(red.hostName()), udp("10.0.0.5", testEncapIP, "spoofed")).Bytes())
		},
		"to the bridge's end of the porthole": func() {
			red.sendFrame(to(hostEnd(porthole.IDOf(uidOf("red")).Name()), udp("10.0.0.5", testEncapIP, "spoofed")).Bytes())
		},
		"a redirect to the porthole": func() {
			red.sendFrame(
				frames.V4{
					From: own, To: router, Source: address("10.0.0.1"), Target: address("169.254.100.2"), Protocol: unix.IPPROTO_ICMP, Payload: redirect,
				}.Bytes())
			red.sendFrame(
				frames.V4{
					From: own, To: router, Source: address("10.0.0.5"), Target: address("169.254.100.2"), Protocol: unix.IPPROTO_ICMP, Payload: redirect,
				}.Bytes())
		},
		"ARP in others' names": func() {
			for _, claimed := range []string{"169.254.100.2", "169.254.100.1", "10.0.0.1", "10.128.1.1"} {
				red.sendFrame(frames.GratuitousARP(own, address(claimed)))
			}
		},
		"fragments to the node": func() {
			must(t, red.inside(func() error {
				for _, target := range []string{testEncapIP, "100.64.1.6", "10.128.1.1", "169.254.169.254"} {
					conn, err := net.Dial("udp4", target+":9")
					if err != nil {
						return err
					}
					// An error that an earlier packet brought back is as good.
					_, _ = conn.Write(make([]byte, 4000))
					conn.Close()
				}
				return nil
			}))
		},
	}
	for _, secured := range []bool{true, false} {
		if !secured {
			n.nbctl("--wait=hv", "lsp-set-port-security", red.request.Pod.Key().String())
		}
		for name, attack := range attacks {
			t.Run(fmt.Sprintf("%s, port security %t", name, secured), func(t *testing.T) {
				attack()
				honest("honest")
				if after := neighbours(); after != before {
					t.Errorf("the porthole learned something:\n%s\nbefore:\n%s", after, before)
				}
				wantAnswer(t, here, "100.64.1.5:80", "red sees "+ownNode)
			})
		}
	}
	// The control: without the chain that looks at sources one arrives that is not the pod's own address. Of the others the kernel drops
	// those that do not lead back to where they come from.
	without(t, wall{porthole.IDOf(uidOf("red")).Name(), "flush chain inet atoll entrance"})
	inboxOf(got).wantArrival(t, "the control", func() { red.sendFrame(udp("100.64.1.5", world.v4, "the control").Bytes()) })
	// What is large and allowed arrives in one piece.
	must(t, red.inside(func() error {
		conn, err := net.Dial("udp4", world.v4+":9")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte(strings.Repeat("large", 1000)))
		return err
	}))
	select {
	case line := <-got:
		if !strings.Contains(line, "largelarge") {
			t.Errorf("outside got %q", line)
		}
	case <-wait.Context(t, wait.Patience).Done():
		t.Error("a datagram in fragments does not arrive")
	}
}

// addDefaultPod makes a pod of the default Network, which is its own face.
func (n *node) addDefaultPod(a *Agent, name string, host byte) *testPod {
	n.tb.Helper()
	p := newPod(n.tb, a, name, host)
	p.request.Pod.Namespace = "default"
	p.nic.Network, p.nic.NetworkUID = "default", uidOf("default")
	p.nic.MAC = fmt.Sprintf("0a:58:0a:80:02:%02x", host)
	p.nic.Addresses = []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.128.2.%d/16", host)), netip.MustParsePrefix(fmt.Sprintf("fd00:128::2:%d/64", host)),
	}
	p.nic.Gateways = []netip.Addr{netip.MustParseAddr("10.128.0.1"), netip.MustParseAddr("fd00:128::1")}
	p.publish(a)
	n.addPodPort("default", p)
	result, err := a.Add(n.tb.Context(), p.request)
	must(n.tb, err)
	if got := result.IPs[0].Address.String(); got != p.nic.Addresses[0].String() {
		n.tb.Errorf("result has address %s, want %s", got, p.nic.Addresses[0])
	}
	return p
}
