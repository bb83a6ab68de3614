//go:build integration

package decide_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// peerStage is a stage with a third Network, green, whose namespace is g. A guest in the porthole of blue answers for every face of
// the node: what arrives there has left blue. A guest in the porthole of red has all faces, too, and sends from any of them.
type peerStage struct {
	*faceStage
	red *ovn.Guest
}

func newPeerStage(t *testing.T) *peerStage {
	s := newStage(t)
	green := network("green")
	green.Subnets = s.networks["red"].Subnets
	s.setNetwork(green)
	s.setNamespace("g", map[string]string{model.LabelNetwork: "green"})
	var faces []netip.Prefix
	eventually(t, "2 blocks", func() string {
		faces = s.nodeHas("n1").Faces
		return fmt.Sprint(len(faces), " blocks")
	})
	stand := func(network string) *ovn.Guest {
		own, edge := model.PortholeAddresses(), model.EdgeAddresses()
		i := ovn.Interface{
			Port: model.PortholePortName(network), MAC: model.PortholeMAC, Addresses: own[:], Gateways: []netip.Addr{edge[0].Addr(), edge[1].Addr()},
		}
		for _, block := range faces {
			face := block.Addr()
			for range 16 {
				i.Addresses, face = append(i.Addresses, netip.PrefixFrom(face, face.BitLen())), face.Next()
			}
		}
		g, err := s.chassis.Plug(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	out := &peerStage{faceStage: &faceStage{stage: s, node: stand("blue")}, red: stand("red")}
	for _, block := range faces {
		face := block.Addr()
		for range 16 {
			s.serveAt(out.node, netip.AddrPortFrom(face, facePort), "face")
			face = face.Next()
		}
	}
	return out
}

// says changes whom a Network is compatible with.
func (g *peerStage) says(network string, peers ...string) {
	n := *g.networks[network]
	n.CompatibleWith = nil
	for _, peer := range peers {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: peer})
	}
	g.setNetwork(n)
}

// letStrangersIn takes the rows away that keep what comes from faces out of all Networks.
func (g *peerStage) letStrangersIn() {
	g.t.Helper()
	rows := strings.Fields(nbctl(g.t, g.central, "--bare", "--columns=_uuid", "find", "ACL", "action=drop", "name=peers"))
	if len(rows) == 0 {
		g.t.Fatal("there are no such rows")
	}
	for _, row := range rows {
		for sw := range strings.FieldsSeq(nbctl(g.t, g.central, "--bare", "--columns=_uuid", "find", "Logical_Switch", "acls{>=}"+row)) {
			nbctl(g.t, g.central, "remove", "Logical_Switch", sw, "acls", row)
		}
	}
}

// unhang takes an ACL away from wherever it hangs.
func (g *peerStage) unhang(acl string) {
	g.t.Helper()
	for _, table := range []string{"Port_Group", "Logical_Switch"} {
		for holder := range strings.FieldsSeq(nbctl(g.t, g.central, "--bare", "--columns=_uuid", "find", table, "acls{>=}"+acl)) {
			nbctl(g.t, g.central, "remove", table, holder, "acls", acl)
		}
	}
}

// enters has somebody in red's porthole ask red's server from the faces of a pod: the node has let the packets in.
func (g *peerStage) enters(what, ns, name string, want bool) {
	g.t.Helper()
	for _, v6 := range []bool{false, true} {
		address := netip.AddrPortFrom(g.own("r", "server", v6), 80).String()
		for _, protocol := range []string{"tcp", "udp"} {
			got := asksFrom(g.t, g.red, g.face(ns, name, v6), protocol, address)
			if strings.HasPrefix(got, "server sees "+g.face(ns, name, v6).String()) != want {
				g.t.Errorf("%s asks by %s: %q", what, protocol, got)
			}
		}
	}
}

// Pods of a Network reach by their faces, and by Services, the pods of Networks that it uses, and no others; and come in only to those
// that serve theirs.
func TestPeersWithPackets(t *testing.T) {
	g := newPeerStage(t)
	client, server := g.pod("b", "client"), g.pod("r", "server")
	g.pod("g", "server")
	g.serve(server, 80, "server")
	g.setService(dualService("r", "web"))
	g.behind("r", "web", false, "server")
	g.behind("r", "web", true, "server")
	red, green, service := g.to("r", "server"), g.to("g", "server"), vips("r")
	// Two Networks serve blue, so that it still judges when one does not any more.
	g.says("red", "blue")
	g.says("green", "blue")
	g.until(client, red[0], "face sees")
	for i, vip := range service {
		for _, protocol := range []string{"tcp", "udp"} {
			g.leads("red:offered", "r/web", protocol, vip, netip.AddrPortFrom(g.face("r", "server", i == 1), facePort))
		}
	}
	g.expect(client, "a consumer's pod", red, true)
	g.expect(client, "a consumer's pod, by a Service", service, true)
	g.expect(client, "a consumer's pod, the other provider", green, true)

	// What comes in to red from faces is a consumer's pod's.
	g.enters("a consumer's pod", "b", "client", true)
	g.enters("a pod of green, which red does not serve", "g", "server", false)

	// The end of it ends what is open, at once, and nobody else's.
	var open []talk
	for _, at := range []string{red[0], red[1], service[0], service[1]} {
		conn, err := dial(t, client, "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ask(); err != nil {
			t.Fatalf("a connection to %s: %v", at, err)
		}
		open = append(open, conn)
	}
	other, err := dial(t, client, "tcp", green[0])
	if err != nil {
		t.Fatal(err)
	}
	g.says("red", "green")
	g.until(client, red[0], refused)
	for _, conn := range open {
		if answer, err := conn.ask(); err == nil {
			t.Errorf("a connection to %s goes on: %q", conn.RemoteAddr(), answer)
		}
	}
	if answer, err := other.ask(); err != nil || !strings.HasPrefix(answer, "face sees") {
		t.Errorf("a connection to another provider: %q, error %v", answer, err)
	}
	g.expect(client, "a pod that may not any more", red, false)
	g.expect(client, "a pod that still may reach green", green, true)
	g.enters("a pod that may not any more", "b", "client", false)
	g.enters("a pod of green, which red serves now", "g", "server", true)

	// Who serves one and uses another answers the one, whose faces it may not dial.
	served := netip.AddrPortFrom(g.face("g", "server", false), facePort)
	g.serveAt(g.red, served, "face")
	g.says("blue", "red")
	g.until(server, served.String(), refused)
	g.enters("a pod of green, which red serves while it uses blue", "g", "server", true)

	// The control: without the rows that refuse, everything passes.
	g.engine.stop()
	for row := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "ACL", "action=reject")) {
		g.unhang(row)
	}
	g.letStrangersIn()
	g.sync()
	g.expect(client, "a pod, without the rows that refuse", red, true)
	g.enters("a pod, without the rows that refuse", "b", "client", true)
}

// A Network that serves one Network and uses another answers those that it serves: what comes in is followed, with a policy in
// the Network and without any.
func TestAnswersOfANetworkInTheMiddleWithPackets(t *testing.T) {
	g := newPeerStage(t)
	g.pod("b", "client")
	server := g.pod("r", "server")
	far := g.pod("g", "server")
	g.serve(server, 80, "server")
	g.serve(far, 80, "far")
	g.says("red", "blue")
	g.says("green", "red")
	// What red sends to green comes out at red's porthole, where somebody has all faces.
	for i, face := range g.to("g", "server") {
		g.serveAt(g.red, netip.MustParseAddrPort(face), "face")
		if got := g.face("g", "server", i == 1); netip.MustParseAddrPort(face).Addr() != got {
			t.Fatalf("the face of green's pod is %s, and not %s", got, face)
		}
	}
	g.until(server, g.to("g", "server")[0], "face sees")
	for _, when := range []string{"without a policy", "with a policy elsewhere in the Network"} {
		for _, v6 := range []bool{false, true} {
			address := netip.AddrPortFrom(g.own("r", "server", v6), 80).String()
			for _, protocol := range []string{"tcp", "udp"} {
				got := asksFrom(t, g.red, g.face("b", "client", v6), protocol, address)
				if !strings.HasPrefix(got, "server sees "+g.face("b", "client", v6).String()) {
					t.Errorf("%s, a consumer's pod asks by %s: %q", when, protocol, got)
				}
			}
		}
		g.expect(server, when+", a pod of red", g.to("g", "server"), true)
		if when == "without a policy" {
			g.setNamespace("judged", map[string]string{model.LabelNetwork: "red"})
			g.pod("judged", "pod")
			g.setPolicy(webOnly("judged"))
			g.decides(webOnly("judged"), "red")
		}
	}
}
