//go:build integration

package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/stream"
)

// jointStage is a stage with Networks red, blue and green of their own addresses, each with a pod called server that says whom it sees.
type jointStage struct {
	*stage
	servers map[string]*ovn.Guest
}

func newJointStage(t *testing.T) *jointStage {
	g := &jointStage{stage: newStage(t), servers: map[string]*ovn.Guest{}}
	for i, name := range []string{"red", "blue", "green"} {
		n := network(name)
		n.Subnets = []model.Subnet{{Name: "pods", CIDRs: []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.%d.0.0/24", i+1)), netip.MustParsePrefix(fmt.Sprintf("fd00:%d::/64", i+1)),
		}}}
		g.setNetwork(n)
		g.setNamespace(name[:1], map[string]string{model.LabelNetwork: name})
		g.servers[name] = g.pod(name[:1], "server")
		g.serve(g.servers[name], 8080, "server")
	}
	return g
}

// says changes whom a Network is compatible with: each "NAME" by face or "NAME routed".
func (g *jointStage) says(network string, peers ...string) {
	n := *g.networks[network]
	n.CompatibleWith = nil
	for _, peer := range peers {
		name, mode, _ := strings.Cut(peer, " ")
		p := model.CompatiblePeer{Network: name, Mode: model.ByFace}
		if mode == "routed" {
			p.Mode = model.Routed
		}
		n.CompatibleWith = append(n.CompatibleWith, p)
	}
	g.setNetwork(n)
}

// at are the addresses of a Network's server.
func (g *jointStage) at(network string) (out [2]string) {
	for i := range out {
		out[i] = netip.AddrPortFrom(g.own(network[:1], "server", i == 1), 8080).String()
	}
	return out
}

// until waits until the server of Network from gets the wanted answer.
func (g *jointStage) until(from string, at, want string) {
	g.t.Helper()
	eventually(g.t, want, func() string {
		got := asks(g.t, g.servers[from], "tcp", at)
		if strings.HasPrefix(got, want) {
			return want
		}
		return got
	})
	g.sync()
}

// expect asks from a Network's server in both families by TCP and UDP: it is seen with its own address, or nobody answers.
func (g *jointStage) expect(from, what string, at [2]string, answered bool) {
	g.t.Helper()
	var all sync.WaitGroup
	for i, address := range at {
		want := "server sees " + g.own(from[:1], "server", i == 1).String()
		for _, protocol := range []string{"tcp", "udp"} {
			all.Go(func() {
				got := strings.TrimSpace(asks(g.t, g.servers[from], protocol, address))
				if (got == want) != answered || !answered && strings.HasPrefix(got, "server sees") {
					g.t.Errorf("%s: %s dials %s by %s: %q", what, from, address, protocol, got)
				}
			})
		}
	}
	all.Wait()
}

// Pods of joined Networks reach each other by their own addresses, and by Services without translation of the client's, in the directions
// that are allowed and in no other; and nobody reaches a third Network through one.
func TestJoinedWithPackets(t *testing.T) {
	g := newJointStage(t)
	g.setService(dualService("r", "web"))
	g.behind("r", "web", false, "server")
	g.behind("r", "web", true, "server")
	red, blue, green, service := g.at("red"), g.at("blue"), g.at("green"), vips("r")

	g.says("red", "blue routed")
	g.says("blue", "green routed")
	g.until("blue", red[0], "server sees")
	g.until("green", blue[0], "server sees")
	for i, vip := range service {
		g.leads("red:joined", "r/web", "udp", vip, netip.AddrPortFrom(g.own("r", "server", i == 1), 8080))
	}
	g.expect("blue", "a consumer", red, true)
	g.expect("blue", "a consumer, by a Service", service, true)
	g.expect("green", "a consumer of another", blue, true)
	closed := func(when string) {
		t.Helper()
		// A dial that nobody answers takes all of patience, so all dial at once.
		var all sync.WaitGroup
		all.Go(func() { g.expect("red", "the provider's pod "+when, blue, false) })
		all.Go(func() { g.expect("green", "through a third "+when, red, false) })
		all.Go(func() { g.expect("red", "through a third, backwards "+when, green, false) })
		all.Wait()
	}
	closed("at first")

	// Turned: what was open the other way ends, and what stays allowed goes on.
	open := func(from, at string) talk {
		t.Helper()
		conn, err := dial(t, g.servers[from], "tcp", at)
		if err == nil {
			_, err = conn.ask()
		}
		if err != nil {
			t.Fatalf("a connection from %s to %s: %v", from, at, err)
		}
		return conn
	}
	g.says("blue", "green routed", "red")
	g.until("red", blue[0], "server sees")
	g.expect("red", "mutual, though one direction says nothing of the mode", blue, true)
	g.expect("blue", "mutual", red, true)
	ends, stays := open("blue", red[0]), open("red", blue[1])
	g.says("blue", "green routed", "red routed")
	g.says("red")
	eventually(t, "ended", func() string {
		if answer, err := ends.ask(); err == nil {
			return answer
		}
		return "ended"
	})
	g.expect("blue", "turned", red, false)
	g.expect("red", "turned", blue, true)
	if _, err := stays.ask(); err != nil {
		t.Errorf("a connection that stays allowed does not go on: %v", err)
	}
	g.says("red", "blue routed")
	g.says("blue", "green routed")
	g.until("blue", red[0], "server sees")
	closed("again")

	// Each row that keeps a direction, or a third Network, apart: without it what is closed is open, or the next row still closes it.
	g.engine.stop()
	without := func(table, column, parent string, where ...string) {
		t.Helper()
		rows := strings.Fields(nbctl(t, g.central, append([]string{"--bare", "--columns=_uuid", "find", table}, where...)...))
		if len(rows) == 0 {
			t.Fatalf("there is no row of %s %v", table, where)
		}
		for _, row := range rows {
			for in := range strings.FieldsSeq(nbctl(t, g.central, "--bare", "--columns=_uuid", "find", parent, column+"{>=}"+row)) {
				nbctl(t, g.central, "remove", parent, in, column, row)
			}
		}
		g.sync()
	}
	// A route that leads on: the third's router knows the way there and back, as if it had been taken in for one of blue's.
	port := func(of, to string) string { return of + ":to:" + to }
	for _, r := range [][4]string{{"green", "10.1.0.0/24", "blue", "10.1.0.0/24"}, {"red", "10.3.0.0/24", "blue", "10.3.0.0/24"}} {
		route := strings.Fields(nbctl(t, g.central, "--bare", "--columns=nexthop", "find",
			"Logical_Router_Static_Route", fmt.Sprintf("output_port=%q", port(r[0], r[2]))))
		i := slices.IndexFunc(route, func(a string) bool { return netip.MustParseAddr(a).Is4() })
		nbctl(t, g.central, "lr-route-add", r[0], r[1], route[i], port(r[0], r[2]))
	}
	g.sync()
	fourth := func(what string, answered bool) {
		t.Helper()
		got := asks(t, g.servers["green"], "tcp", red[0])
		if strings.HasPrefix(got, "server sees") != answered {
			t.Errorf("%s: green dials red through blue: %q", what, got)
		}
	}
	fourth("with routes to it", false)
	for row := range strings.FieldsSeq(
		nbctl(t, g.central, "--bare", "--columns=_uuid", "find", "Logical_Router_Port", "options:route_table=own")) {
		nbctl(t, g.central, "remove", "Logical_Router_Port", row, "options", "route_table")
	}
	g.sync()
	fourth("with routes, and without tables of routes", false)
	without("Logical_Router_Policy", "policies", "Logical_Router", "action=drop")
	without("ACL", "acls", "Logical_Switch", "action=drop", "direction=to-lport", "name=[]", `external_ids:"atoll.dev/network"=blue`)
	fourth("without anything", true)
	g.expect("red", "without the row that keeps the direction", blue, true)
}

// Pairs that come, turn, change their mode and go lose no packet that is allowed all the while, and let none pass that is not.
func TestJoinedUnderTraffic(t *testing.T) {
	g := newJointStage(t)
	g.says("red", "blue routed")
	g.until("blue", g.at("red")[0], "server sees")
	at := func(network string, port uint16, v6 bool) netip.AddrPort {
		return netip.AddrPortFrom(g.own(network[:1], "server", v6), port)
	}
	from := func(network, to string, port uint16, v6 bool) *stream.Stream {
		return stream.New(t, g.servers[network].Do, g.servers[to].Do, at(to, port, v6), time.Millisecond)
	}
	open := []*stream.Stream{from("blue", "red", 9001, false), from("blue", "red", 9002, true)}
	closed := map[string]*stream.Stream{
		"from red to green":                 from("red", "green", 9001, false),
		"from green to red, by way of blue": from("green", "red", 9003, false),
		"from red to blue":                  from("red", "blue", 9001, true),
	}
	const changes = 6
	for range changes {
		for _, step := range []func(){
			func() { g.says("blue", "green routed") },
			func() { g.says("green", "blue routed") },
			func() { g.says("blue") },
			func() { g.says("green", "blue") },
			func() { g.says("green", "red") },
			func() { g.says("green") },
		} {
			step()
			g.sync()
			// Some packets pass, or do not, in this state.
			if err := open[0].Wait(100); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent := int64(0)
	for i, s := range open {
		if lost := s.End(); len(lost) > 0 {
			t.Errorf("of %d packets of stream %d, which are allowed all the while, %d were lost: %v", s.Sent(), i, len(lost),
				lost[:min(len(lost), 20)])
		}
		sent += s.Sent()
	}
	for what, s := range closed {
		lost := s.End()
		if passed := s.Sent() - int64(len(lost)); passed > 0 {
			t.Errorf("%d of %d packets passed %s", passed, s.Sent(), what)
		}
	}
	if sent < 1000 {
		t.Errorf("only %d packets were sent", sent)
	}
	t.Logf("%d changes, %d packets that are allowed", changes*6, sent)
}
