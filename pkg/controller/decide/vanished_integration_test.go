//go:build integration

package decide_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// TestClientsOfAPodThatVanishesWithPackets: a pod behind a Service is deleted by force, and says nothing to its clients. One that
// dials again from the same port has another endpoint, one that goes on has its connection reset, and a consumer's node forgets,
// too. A connection to a pod that only left the Service goes on, until that pod vanishes.
func TestClientsOfAPodThatVanishesWithPackets(t *testing.T) {
	g := newPeerStage(t)
	g.plugNode()
	consumer := g.pod("b", "client")
	g.says("red", "blue")
	for ns := range homes {
		g.pod(ns, "client")
		for _, name := range []string{"vanishes", "leaves", "stays"} {
			g.serve(g.pod(ns, name), facePort, name)
		}
		g.setService(dualService(ns, "web"))
	}
	type client struct {
		ns, vip    string
		port       uint16
		goesOn     talk
		hasAnother talk
	}
	var clients []*client
	to := func(names ...string) {
		t.Helper()
		for ns := range homes {
			for _, v6 := range []bool{false, true} {
				g.leadsTo(ns, "web", v6, names...)
			}
		}
	}
	open := func(ns, vip string, from uint16, want string) talk {
		t.Helper()
		conn, err := dialFromPort(t, g.guests[model.PodKey{Namespace: ns, Name: "client"}], from, vip)
		if err != nil {
			t.Fatalf("%s: %v", vip, err)
		}
		if answer, err := conn.ask(); err != nil || !strings.HasPrefix(answer, want) {
			t.Fatalf("%s: %q (%v), want %s", vip, answer, err, want)
		}
		return conn
	}

	to("vanishes")
	for ns := range homes {
		for i, vip := range vips(ns) {
			c := &client{ns: ns, vip: vip, port: uint16(30000 + i)}
			clients = append(clients, c)
			c.goesOn = open(ns, vip, 0, "vanishes")
			open(ns, vip, c.port, "vanishes").vanish(t)
		}
	}
	g.until(consumer, vips("r")[0], "face sees")
	for i, vip := range vips("r") {
		open("b", vip, 0, "face")
		g.tracked(netip.AddrPortFrom(g.face("r", "vanishes", i == 1), facePort), true)
	}
	to("leaves")
	for _, c := range clients {
		c.hasAnother = open(c.ns, c.vip, 0, "leaves")
	}
	to("stays")
	said := func(c talk, want string) {
		t.Helper()
		if answer, err := c.ask(); err != nil || !strings.HasPrefix(answer, want) {
			t.Errorf("from %s: %q (%v), want %s", c.LocalAddr(), answer, err, want)
		}
	}
	for _, c := range clients {
		said(c.goesOn, "vanishes")
	}
	var gone [][2]netip.AddrPort
	for ns := range homes {
		for _, v6 := range []bool{false, true} {
			gone = append(gone, [2]netip.AddrPort{
				netip.AddrPortFrom(g.own(ns, "vanishes", v6), facePort), netip.AddrPortFrom(g.face(ns, "vanishes", v6), facePort),
			})
		}
		g.vanishes(ns, "vanishes")
	}
	for _, c := range clients {
		eventually(t, "answered by another one", func() string {
			conn, err := dialFromPort(t, g.guests[model.PodKey{Namespace: c.ns, Name: "client"}], c.port, c.vip)
			if err != nil {
				return refusal(err) + ": " + g.trackedTo(netip.MustParseAddrPort(c.vip).Addr())
			}
			defer conn.Close()
			if answer, err := conn.ask(); err != nil || !strings.HasPrefix(answer, "stays") {
				return fmt.Sprintf("%q (%v)", answer, err)
			}
			return "answered by another one"
		})
	}
	for _, endpoint := range gone {
		g.tracked(endpoint[0], false)
		g.tracked(endpoint[1], false)
	}
	for _, c := range clients {
		if answer, err := c.goesOn.ask(); err == nil || refusal(err) != "connection reset by peer" {
			t.Errorf("%s, who went on: %q (%v)", c.vip, answer, err)
		}
		said(c.hasAnother, "leaves")
	}
	var left []netip.AddrPort
	for ns := range homes {
		for _, v6 := range []bool{false, true} {
			left = append(left, netip.AddrPortFrom(g.own(ns, "leaves", v6), facePort))
		}
		g.vanishes(ns, "leaves")
	}
	for _, endpoint := range left {
		g.tracked(endpoint, false)
	}
	for _, c := range clients {
		if answer, err := c.hasAnother.ask(); err == nil || refusal(err) != "connection reset by peer" {
			t.Errorf("%s, to a pod that left and vanished later: %q (%v)", c.vip, answer, err)
		}
	}
}

// TestNobodyIsLedToVanishedEndpointsWithPackets: a pod of the default Network dials an address that nothing translates there, and
// that is in the load balancer of vanished endpoints with a face. It is not led there. At the default Network's own router it
// would be, past the guard.
func TestNobodyIsLedToVanishedEndpointsWithPackets(t *testing.T) {
	g := newFaceStage(t)
	client := g.pod("a", "client")
	g.pod("r", "web")
	vips, faces := [2]string{"10.96.0.99:80", "[fd96::99]:80"}, g.to("r", "web")
	g.expect(client, "a pod that is no infrastructure's", faces, false)
	g.engine.stop()
	balancer := strings.TrimSpace(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "Load_Balancer", `name="default:vanished"`))
	for i, vip := range vips {
		nbctl(t, g.central, "set", "Load_Balancer", balancer, fmt.Sprintf("vips:%q=%q", vip, faces[i]))
	}
	g.sync()
	dials := func() {
		t.Helper()
		for _, vip := range vips {
			if got := asks(t, client, "tcp", vip); got != "i/o timeout" {
				t.Errorf("%s: %q", vip, got)
			}
		}
	}
	dials()
	for _, face := range faces {
		if found := g.trackedTo(netip.MustParseAddrPort(face).Addr()); found != "" {
			t.Errorf("it is led to %s: %s", face, found)
		}
	}
	// The control. The router translates what it leads there, but not the answer.
	nbctl(t, g.central, "add", "Logical_Router", "default", "load_balancer", balancer)
	g.sync()
	dials()
	for _, face := range faces {
		g.tracked(netip.MustParseAddrPort(face), true)
	}
}

// plugNode puts an interface where the node's own is in the default Network, whose rows the node then has.
func (s *stage) plugNode() {
	s.t.Helper()
	var have model.NodeNetwork
	eventually(s.t, "written", func() string {
		if have = s.nodeHas("n1"); have.MAC == "" {
			return "not written"
		}
		return "written"
	})
	g, err := s.chassis.Plug(s.t.Context(), ovn.Interface{
		Port: model.NodePortName("default", "n1"), MAC: have.MAC, Addresses: have.Addresses, Gateways: have.Gateways,
	})
	if err == nil {
		err = s.chassis.Installed(s.t.Context(), g)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// vanishes takes a pod away that says nothing to anybody.
func (s *stage) vanishes(ns, name string) {
	s.t.Helper()
	key := model.PodKey{Namespace: ns, Name: name}
	if err := s.chassis.Release(s.t.Context(), s.guests[key]); err != nil {
		s.t.Fatal(err)
	}
	s.deletePod(key)
}

// tracked waits until the node tracks connections that are led to an endpoint, or none.
func (s *stage) tracked(endpoint netip.AddrPort, want bool) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(want), func() string {
		found := s.trackedTo(endpoint.Addr())
		if (found != "") == want {
			return fmt.Sprint(want)
		}
		return fmt.Sprintf("%s is tracked: %q", endpoint, found)
	})
}

// trackedTo is what the node tracks of connections whose virtual address, or whose endpoint, is an address.
func (s *stage) trackedTo(a netip.Addr) string {
	s.t.Helper()
	all, err := s.chassis.Ask(s.t.Context(), "ovs-vswitchd", "dpctl/dump-conntrack")
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(all) {
		orig, reply, _ := strings.Cut(line, ",reply=")
		if strings.HasPrefix(orig, "tcp,") && (strings.Contains(orig, "dst="+a.String()+",") || strings.Contains(reply, "src="+a.String()+",")) &&
			!strings.Contains(orig, "dst="+replySource(reply)+",") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

// replySource is who answers in a connection that Open vSwitch tracks.
func replySource(reply string) string {
	_, after, _ := strings.Cut(reply, "src=")
	source, _, _ := strings.Cut(after, ",")
	return source
}

// dialFromPort dials by TCP from a port; 0: any.
func dialFromPort(t *testing.T, g *ovn.Guest, port uint16, address string) (talk, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: int(port)}}
	var conn net.Conn
	err := g.Do(func() (err error) {
		conn, err = wait.Dial(&dialer, "tcp", address, patience)
		return err
	})
	if err != nil {
		return talk{}, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return talk{conn}, nil
}

// vanish closes a connection by TCP of which the other end is not told. (TCP_REPAIR, tcp(7).)
func (c talk) vanish(t *testing.T) {
	t.Helper()
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err == nil {
		var failed error
		if err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) }); err == nil {
			err = failed
		}
	}
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
