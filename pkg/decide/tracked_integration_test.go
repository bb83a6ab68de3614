//go:build integration

package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/ovn"
)

// TestDatagramsSentTooEarlyWithPackets: pods send datagrams, each from one port all the time, to addresses that nobody serves. They are refused; and when
// somebody serves the addresses, the same ports are answered. Without the rows that refuse, they never are.
func TestDatagramsSentTooEarlyWithPackets(t *testing.T) {
	t.Run("refused", func(t *testing.T) { sentTooEarly(t, false) })
	t.Run("control", func(t *testing.T) { sentTooEarly(t, true) })
}

// early is a pod's socket that sends to an address before anybody serves it.
type early struct {
	talk
	what string
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
	}{
		{"a", "a Service of the default Network", vips("a")},
		{"r", "a Service", vips("r")},
		{"b", "a Service of a Network that is not a provider yet", vips("r")},
		{"r", "a port that is added", later},
		{"r", "the face of a pod that comes", [2]string{
			netip.AddrPortFrom(g.face("r", "server", false).Next(), 8080).String(), netip.AddrPortFrom(g.face("r", "server", true).Next(), 8080).String(),
		}},
	} {
		for _, address := range s.to {
			conn, err := dial(t, clients[s.ns], "udp", address)
			if err != nil {
				t.Fatal(err)
			}
			e := early{conn, s.what + " " + address}
			if answer, err := e.ask(); err == nil || refusal(err) != refused && !control {
				t.Errorf("%s, before it is there: %q (%v)", e.what, answer, err)
			}
			sent = append(sent, e)
		}
	}

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
	g.serve(g.pod("r", "next"), 8080, "next")
	for i, vip := range vips("r") {
		g.leads("red", "r/extended", "udp", later[i], server[i])
		g.leads("red:offered", "r/web", "udp", vip, netip.AddrPortFrom(g.face("r", "server", i == 1), 8080))
	}
	g.until(clients["b"], vips("r")[0], "face sees")
	for _, e := range sent {
		if answer, err := e.ask(); (err != nil) != control {
			t.Errorf("%s, when it is there: %q (%v)", e.what, answer, err)
		}
	}
}
