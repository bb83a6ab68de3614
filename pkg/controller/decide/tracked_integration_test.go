//go:build integration

package decide_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// TestDatagramsSentTooEarlyWithPackets: pods send datagrams, each from one port all the time, to addresses that nobody serves.
// They are refused; and when somebody serves the addresses, the same ports are answered. Without the rows that refuse, they never
// are. Datagrams that nobody answers arrive at whom a Service leads to, each of them: what has no answer begins anew with each
// datagram, as connection tracking sees it.
func TestDatagramsSentTooEarlyWithPackets(t *testing.T) {
	t.Run("refused", func(t *testing.T) { sentTooEarly(t, false) })
	t.Run("control", func(t *testing.T) { sentTooEarly(t, true) })
}

// quietPort is where a pod listens that answers nothing.
const quietPort = 8081

// early is a pod's socket that sends to an address before anybody serves it.
type early struct {
	talk
	what string
	// silent is where those arrive that nobody answers; nil: they are answered.
	silent *net.UDPConn
}

// goOn sends some datagrams without waiting for answers, and returns an error unless each arrives.
func (e early) goOn() error {
	for i := range 5 {
		text := fmt.Sprintf("%d from %s", i, e.LocalAddr())
		if _, err := io.WriteString(e, text); err != nil {
			return err
		}
		if err := heard(e.silent, text); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
	}
	return nil
}

// heard waits until a datagram arrives.
func heard(at *net.UDPConn, text string) error {
	defer wait.Limit(at, patience)()
	packet := make([]byte, 100)
	for {
		n, _, err := at.ReadFromUDPAddrPort(packet)
		if err != nil || string(packet[:n]) == text {
			return err
		}
	}
}

// listens takes datagrams at a port of all of a pod's addresses, and answers none.
func (s *stage) listens(g *ovn.Guest, port uint16) *net.UDPConn {
	s.t.Helper()
	var udp *net.UDPConn
	if err := g.Do(func() (err error) {
		udp, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv6Unspecified(), port)))
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = udp.Close() })
	return udp
}

func sentTooEarly(t *testing.T, control bool) {
	g := newPeerStage(t)
	clients := map[string]*ovn.Guest{}
	for _, ns := range []string{"a", "r", "b"} {
		clients[ns] = g.pod(ns, "client")
	}
	for ns := range homes {
		g.serve(g.pod(ns, "server"), 8080, "server")
	}
	// A Service that has another port.
	extended := dualService("r", "extended")
	ports := extended.Ports
	extended.ClusterIPs, extended.Ports = []netip.Addr{at("10.96.0.16"), at("fd96::16")}, ports[:1]
	g.setService(extended)
	g.behind("r", "extended", false, "server")
	g.behind("r", "extended", true, "server")
	server := [2]netip.AddrPort{netip.AddrPortFrom(g.own("r", "server", false), 8080), netip.AddrPortFrom(g.own("r", "server", true), 8080)}
	later := [2]string{"10.96.0.16:80", "[fd96::16]:80"}
	for i, vip := range later {
		g.leads("red", "r/extended", "tcp", vip, server[i])
	}
	// What blue's pods send to faces comes to the node.
	quiet, quietNode := g.listens(g.pod("r", "silent"), quietPort), g.listens(g.node, quietPort)
	unanswered := [2]string{"10.96.0.17:80", "[fd96::17]:80"}
	next := [2]string{
		netip.AddrPortFrom(g.face("r", "silent", false).Next(), 8080).String(),
		netip.AddrPortFrom(g.face("r", "silent", true).Next(), 8080).String(),
	}
	if control {
		// Nobody makes the rows anew meanwhile.
		g.engine.stop()
		for row := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "ACL", "name=unserved")) {
			g.unhang(row)
		}
		g.sync()
	}

	var sent []early
	for _, s := range []struct {
		ns, what string
		to       [2]string
		silent   *net.UDPConn
	}{
		{"a", "a Service of the default Network", vips("a"), nil},
		{"r", "a Service", vips("r"), nil},
		{"b", "a Service of a Network that is not a provider yet", vips("r"), nil},
		{"r", "a port that is added", later, nil},
		{"r", "a Service that does not answer", unanswered, quiet},
		{"b", "a Service that does not answer, of a Network that is not a provider yet", unanswered, quietNode},
		{"r", "the face of a pod that comes", next, nil},
	} {
		for _, address := range s.to {
			conn, err := dial(t, clients[s.ns], "udp", address)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, early{conn, s.what + " " + address, s.silent})
		}
	}
	// All at once: where they are tracked, none is silent for so long that it is forgotten.
	each(sent, func(e early) {
		if answer, err := e.ask(); err == nil || refusal(err) != refused && !control {
			t.Errorf("%s, before it is there: %q (%v)", e.what, answer, err)
		}
	})

	if control {
		g.replay(g.namespaces)
		g.engine = startEngineOf(t, g.cluster, g.central.NBAddress(), "2", stageSettings())
	}
	g.says("red", "blue")
	extended.Ports = ports
	g.setService(extended)
	for ns := range homes {
		g.setService(dualService(ns, "web"))
		g.leadsTo(ns, "web", false, "server")
		g.leadsTo(ns, "web", true, "server")
	}
	silent := dualService("r", "silent")
	silent.ClusterIPs = []netip.Addr{at("10.96.0.17"), at("fd96::17")}
	g.setService(silent)
	for i, vip := range unanswered {
		endpoints := slice("r", fmt.Sprintf("silent-%d", i), "silent")
		endpoints.Ports = []model.SlicePort{{Name: "udp", Protocol: model.UDP, Port: quietPort}}
		endpoints.Endpoints = []model.Endpoint{endpoint("r", "silent", g.face("r", "silent", i == 1).String())}
		g.setSlice(endpoints)
		g.leads("red", "r/silent", "udp", vip, netip.AddrPortFrom(g.own("r", "silent", i == 1), quietPort))
		g.leads("red:offered", "r/silent", "udp", vip, netip.AddrPortFrom(g.face("r", "silent", i == 1), quietPort))
	}
	g.serve(g.pod("r", "next"), 8080, "next")
	for i, vip := range vips("r") {
		g.leads("red", "r/extended", "udp", later[i], server[i])
		g.leads("red:offered", "r/web", "udp", vip, netip.AddrPortFrom(g.face("r", "server", i == 1), 8080))
	}
	g.until(clients["b"], vips("r")[0], "face sees")
	each(sent, func(e early) {
		if e.silent != nil {
			if err := e.goOn(); (err != nil) != control {
				t.Errorf("%s, when it is there: %v", e.what, err)
			}
			return
		}
		if answer, err := e.ask(); (err != nil) != control {
			t.Errorf("%s, when it is there: %q (%v)", e.what, answer, err)
		}
	})
}

// each does something with all at once, and waits for it; one after the other with those that share a listener.
func each(all []early, do func(early)) {
	var doing sync.WaitGroup
	defer doing.Wait()
	listened := map[*net.UDPConn][]early{}
	for _, e := range all {
		if e.silent != nil {
			listened[e.silent] = append(listened[e.silent], e)
			continue
		}
		doing.Go(func() { do(e) })
	}
	for _, some := range listened {
		doing.Go(func() {
			for _, e := range some {
				do(e)
			}
		})
	}
}
