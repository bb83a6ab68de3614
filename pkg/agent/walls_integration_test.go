//go:build integration

package agent

import (
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/frames"
)

// sbctl reads the southbound database.
func (n *node) sbctl(args ...string) string {
	n.tb.Helper()
	return n.run("ovn-sbctl", append([]string{"--timeout=20", "--db=unix:" + n.central + "/ovn.sock"}, args...)...)
}

// tunnelled is what a node sends to another in a tunnel (RFC 8926; ovn-architecture(7), "Tunnel Encapsulations"): a frame for a
// pod, as if its Network's router had sent it.
func (n *node) tunnelled(p *testPod, text string) []byte {
	n.tb.Helper()
	key := func(table, what string) uint32 {
		k, err := strconv.ParseUint(n.sbctl("--bare", "--columns=tunnel_key", "find", table, what), 10, 24)
		must(n.tb, err)
		return uint32(k)
	}
	name := p.request.Pod.Key().String()
	datapath := key("Datapath_Binding", "external_ids:name="+p.nic.Network)
	// A frame does not leave by the port that it came by.
	router, port := key("Port_Binding", "logical_port="+p.nic.Network+"-a-r"), key("Port_Binding", "logical_port="+name)
	mac, err := net.ParseMAC(p.nic.MAC)
	must(n.tb, err)
	return frames.Geneve(frames.Inner{Datapath: datapath, From: router, To: port}, frames.V4{
		From: mac, To: mac, Source: netip.MustParseAddr("10.0.77.77"), Target: p.nic.Addresses[0].Addr(), Protocol: unix.IPPROTO_UDP,
		Payload: frames.UDP(4711, 9, text),
	}.Bytes())
}

// sendUDP sends a datagram as any program can. A refusal of an earlier one is as good.
func sendUDP(tb testing.TB, inside func(func() error) error, to string, payload []byte) {
	tb.Helper()
	must(tb, inside(func() error {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, _ = conn.Write(payload)
		return nil
	}))
}

// wall is something that keeps a packet from its way: without it the packet arrives.
type wall struct{ netns, rule string }

// without takes walls out until the next sweep builds them again.
func without(tb testing.TB, walls ...wall) {
	tb.Helper()
	for _, w := range walls {
		command := append([]string{"nft"}, strings.Fields(w.rule)...)
		if w.netns != "" {
			command = append([]string{"ip", "netns", "exec", w.netns}, command...)
		}
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			tb.Fatalf("%v: %v %s", command, err, out)
		}
	}
}

// TestForgedTunnels: pods of a vpc Network, of the default Network, and processes of the node itself send by an ordinary UDP
// socket what a node sends in a tunnel: a frame for a pod of another Network, on another node, which trusts the address of the
// node that they are on. None arrives; without what keeps them from it, each does.
func TestForgedTunnels(t *testing.T) {
	n := newNode(t)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	nodes := []*model.Node{givenTo(n.name, 1), givenTo(other.name, 2)}
	nodes[0].Addresses = []netip.Addr{netip.MustParseAddr(n.encapIP)}
	// The API need not know the other's: OVN does.
	n.addDefault(nodes...)
	n.addNetwork("red", testSubnet, testSubnet6)
	n.addNetwork("blue", testSubnet, testSubnet6)
	a, b := n.agent(), other.agent()
	for _, agent := range []*Agent{a, b} {
		agent.seesCluster(nil, nodes, vpc("red"), vpc("blue"))
	}
	must(t, a.sweep(t.Context()))
	t.Cleanup(func() { n.clearPortholes(a) })
	must(t, other.inside(func() error { return b.sweep(t.Context()) }))
	red, infra := n.addGuest(a, "red", "one", 5, 5), n.addDefaultPod(a, "infra", 5)
	var victim *testPod
	must(t, other.inside(func() error {
		victim = other.addGuest(b, "blue", "one", 7, 5)
		return nil
	}))
	n.nbctl("--wait=hv", "sync")
	// The tunnel is there, and leads to the victim.
	came := inboxOf(listenUDP(t, victim.inside, ":9"))
	// What the node itself sends to a pod there goes through the tunnel, and marks what was sent before it.
	honest := func(text string) { sendUDP(t, here, victim.nic.Faces[0].String()+":9", []byte(text)) }
	came.wantArrival(t, "friend", func() { honest("friend") })
	// Not a sweep: both nodes' portholes are in one directory here.
	build := func() { must(t, a.portholes.Refresh(t.Context(), portholes.Doubting)) }
	build()
	tunnel := other.encapIP + ":6081"
	open := []wall{{"", "flush set inet atoll tunnels"}, {"", "flush set inet atoll closed4"}, {"", "flush set inet atoll infra4"}}
	id := porthole.IDOf(uidOf("red")).Name()
	for _, test := range []struct {
		who    string
		inside func(func() error) error
		open   []wall
	}{
		{"red", red.inside, append([]wall{{id, "flush set inet atoll never4"}, {id, "flush set inet atoll infra4"}}, open...)},
		{"default", infra.inside, open},
		{"node", here, open[:1]},
	} {
		t.Run(test.who, func(t *testing.T) {
			build()
			text := "forged by " + test.who
			forge := func() { sendUDP(t, test.inside, tunnel, n.tunnelled(victim, text)) }
			came.never(t, text, forge, honest)
			without(t, test.open...)
			came.wantArrival(t, text, forge)
		})
	}
	t.Run("walls are built again", func(t *testing.T) {
		build()
		came.never(t, "late", func() {
			for _, inside := range []func(func() error) error{red.inside, infra.inside, here} {
				sendUDP(t, inside, tunnel, n.tunnelled(victim, "late"))
			}
		}, honest)
	})
}
