//go:build integration

package decide_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// faceStage is a stage whose default Network has two subnets, with somebody at the node's port there who answers for every face of
// the node: what arrives there has come through. Pods of the default Network are in both subnets.
type faceStage struct {
	*stage
	node *ovn.Guest
}

const facePort = 8080

func newFaceStage(t *testing.T) *faceStage {
	s := newStage(t)
	home := network("default")
	home.Type = model.Flat
	home.Subnets = []model.Subnet{
		// For the node and two pods.
		{
			Name: "small", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.8.0/29"), netip.MustParsePrefix("fd00:248::/125")},
			Exclude: []model.AddrRange{{First: at("10.244.8.5"), Last: at("10.244.8.6")}},
		},
		{Name: "large", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.9.0/24"), netip.MustParsePrefix("fd00:249::/64")}},
	}
	s.setNetwork(home)
	s.setNamespace("kube-system", nil)
	g := &faceStage{stage: s}
	var have model.NodeNetwork
	eventually(t, "10.244.8.2/29", func() string {
		have = s.nodeHas("n1")
		if len(have.Addresses) == 0 {
			return "nothing"
		}
		return have.Addresses[0].String()
	})
	i := ovn.Interface{Port: model.NodePortName("default", "n1"), MAC: have.MAC, Addresses: have.Addresses, Gateways: have.Gateways}
	for _, block := range have.Faces {
		face := block.Addr()
		for range 16 {
			i.Addresses, face = append(i.Addresses, netip.PrefixFrom(face, face.BitLen())), face.Next()
		}
	}
	var err error
	if g.node, err = s.chassis.Plug(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	for _, a := range i.Addresses {
		s.serveAt(g.node, netip.AddrPortFrom(a.Addr(), facePort), "face")
	}
	return g
}

// nodeHas is what is written on a node.
func (c *cluster) nodeHas(name string) model.NodeNetwork {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[name]; n != nil && n.Assigned != nil {
		return *n.Assigned
	}
	return model.NodeNetwork{}
}

// to are the faces of a pod, with the port.
func (g *faceStage) to(ns, name string) [2]string {
	var out [2]string
	for i := range out {
		out[i] = netip.AddrPortFrom(g.face(ns, name, i == 1), facePort).String()
	}
	return out
}

const refused = "connection refused"

// expect dials both families by TCP and UDP: answered, or refused at once.
func (g *faceStage) expect(who *ovn.Guest, what string, at [2]string, answered bool) {
	g.t.Helper()
	for _, address := range at {
		for _, protocol := range []string{"tcp", "udp"} {
			begun := time.Now()
			got := asks(g.t, who, protocol, address)
			if strings.HasPrefix(got, "face sees") != answered || !answered && got != refused {
				g.t.Errorf("%s dials %s by %s: %q", what, address, protocol, got)
			}
			if took := time.Since(begun); !answered && took > patience/2 {
				g.t.Errorf("%s dials %s by %s: refused only after %s", what, address, protocol, took)
			}
		}
	}
}

// Faces are for infrastructure's pods and for nodes, by themselves and by Services that lead to them, from every subnet of the default
// Network.
func TestFacesAreForInfrastructureWithPackets(t *testing.T) {
	g := newFaceStage(t)
	near, system := g.pod("a", "near"), g.pod("kube-system", "near")
	far := [2]*ovn.Guest{g.pod("a", "far"), g.pod("kube-system", "far")}
	for name, want := range map[string]string{"near": "10.244.8.", "far": "10.244.9."} {
		if got := g.own("a", name, false).String(); !strings.HasPrefix(got, want) {
			t.Fatalf("a/%s has %s, want one of %s", name, got, want)
		}
	}
	g.pod("r", "server")
	g.pod("b", "server")
	g.setService(dualService("r", "web"))
	g.behind("r", "web", false, "server")
	g.behind("r", "web", true, "server")
	for i, vip := range vips("r") {
		for _, protocol := range []string{"tcp", "udp"} {
			g.leads("default", "r/web", protocol, vip, netip.AddrPortFrom(g.face("r", "server", i == 1), facePort))
		}
	}
	red, blue, service := g.to("r", "server"), g.to("b", "server"), vips("r")
	all := func(who *ovn.Guest, what string, answered bool) {
		t.Helper()
		g.expect(who, what, red, answered)
		g.expect(who, what, blue, answered)
		g.expect(who, what+", by the Service", service, answered)
	}
	all(near, "a pod", false)
	all(far[0], "a pod of another subnet", false)
	all(system, "a pod of kube-system", true)
	all(far[1], "a pod of kube-system in another subnet", true)

	// A label opens at once, and its end ends what is open.
	g.setNamespace("a", map[string]string{model.LabelInfrastructure: "true"})
	g.until(near, red[0], "face sees")
	all(near, "a pod of a labelled namespace", true)
	all(far[0], "a pod of a labelled namespace in another subnet", true)
	for _, at := range []string{red[0], red[1], service[0], service[1]} {
		g.setNamespace("a", map[string]string{model.LabelInfrastructure: "true"})
		g.until(near, at, "face sees")
		open, err := dial(t, near, "tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.ask(); err != nil {
			t.Errorf("a connection to %s: %v", at, err)
		}
		g.setNamespace("a", nil)
		g.until(near, at, refused)
		if answer, err := open.ask(); err == nil {
			t.Errorf("a connection to %s goes on without the label: %q", at, answer)
		}
	}
	all(near, "a pod whose namespace has lost its label", false)

	// What a Network says is its own matter.
	say := func(who model.InfraIngress) {
		n := *g.networks["red"]
		n.Ingress = who
		g.setNetwork(n)
	}
	say(model.InfraIngressNone)
	g.until(system, red[0], refused)
	for _, who := range []*ovn.Guest{near, far[0], system, far[1]} {
		g.expect(who, "somebody, with None", red, false)
		g.expect(who, "somebody, with None, by the Service", service, false)
	}
	g.expect(system, "a pod of kube-system, the other Network", blue, true)
	say(model.InfraIngressAll)
	g.until(near, red[0], "face sees")
	for _, who := range []*ovn.Guest{near, far[0], system, far[1]} {
		g.expect(who, "somebody, with All", red, true)
		g.expect(who, "somebody, with All, by the Service", service, true)
	}
	g.expect(near, "a pod, the other Network", blue, false)
	say(model.InfraIngressInfrastructure)
	g.until(near, red[0], refused)

	// The control: without the rows that refuse, everything passes.
	g.engine.stop()
	for row := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "ACL", "action=reject")) {
		for group := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "Port_Group", "acls{>=}"+row)) {
			nbctl(t, g.central, "remove", "Port_Group", group, "acls", row)
		}
	}
	g.sync()
	// The rows are gone before every switch's cached answer is.
	g.until(near, red[0], "face sees")
	g.until(far[0], red[0], "face sees")
	all(near, "a pod, without the guard's rows", true)
	all(far[0], "a pod of another subnet, without the guard's rows", true)
}

// until waits for what a pod hears by TCP; connections that the change concerns may fail otherwise meanwhile.
func (g *faceStage) until(who *ovn.Guest, at, want string) {
	g.t.Helper()
	eventually(g.t, want, func() string {
		got := asks(g.t, who, "tcp", at)
		if strings.HasPrefix(got, want) {
			return want
		}
		return got
	})
	g.sync()
}

// asksFrom asks from an address that the guest has.
func asksFrom(t *testing.T, g *ovn.Guest, from netip.Addr, protocol, address string) string {
	t.Helper()
	conn, err := dialFrom(t, g, from, protocol, address)
	if err != nil {
		return refusal(err)
	}
	defer conn.Close()
	answer, err := conn.ask()
	if err != nil {
		return refusal(err)
	}
	return answer
}

// dialFrom dials from an address that the guest has.
func dialFrom(t *testing.T, g *ovn.Guest, from netip.Addr, protocol, address string) (talk, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	if protocol == "udp" {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	var conn net.Conn
	err := g.Do(func() (err error) {
		conn, err = wait.Dial(&dialer, protocol, address, patience)
		return err
	})
	if err != nil {
		return talk{}, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return talk{conn}, nil
}

// A pod that a face has dialled answers it, by TCP, by UDP and with an ICMP error, though it may not dial the face itself.
func TestAnswersToFacesWithPackets(t *testing.T) {
	g := newFaceStage(t)
	g.pod("r", "client")
	near := g.pod("a", "near")
	g.pod("a", "fills")
	far := g.pod("a", "far")
	for _, server := range []*ovn.Guest{near, far} {
		g.serve(server, 80, "plain")
	}
	try := func(want string) {
		t.Helper()
		// A dial that nobody answers takes all of patience, so all dial at once.
		var all sync.WaitGroup
		for _, name := range []string{"near", "far"} {
			for _, v6 := range []bool{false, true} {
				face, server := g.face("r", "client", v6), g.own("a", name, v6)
				for _, protocol := range []string{"tcp", "udp"} {
					expected := fmt.Sprintf("%s sees %s", want, face)
					if want == "" {
						expected = "i/o timeout"
					}
					all.Go(func() {
						if got := asksFrom(t, g.node, face, protocol, netip.AddrPortFrom(server, 80).String()); got != expected {
							t.Errorf("%s dials %s by %s: %q, want %q", face, server, protocol, got, expected)
						}
					})
				}
				if want == "" {
					continue
				}
				all.Go(func() {
					if got := asksFrom(t, g.node, face, "udp", netip.AddrPortFrom(server, 81).String()); got != refused {
						t.Errorf("%s dials a shut port of %s by UDP: %q, want %q", face, server, got, refused)
					}
				})
			}
		}
		all.Wait()
	}
	try("plain")
	g.expect(near, "a pod that has been dialled", g.to("r", "client"), false)
	// The control: where no ACL allows anything, OVN follows no connections, and answers are refused as what pods dial is.
	g.engine.stop()
	for row := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "ACL", "action=allow-related")) {
		nbctl(t, g.central, "set", "ACL", row, "action=pass")
	}
	g.sync()
	// Open vSwitch judges by what it has cached until it has looked at its rules again.
	for _, name := range []string{"near", "far"} {
		for _, v6 := range []bool{false, true} {
			eventually(t, "i/o timeout", func() string {
				return asksFrom(t, g.node, g.face("r", "client", v6), "tcp", netip.AddrPortFrom(g.own("a", name, v6), 80).String())
			})
		}
	}
	try("")
}

// Egress policies judge what infrastructure's pods send to faces, straight and by Services: the guard lets it pass, and allows nothing.
func TestFacesObeyEgressPoliciesWithPackets(t *testing.T) {
	g := newFaceStage(t)
	who := g.pod("kube-system", "near")
	g.pod("r", "server")
	g.pod("b", "server")
	g.setService(dualService("r", "web"))
	for i, vip := range vips("r") {
		g.behind("r", "web", i == 1, "server")
		for _, protocol := range []string{"tcp", "udp"} {
			g.leads("default", "r/web", protocol, vip, netip.AddrPortFrom(g.face("r", "server", i == 1), facePort))
		}
	}
	egress := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "kube-system", Name: "egress"}, UID: "uid-egress", Tier: model.TierTenant,
		Subject: match.Pods{Namespace: "kube-system"}, Isolates: [2]bool{model.PolicyEgress: true},
	}
	// By TCP in one family and by UDP in the other, all at once: who is not answered is known after some seconds.
	reaches := func(what string, red, blue bool) {
		t.Helper()
		type try struct{ what, protocol, address string }
		var tries []try
		var want []string
		for _, to := range []struct {
			what      string
			addresses [2]string
			answered  bool
		}{{"a face", g.to("r", "server"), red}, {"another's", g.to("b", "server"), blue}, {"the Service", vips("r"), red}} {
			for i, protocol := range []string{"tcp", "udp"} {
				tries = append(tries, try{to.what, protocol, to.addresses[i]})
				want = append(want, fmt.Sprintf("%s by %s: %t", to.what, protocol, to.answered))
			}
		}
		eventually(t, what+": "+strings.Join(want, ", "), func() string {
			got := make([]string, len(tries))
			var asking sync.WaitGroup
			for i, try := range tries {
				asking.Go(func() {
					got[i] = fmt.Sprintf("%s by %s: %t", try.what, try.protocol, strings.HasPrefix(asks(t, who, try.protocol, try.address), "face sees"))
				})
			}
			asking.Wait()
			return what + ": " + strings.Join(got, ", ")
		})
	}
	reaches("without a policy", true, true)
	g.setPolicy(egress)
	reaches("with nothing allowed", false, false)
	for _, v6 := range []bool{false, true} {
		face := g.face("r", "server", v6)
		block := &model.Block{CIDR: netip.PrefixFrom(face, face.BitLen())}
		egress.Rules[model.PolicyEgress] = append(egress.Rules[model.PolicyEgress], model.Rule{
			Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Block: block}},
		})
	}
	g.setPolicy(egress)
	reaches("with one face allowed", true, false)
	g.deletePolicy(egress.Key)
	reaches("without the policy again", true, true)
}
