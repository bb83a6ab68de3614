//go:build integration

package decide_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// Nodes let pods of one Network through to another as soon as the API says so, and OVN has the rows that say whose pods later, or
// never. Until then nothing comes in from faces, and all else that a pod of a Network hears it hears.
func TestNothingIsOpenBeforeItsRows(t *testing.T) {
	g := newPeerStage(t)
	server, peer := g.pod("r", "server"), g.pod("r", "peer")
	g.pod("g", "stranger")
	g.pod("b", "client")
	g.serve(server, 80, "server")
	g.enters("a pod of green, to red without peers", "g", "stranger", false)
	g.enters("a pod of blue, to red without peers", "b", "client", false)

	// Its own pods come by faces, and reach themselves by them; the node comes as itself, and its refusals as the face that was dialled.
	for _, v6 := range []bool{false, true} {
		face := netip.AddrPortFrom(g.face("r", "server", v6), 80).String()
		for _, protocol := range []string{"tcp", "udp"} {
			if got, want := asks(t, peer, protocol, face), "server sees "+g.own("r", "peer", v6).String(); got != want {
				t.Errorf("a pod of the Network by %s: %q, want %q", protocol, got, want)
			}
			if got, want := asks(t, server, protocol, face), "server sees "+g.face("r", "server", v6).String(); got != want {
				t.Errorf("the pod itself by %s: %q, want %q", protocol, got, want)
			}
		}
		nobody := netip.AddrPortFrom(g.face("g", "stranger", v6), 81).String()
		begun := time.Now()
		if got := asks(t, server, "tcp", nobody); got != refused || time.Since(begun) > patience/2 {
			t.Errorf("what the node refuses: %q after %s", got, time.Since(begun))
		}
	}
	porthole := model.PortholeAddresses()[0].Addr()
	if got, want := asksFrom(t, g.red, porthole,
		"tcp", netip.AddrPortFrom(g.own("r", "server", false), 80).String()), "server sees "+porthole.String(); got != want {
		t.Errorf("the node: %q, want %q", got, want)
	}

	// Subnets may lie among faces: what comes from there is the Network's own pods'.
	among := network("among")
	among.Subnets = []model.Subnet{
		{Name: "pods", CIDRs: []netip.Prefix{netip.MustParsePrefix("100.64.128.0/24"), netip.MustParsePrefix("fd64:a701::1:0:0:0/96")}},
	}
	g.setNetwork(among)
	g.setNamespace("m", map[string]string{model.LabelNetwork: "among"})
	one, two := g.pod("m", "one"), g.pod("m", "two")
	g.serve(two, 80, "two")
	for _, v6 := range []bool{false, true} {
		own := netip.AddrPortFrom(g.own("m", "two", v6), 80).String()
		if got, want := asks(t, one, "udp", own), "two sees "+g.own("m", "one", v6).String(); got != want {
			t.Errorf("a pod whose address is among faces: %q, want %q", got, want)
		}
	}

	// The control: without these rows, all that the node lets through comes in.
	g.engine.stop()
	g.letStrangersIn()
	g.sync()
	g.enters("a pod of green, to red without peers and rows", "g", "stranger", true)
	g.enters("a pod of blue, to red without peers and rows", "b", "client", true)
}

// A Network that serves one and uses another answers those whom it serves, though it may not dial them, and for as long as it
// serves them. Its pods reach themselves by their faces and by Services.
func TestInTheMiddleOfPeersWithPackets(t *testing.T) {
	g := newPeerStage(t)
	server, client := g.pod("r", "server"), g.pod("b", "client")
	g.pod("g", "server")
	g.serve(server, 80, "server")
	g.serve(server, facePort, "server")
	for _, v6 := range []bool{false, true} {
		for ns, name := range map[string]string{"b": "client", "g": "server"} {
			g.serveAt(g.red, netip.AddrPortFrom(g.face(ns, name, v6), facePort), "face")
		}
	}
	g.says("green", "red")
	g.says("red", "blue")
	g.until(client, g.to("r", "server")[0], "face sees")
	g.until(server, g.to("g", "server")[0], "face sees")
	g.expect(server, "a pod in the middle, its provider", g.to("g", "server"), true)
	g.expect(server, "a pod in the middle, its consumer", g.to("b", "client"), false)
	g.expect(client, "a pod of the consumer, its provider's provider", g.to("g", "server"), false)
	g.enters("a consumer's pod", "b", "client", true)
	g.enters("a provider's pod", "g", "server", false)

	// Itself, by its own Service, and by one that its provider offers and that leads to a pod of the namespace in the consumer.
	g.setService(dualService("r", "web"))
	for i, vip := range vips("r") {
		g.behind("r", "web", i == 1, "server")
		for _, protocol := range []string{"tcp", "udp"} {
			g.leads("red", "r/web", protocol, vip, netip.AddrPortFrom(g.own("r", "server", i == 1), facePort))
		}
	}
	g.itself(server, "r", "server")
	other := pod("r", "other", "blue")
	g.setPod(other)
	eventually(t, "attached", func() string {
		if g.attachment(other.Key) == nil {
			return "not attached"
		}
		return "attached"
	})
	guest := g.plug(other.Key, other.UID)
	g.serve(guest, facePort, "other")
	for i, vip := range vips("r") {
		g.behind("r", "web", i == 1, "other")
		for _, protocol := range []string{"tcp", "udp"} {
			g.leads("blue", "r/web", protocol, vip, netip.AddrPortFrom(g.own("r", "other", i == 1), facePort))
		}
	}
	g.itself(guest, "r", "other")

	// The end of it is the end of what is open, also at the provider.
	var open []talk
	for _, v6 := range []bool{false, true} {
		conn, err := dialFrom(t, g.red, g.face("b", "client", v6), "tcp", netip.AddrPortFrom(g.own("r", "server", v6), 80).String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ask(); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	g.says("red")
	eventually(t, "i/o timeout", func() string {
		return asksFrom(t, g.red, g.face("b", "client", false), "tcp", netip.AddrPortFrom(g.own("r", "server", false), 80).String())
	})
	for _, conn := range open {
		if answer, err := conn.ask(); err == nil {
			t.Errorf("a connection to %s goes on: %q", conn.RemoteAddr(), answer)
		}
	}
	g.enters("a pod that may not any more", "b", "client", false)
}

// itself has a pod dial its faces and the virtual addresses of a Service that leads to it.
func (g *peerStage) itself(who *ovn.Guest, ns, name string) {
	g.t.Helper()
	for i, v6 := range []bool{false, true} {
		vip, face := vips("r")[i], g.face(ns, name, v6)
		for dialled, sees := range map[string]netip.Addr{
			netip.AddrPortFrom(face, facePort).String(): face, vip: netip.MustParseAddrPort(vip).Addr(),
		} {
			for _, protocol := range []string{"tcp", "udp"} {
				if got, want := asks(g.t, who, protocol, dialled), name+" sees "+sees.String(); got != want {
					g.t.Errorf("%s/%s dials itself at %s by %s: %q, want %q", ns, name, dialled, protocol, got, want)
				}
			}
		}
	}
}
