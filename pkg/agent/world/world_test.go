package world

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// testWorld is a cluster of two nodes with a default Network, and a Network red.
func testWorld() *World {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	w := New("n1")
	w.SetInfrastructure(Infrastructure{
		DNS: []netip.Addr{addr("10.96.0.10")}, Services: []netip.Prefix{prefix("10.96.0.0/16")},
		Faces: []netip.Prefix{prefix("100.64.0.0/10")}, Others: []netip.Prefix{prefix("172.31.0.0/16")},
		DefaultSubnet: prefix("10.128.0.0/14"),
	})
	w.SetNetwork(&model.Network{
		Name: "red", UID: uidOf("red"), Type: model.VPC, Egress: model.EgressNode, Infra: model.InfraServices, DNS: model.DNSNode,
		Subnets: []model.Subnet{{Name: "a", CIDRs: []netip.Prefix{prefix("10.0.0.0/24")}}},
	})
	w.SetNetwork(&model.Network{Name: "default", UID: uidOf("default"), Type: model.Flat})
	for name, number := range map[string]string{"n1": "1", "n2": "2"} {
		w.SetNode(&model.Node{
			Name: name, UID: "uid-" + name, Addresses: []netip.Addr{addr("192.0.2." + number)},
			Assigned: &model.NodeNetwork{
				NodeUID: "uid-" + name, Network: "default", NetworkUID: uidOf("default"), MAC: "0a:58:0a:80:00:02",
				Addresses: []netip.Prefix{prefix("10.128.0." + number + "/14")}, Gateways: []netip.Addr{addr("10.128.0.254")},
				Faces: []netip.Prefix{prefix("100.64." + number + ".0/24")},
			},
		})
	}
	w.SetAPI([]netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")})
	w.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort("192.0.2.9:6443")})
	w.ShutOutRead()
	w.SetLocal([]netip.Addr{addr("203.0.113.1")})
	return w
}

// guestNIC is an interface in a Network with one address.
func guestNIC(network, own, face string) attachment.NIC {
	return attachment.NIC{
		Network: network, NetworkUID: uidOf(network),
		Addresses: []netip.Prefix{netip.MustParsePrefix(own + "/24")},
		Faces:     []netip.Addr{netip.MustParseAddr(face)},
	}
}

// uidOf is the UID of a Network of these tests.
func uidOf(network string) string { return "uid-of-" + network }

func TestWhoMayHaveAPorthole(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		nic    attachment.NIC
		change func(*World)
		// lacks is part of what is said; empty when nothing is missing.
		lacks string
	}{
		{name: "a pod of the node", nic: guestNIC("red", "10.0.0.5", "100.64.1.5")},
		{name: "a face of another node", nic: guestNIC("red", "10.0.0.5", "100.64.2.5"), lacks: "not one of node n1"},
		{name: "an address that the Network has not", nic: guestNIC("red", "10.1.0.5", "100.64.1.5"), lacks: "in no subnet"},
		{name: "an unknown Network", nic: guestNIC("green", "10.0.0.5", "100.64.1.5"), lacks: "has not shown Network green"},
		{
			name: "a Network that was made anew", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) { w.DropNetwork(uidOf("red")) }, lacks: "has not shown Network red",
		},
		{name: "a flat Network", nic: guestNIC("default", "10.128.0.5", "100.64.1.5"), lacks: "not of type vpc"},
		{
			name: "a node that was never given faces", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) { delete(w.nodes, "n1"); w.SetNode(&model.Node{Name: "n1"}) }, lacks: "has not given node n1",
		},
		{
			name: "a Node that has lost its annotation", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) { w.SetNode(&model.Node{Name: "n1"}) },
		},
		{
			name: "a Node that has gone", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) { w.DropNode("n1", time.Time{}) },
		},
		{
			name: "a Node that has gone, whose faces another node has", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) {
				w.DropNode("n1", time.Time{})
				w.SetNode(&model.Node{Name: "n3", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{netip.MustParsePrefix("100.64.1.0/24")}}})
			},
			lacks: "has not given node n1",
		},
		{
			name: "a Node whose address another node had before it lost its annotation", nic: guestNIC("red", "10.0.0.5", "100.64.1.5"),
			change: func(w *World) {
				w.SetNode(&model.Node{
					Name: "n3", Assigned: &model.NodeNetwork{
						NetworkUID: uidOf("default"), Addresses: []netip.Prefix{netip.MustParsePrefix("10.128.0.1/14")},
					},
				})
				w.SetNode(&model.Node{Name: "n1"})
			},
			lacks: "has not given node n1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld()
			if test.change != nil {
				test.change(w)
			}
			err := w.Lacks(test.nic)
			if (err == nil) != (test.lacks == "") || err != nil && !strings.Contains(err.Error(), test.lacks) {
				t.Errorf("error %v, want %q", err, test.lacks)
			}
		})
	}
}

func TestAwaitIsWokenByTheWorld(t *testing.T) {
	t.Parallel()
	w := testWorld()
	green := *w.networks[uidOf("red")]
	green.Name, green.UID = "green", uidOf("green")
	waits := make(chan error)
	go func() { waits <- w.Await(t.Context(), guestNIC("green", "10.0.0.5", "100.64.1.5")) }()
	w.SetNetwork(&green)
	if err := <-waits; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("gave up after all")
	cancel(enough)
	err := w.Await(ctx, guestNIC("blue", "10.0.0.5", "100.64.1.5"))
	if !errors.Is(err, enough) || !strings.Contains(err.Error(), "Network blue") {
		t.Errorf("error %v", err)
	}
	if w.waiting.Len() > 0 {
		t.Error("somebody still waits")
	}
}

func TestWorldDescribesAPorthole(t *testing.T) {
	t.Parallel()
	w := testWorld()
	spec, err := w.Porthole(uidOf("red"))
	if err != nil {
		t.Fatal(err)
	}
	// What no Network reaches: both nodes, their places in the default Network, the node's other addresses, the default
	// Network itself (which lists no subnet), Services, and what the owner named.
	for _, refused := range []string{
		"192.0.2.1/32", "192.0.2.2/32", "10.128.0.2/32", "203.0.113.1/32", "10.128.0.0/14", "10.96.0.0/16", "172.31.0.0/16",
	} {
		if !slices.Contains(spec.Cluster.Infra, netip.MustParsePrefix(refused)) {
			t.Errorf("%s is not refused: %v", refused, spec.Cluster.Infra)
		}
	}
	if !contains(spec.Cluster.Faces, netip.MustParseAddr("100.64.2.5")) {
		t.Errorf("faces are not refused: %v", spec.Cluster.Faces)
	}
	if len(spec.DNS) != 1 || len(spec.API) != 1 || len(spec.Cluster.Servers) != 1 || spec.Egress != model.EgressNode {
		t.Errorf("got %+v", spec)
	}
	silent := *w.networks[uidOf("red")]
	silent.DNS = model.DNSService
	// What makes no sense is no range: it would shut pods off from what is there.
	silent.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("10.0.0.0/16")}
	w.SetNetwork(&silent)
	spec, _ = w.Porthole(uidOf("red"))
	if len(spec.DNS) > 0 {
		t.Error("the node answers for names although a Service does")
	}
	if !slices.Equal(spec.ServiceRanges, silent.ServiceCIDRs[:1]) {
		t.Errorf("service ranges are %v", spec.ServiceRanges)
	}
	if _, err := w.Porthole("other"); !errors.Is(err, ErrNoNetwork) {
		t.Errorf("error %v", err)
	}
}

func TestWorldDescribesTheNode(t *testing.T) {
	t.Parallel()
	w := testWorld()
	host, network := w.Host()
	if network != "default" || len(host.Addresses) != 1 || len(host.Blocks) != 1 || len(host.Default) != 1 || len(host.Direct) > 0 {
		t.Errorf("got %q %+v", network, host)
	}
	open := *w.networks[uidOf("red")]
	open.Infra = model.InfraDirect
	w.SetNetwork(&open)
	if host, _ := w.Host(); !slices.Equal(host.Direct, []string{uidOf("red")}) {
		t.Errorf("direct: %v", host.Direct)
	}
	// Faces go on without a default Network.
	w.DropNetwork(uidOf("default"))
	if host, network := w.Host(); network != "" || len(host.Addresses) > 0 || len(host.Blocks) != 1 {
		t.Errorf("got %q %+v", network, host)
	}
}

// TestWorldKnowsItsWalls: OVN's tunnels and databases are closed to everybody where they have machines or addresses of their own,
// and by port where they share them with a node that direct access leads to.
func TestWorldKnowsItsWalls(t *testing.T) {
	t.Parallel()
	addr, server := netip.MustParseAddr, netip.MustParseAddrPort
	w := testWorld()
	w.infra.Closed = []netip.Prefix{netip.MustParsePrefix("172.30.0.0/24")}
	w.SetLocal([]netip.Addr{addr("192.0.2.1"), addr("198.18.0.1")})
	w.SetMachines("kubernetes", []netip.Addr{addr("192.0.2.9")})
	w.SetUnderlay(vswitch.Underlay{
		Own: []netip.Addr{addr("198.18.0.1")}, Peers: []netip.Addr{addr("198.18.0.2"), addr("192.0.2.2")}, Ports: []uint16{6081},
		Southbound: []netip.AddrPort{server("192.0.2.1:17642"), server("198.19.0.1:6642")},
	}, map[netip.Addr]string{addr("198.18.0.1"): "eth1"})
	host, _ := w.Host()
	for text, want := range map[string]struct{ closed, infra bool }{
		"198.18.0.1/32":  {true, true},
		"198.18.0.2/32":  {true, true},
		"198.19.0.1/32":  {true, true},
		"172.30.0.0/24":  {true, false},
		"192.0.2.1/32":   {false, true},
		"192.0.2.2/32":   {false, true},
		"192.0.2.9/32":   {false, true},
		"203.0.113.9/32": {false, false},
	} {
		p := netip.MustParsePrefix(text)
		if got := slices.Contains(host.Cluster.Closed, p); got != want.closed {
			t.Errorf("%s is closed: %t", p, got)
		}
		if got := slices.Contains(host.Cluster.Infra, p); got != want.infra {
			t.Errorf("%s is infrastructure: %t", p, got)
		}
	}
	if got, want := fmt.Sprint(host.Walls.Databases),
		"[192.0.2.1:6641 192.0.2.1:6642 192.0.2.1:6643 192.0.2.1:6644 192.0.2.1:16642 192.0.2.1:16643 192.0.2.1:16644 192.0.2.1:17642]"; got !=
		want {
		t.Errorf("databases at %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(host.Walls.Instead), "[{eth1 192.0.2.1}]"; got != want {
		t.Errorf("in place of a tunnel's address: %s, want %s", got, want)
	}
	// A node with one address for everything has no other.
	w.SetUnderlay(vswitch.Underlay{Own: []netip.Addr{addr("192.0.2.1")}}, map[netip.Addr]string{addr("192.0.2.1"): "eth0"})
	if host, _ := w.Host(); len(host.Walls.Instead) > 0 {
		t.Errorf("in place of its only address: %v", host.Walls.Instead)
	}
}

// TestANodesClaimOpensNoTunnel: a kubelet writes its Node's addresses. A tunnel's address is open to direct access only if the
// API knows the node by it whose tunnel it is.
func TestANodesClaimOpensNoTunnel(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	own, other, foreign, single := addr("198.18.0.1"), addr("198.18.0.2"), addr("198.18.0.3"), addr("192.0.2.2")
	w := testWorld()
	w.SetUnderlay(vswitch.Underlay{
		Own: []netip.Addr{own}, Peers: []netip.Addr{single, other, foreign}, Ports: []uint16{6081},
		Chassis: map[netip.Addr]string{single: "n2", other: "n2", foreign: "a-chassis-of-another-name"},
	}, nil)
	closed := func(when string, want map[netip.Addr]bool) {
		t.Helper()
		spec, err := w.Porthole(uidOf("red"))
		if err != nil {
			t.Fatal(err)
		}
		for a, closed := range want {
			if got := slices.Contains(spec.Cluster.Closed, netip.PrefixFrom(a, a.BitLen())); got != closed {
				t.Errorf("%s: %s is closed: %t", when, a, got)
			}
		}
	}
	closed("nobody claims them", map[netip.Addr]bool{own: true, other: true, foreign: true, single: false})
	w.SetNode(&model.Node{Name: "n9", UID: "uid-n9", Addresses: []netip.Addr{single, own, other, foreign}})
	// It closes nothing either by what its agent says.
	w.SetReport(&model.NodeReport{Node: "n9", Tunnels: []netip.Addr{single, own, other}})
	// Of a chassis that is not called as a node nobody knows which Node is its.
	closed("another node claims them", map[netip.Addr]bool{own: true, other: true, foreign: false, single: false})
	w.SetNode(&model.Node{Name: "n2", UID: "uid-n2", Addresses: []netip.Addr{single, other}})
	closed("the API knows the node by it", map[netip.Addr]bool{own: true, other: false})
}

// TestWhatIsAsItWasIsNoNews: heartbeats of nodes, and the status of Networks, which changes with every pod of the cluster.
func TestWhatIsAsItWasIsNoNews(t *testing.T) {
	t.Parallel()
	w := testWorld()
	<-w.changed
	for name, say := range map[string]func(number string){
		"node": func(number string) {
			w.SetNode(&model.Node{Name: "n9", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2." + number)}})
		},
		"Network": func(number string) {
			w.SetNetwork(&model.Network{Name: "green", UID: uidOf("green"), Type: model.VPC, Subnets: []model.Subnet{
				{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0." + number + ".0/24")}},
			}})
		},
		"Service": func(number string) {
			w.SetAPI([]netip.AddrPort{netip.MustParseAddrPort("10.96.0." + number + ":443")})
		},
		"servers": func(number string) {
			w.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort("192.0.2." + number + ":6443")})
		},
		"tunnels": func(number string) {
			w.SetUnderlay(vswitch.Underlay{Peers: []netip.Addr{netip.MustParseAddr("198.18.0." + number)}}, nil)
		},
		"machines": func(number string) {
			w.SetMachines("kubernetes", []netip.Addr{netip.MustParseAddr("198.18.0." + number)})
		},
		"own addresses": func(number string) {
			w.SetLocal([]netip.Addr{netip.MustParseAddr("203.0.113." + number)})
		},
	} {
		for _, number := range []string{"20", "21"} {
			say(number)
			select {
			case <-w.changed:
			default:
				t.Errorf("%s: a change is no news", name)
			}
			say(number)
			if len(w.changed) > 0 {
				<-w.changed
				t.Errorf("%s: what is as it was is news", name)
			}
		}
	}
	w.DropNode("n9", time.Time{})
	w.Expire(time.Time{}.Add(model.KeepNode))
	<-w.changed
	w.DropNode("n9", time.Time{})
	w.Expire(time.Time{}.Add(2 * model.KeepNode))
	if len(w.changed) > 0 {
		t.Error("a node that is not there goes")
	}
}
