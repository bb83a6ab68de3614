//go:build integration

package decide_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// echo asks an address for an echo, and expects it from that address.
func echo(from *ovn.Guest, to netip.Addr) error {
	network, local, protocol, request, reply := "ip4:icmp", "0.0.0.0", 1, icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	if to.Is6() {
		network, local, protocol, request, reply = "ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	return from.Do(func() error {
		conn, err := icmp.ListenPacket(network, local)
		if err != nil {
			return err
		}
		defer conn.Close()
		question, err := (&icmp.Message{Type: request, Body: &icmp.Echo{ID: 4711, Seq: 1, Data: []byte("echo")}}).Marshal(nil)
		defer wait.Limit(conn, patience)()
		if err == nil {
			_, err = conn.WriteTo(question, &net.IPAddr{IP: to.AsSlice()})
		}
		if err != nil {
			return err
		}
		buffer := make([]byte, 1500)
		for {
			n, sender, err := conn.ReadFrom(buffer)
			if err != nil {
				return err
			}
			if answer, err := icmp.ParseMessage(protocol, buffer[:n]); err == nil && answer.Type == reply && sender.String() == to.String() {
				return nil
			}
		}
	})
}

// Pods of a Network dial those of one that it uses by their own addresses, which OVN makes faces of: where that is offered, and
// no subnet is the same. What the faces are judged by judges these.
func TestOwnAddressesByFaceWithPackets(t *testing.T) {
	g := newPeerStage(t)
	blue := *g.networks["blue"]
	same := blue.Subnets
	blue.Subnets = []model.Subnet{
		{Name: "own", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("fd00:9::/64")}},
	}
	g.setNetwork(blue)
	client, server := g.pod("b", "client"), g.pod("r", "server")
	g.pod("g", "server")
	g.serve(server, 80, "server")
	red, green := g.to("r", "server"), g.to("g", "server")
	var own [2]string
	for i := range own {
		own[i] = netip.AddrPortFrom(g.own("r", "server", i == 1), facePort).String()
	}
	says := func(addresses bool, consumers ...string) {
		n := *g.networks["red"]
		n.CompatibleWith = nil
		for _, c := range consumers {
			n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: c, Addresses: addresses})
		}
		g.setNetwork(n)
	}
	nobody := func(when string) {
		t.Helper()
		g.sync()
		for _, at := range own {
			for _, protocol := range []string{"tcp", "udp"} {
				if got := asks(t, client, protocol, at); strings.Contains(got, "sees") {
					t.Errorf("%s: %s by %s is answered: %q", when, at, protocol, got)
				}
			}
		}
	}
	// Blue judges what goes to faces also when red serves it no more.
	g.says("green", "blue")
	says(false, "blue")
	g.until(client, red[0], "face sees")
	nobody("not offered")

	says(true, "blue")
	g.until(client, own[0], "face sees")
	g.expect(client, "a consumer's pod, an own address", own, true)
	g.expect(client, "a consumer's pod, a face", red, true)
	for _, at := range own {
		if err := echo(client, netip.MustParseAddrPort(at).Addr()); err != nil {
			t.Errorf("a consumer's pod, an echo of %s: %v", at, err)
		}
	}

	// A subnet of its own means that one.
	blue.Subnets = append(blue.Subnets[:1:1], model.Subnet{Name: "more", CIDRs: same[0].CIDRs[:1]})
	g.setNetwork(blue)
	eventually(t, "unanswered", func() string {
		if got := asks(t, client, "udp", own[1]); strings.Contains(got, "sees") {
			return got
		}
		return "unanswered"
	})
	nobody("with a subnet of the same addresses")
	g.expect(client, "a consumer's pod, a face", red, true)
	blue.Subnets = blue.Subnets[:1]
	g.setNetwork(blue)
	g.until(client, own[0], "face sees")

	// The end of it ends what is open.
	var open []talk
	for _, at := range own {
		conn, err := dial(t, client, "tcp", at)
		if err == nil {
			_, err = conn.ask()
		}
		if err != nil {
			t.Fatalf("a connection to %s: %v", at, err)
		}
		open = append(open, conn)
	}
	says(true)
	g.until(client, red[0], refused)
	for _, conn := range open {
		if answer, err := conn.ask(); err == nil {
			t.Errorf("a connection to %s goes on: %q", conn.RemoteAddr(), answer)
		}
	}
	nobody("without compatibility")

	// What refuses faces refuses own addresses: with the rows that make one of the other, and without those that let red's faces pass.
	says(true, "blue")
	g.until(client, own[0], "face sees")
	g.engine.stop()
	away := func(where ...string) {
		t.Helper()
		rows := strings.Fields(nbctl(t, g.central, append([]string{"--bare", "--columns=_uuid", "find", "ACL"}, where...)...))
		if len(rows) == 0 {
			t.Fatalf("there are no rows %v", where)
		}
		for _, row := range rows {
			g.unhang(row)
		}
		g.sync()
	}
	away("action=pass", "direction=from-lport")
	// What is rejected after load balancing comes from the face, which the client has not dialled.
	nobody("without the row that lets its face pass")
	g.expect(client, "a consumer's pod, another provider's face, the same", green, false)
	away("action=reject")
	g.expect(client, "an own address, without the rows that refuse", own, true)
}
