//go:build integration

package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/google/uuid"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// testNode is the name of the node that the test is.
const testNode = "node1"

// The cluster that these tests play.
const (
	testAPI      = "10.96.0.1"
	testDNS      = "10.96.0.10"
	testServices = "10.96.0.0/16"
	// ownNode and ownNode6 are who a pod of a vpc Network sees when its own node asks.
	ownNode  = "169.254.100.5"
	ownNode6 = "fdd7:5e3c:91a4::a702:1"
)

func testInfrastructure() world.Infrastructure {
	prefix := netip.MustParsePrefix
	return world.Infrastructure{
		DNS:           []netip.Addr{netip.MustParseAddr(testDNS), netip.MustParseAddr("fd00:96::a")},
		Services:      []netip.Prefix{prefix(testServices), prefix("fd00:96::/112")},
		Faces:         []netip.Prefix{prefix("100.64.0.0/10"), prefix("fd64:a701::/64")},
		Balancers:     []netip.Prefix{prefix("203.0.113.80/32")},
		DefaultSubnet: prefix("10.128.0.0/14"),
	}
}

// The addresses that every Network of these tests has.
const (
	testSubnet  = "10.0.0.0/16"
	testSubnet6 = "fd00:10::/64"
)

// vpc is a Network as its owner wrote it.
func vpc(name string) *model.Network {
	return &model.Network{
		Name: name, UID: uidOf(name), Type: model.VPC,
		Subnets: []model.Subnet{{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix(testSubnet), netip.MustParsePrefix(testSubnet6)}}},
		Egress:  model.EgressNode, Infra: model.InfraServices, DNS: model.DNSNode,
	}
}

// givenTo is what the controller gives a node of a number in the default Network.
func givenTo(name string, number int) *model.Node {
	return &model.Node{
		Name: name, UID: "uid-of-" + name,
		Assigned: &model.NodeNetwork{
			NodeUID: "uid-of-" + name, Network: "default", NetworkUID: uidOf("default"),
			MAC: fmt.Sprintf("0a:58:0a:80:01:%02x", number),
			Addresses: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("10.128.1.%d/16", number)), netip.MustParsePrefix(fmt.Sprintf("fd00:128::1:%d/64", number)),
			},
			Gateways: []netip.Addr{netip.MustParseAddr("10.128.0.1"), netip.MustParseAddr("fd00:128::1")},
			Faces: []netip.Prefix{
				netip.MustParsePrefix(fmt.Sprintf("100.64.%d.0/24", number)), netip.MustParsePrefix(fmt.Sprintf("fd64:a701::%d:0/112", number)),
			},
		},
	}
}

// addNetwork writes the rows of a Network as the controller does: a router, a switch for its subnet, and its edge with
// the porthole.
func (n *node) addNetwork(name, subnet, subnet6 string) {
	n.tb.Helper()
	edges, own := model.EdgeAddresses(), model.PortholeAddresses()
	first := func(cidr string) string {
		p := netip.MustParsePrefix(cidr)
		return netip.PrefixFrom(p.Addr().Next(), p.Bits()).String()
	}
	// An argument of ovn-nbctl may hold a colon only where it is not taken for a port's parent.
	router, edge := name+"-r", name+":edge"
	n.nbctl(
		"lr-add", router,
		"--", "ls-add", name,
		"--", "lrp-add", router, router+"-a", "0a:58:00:00:00:01", first(subnet), first(subnet6),
		"--", "lsp-add", name, name+"-a-r", "--", "lsp-set-type", name+"-a-r", "router", "--", "lsp-set-addresses", name+"-a-r", "router",
		"--", "lsp-set-options", name+"-a-r", "router-port="+router+"-a",
		"--", "ls-add", edge,
		"--", "lrp-add", router, router+"-edge", model.EdgeMAC, edges[0].String(), edges[1].String(),
		"--", "lsp-add", edge, name+"-edge-r", "--", "lsp-set-type", name+"-edge-r", "router", "--", "lsp-set-addresses", name+"-edge-r",
		"router",
		"--", "lsp-set-options", name+"-edge-r", "router-port="+router+"-edge",
		"--", "lsp-add", edge, model.PortholePortName(name), "--", "lsp-set-type", model.PortholePortName(name), "localport",
		"--", "lsp-set-addresses", model.PortholePortName(name), fmt.Sprintf("%s %s %s", model.PortholeMAC, own[0].Addr(), own[1].Addr()),
		"--", "lr-route-add", router, "0.0.0.0/0", own[0].Addr().String(), router+"-edge",
		"--", "lr-route-add", router, "::/0", own[1].Addr().String(), router+"-edge",
	)
}

// addDefault writes the rows of the default Network, with the ports and routes of nodes.
func (n *node) addDefault(nodes ...*model.Node) {
	n.tb.Helper()
	n.addNetwork("default", "10.128.0.0/16", "fd00:128::/64")
	for _, node := range nodes {
		given := node.Assigned
		port := model.NodePortName("default", node.Name)
		command := []string{
			"lsp-add", "default", port, "--", "lsp-set-addresses", port,
			fmt.Sprintf("%s %s %s", given.MAC, given.Addresses[0].Addr(), given.Addresses[1].Addr()),
		}
		for i, block := range given.Faces {
			command = append(command, "--", "lr-route-add", "default-r", block.String(), given.Addresses[i].Addr().String(), "default-r-a")
		}
		n.nbctl(command...)
	}
}

// seesCluster has the agent see Networks, nodes and the Kubernetes API as the API server shows them.
func (a *Agent) seesCluster(servers []netip.AddrPort, nodes []*model.Node, networks ...*model.Network) {
	flat := &model.Network{
		Name: "default", UID: uidOf("default"), Type: model.Flat, Egress: model.EgressNode, Infra: model.InfraDirect,
		Subnets: []model.Subnet{
			{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/16"), netip.MustParsePrefix("fd00:128::/64")}},
		},
	}
	for _, network := range append(networks, flat) {
		a.world.SetNetwork(network)
	}
	for _, node := range nodes {
		a.world.SetNode(node)
	}
	a.world.SetAPI([]netip.AddrPort{netip.MustParseAddrPort(testAPI + ":443"), netip.MustParseAddrPort("[fd00:96::1]:443")})
	a.world.SetServers("kubernetes", servers)
}

// newGuest makes a pod of a Network: with the own addresses of a host number, and faces of the node's first block of
// another.
func newGuest(tb testing.TB, a *Agent, network, name string, host, face int) *testPod {
	tb.Helper()
	p := &testPod{tb: tb, nic: attachmentOf(byte(host))}
	p.nic.Network, p.nic.NetworkUID = network, uidOf(network)
	self, _ := a.world.Host()
	for _, block := range self.Blocks {
		bytes := block.Addr().AsSlice()
		bytes[len(bytes)-1] = byte(face)
		address, _ := netip.AddrFromSlice(bytes)
		p.nic.Faces = append(p.nic.Faces, address)
	}
	p.request = cni.Request{
		Command:    cni.Add,
		Attachment: cni.Attachment{ContainerID: uuid.NewString(), Interface: "eth0"},
		Netns:      newNetns(tb),
		Pod:        cni.PodRef{Namespace: network, Name: name, UID: uuid.NewString()},
	}
	p.publish(a)
	return p
}

// addGuest makes a pod and adds it.
func (n *node) addGuest(a *Agent, network, name string, host, face int) *testPod {
	n.tb.Helper()
	p := newGuest(n.tb, a, network, name, host, face)
	n.addPodPort(network, p)
	result, err := a.Add(n.tb.Context(), p.request)
	must(n.tb, err)
	for i, face := range p.nic.Faces {
		if got := result.IPs[i].Address.IP.String(); got != face.String() {
			n.tb.Errorf("result has address %s, want the face %s", got, face)
		}
	}
	return p
}

// addPodPort does the controller's part for a pod, with both families.
func (n *node) addPodPort(network string, p *testPod) {
	n.tb.Helper()
	name := p.request.Pod.Key().String()
	addresses := fmt.Sprintf("%s %s %s", p.nic.MAC, p.nic.Addresses[0].Addr(), p.nic.Addresses[1].Addr())
	n.nbctl("lsp-add", network, name, "--", "lsp-set-addresses", name, addresses, "--", "lsp-set-port-security", name, addresses,
		"--", "set", "Logical_Switch_Port", name, "options:requested-chassis="+n.name, "options:iface-id-ver="+p.request.Pod.UID)
}

// serveEcho sends back what comes by TCP to port 80, until the test ends.
func serveEcho(tb testing.TB, inside func(func() error) error) {
	tb.Helper()
	var listener net.Listener
	must(tb, inside(func() (err error) {
		listener, err = net.Listen("tcp", ":80")
		return err
	}))
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
}

// serveName answers each TCP connection to a port with a name and the client's address, until the test ends.
func serveName(tb testing.TB, inside func(func() error) error, address, name string) {
	tb.Helper()
	var listener net.Listener
	must(tb, inside(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			client, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			fmt.Fprintf(conn, "%s sees %s", name, client)
			conn.Close()
		}
	}()
}

// ask connects to an address and returns the answer.
func ask(inside func(func() error) error, address string) (string, error) {
	var answer []byte
	err := inside(func() error {
		conn, err := wait.Dial(&net.Dialer{}, "tcp", address, 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer wait.Limit(conn, 3*time.Second)()
		answer, err = io.ReadAll(conn)
		return err
	})
	return string(answer), err
}

// here runs f in the node's own namespace, where the test is.
func here(f func() error) error { return f() }

// wantAnswer expects an answer, at once: what was added works when ADD returns.
func wantAnswer(tb testing.TB, inside func(func() error) error, address, want string) {
	tb.Helper()
	if answer, err := ask(inside, address); err != nil || answer != want {
		tb.Errorf("%s answers %q (error %v), want %q", address, answer, err, want)
	}
}

// wantRefused expects to be told at once that a connection is not possible.
func wantRefused(tb testing.TB, inside func(func() error) error, address string) {
	tb.Helper()
	started := time.Now()
	answer, err := ask(inside, address)
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EHOSTUNREACH) {
		tb.Errorf("%s: answer %q, error %v after %s, want a refusal", address, answer, err, time.Since(started))
	}
}

// outside is a machine beyond the node: its namespace, and its addresses.
type outside struct {
	netns          string
	v4, v6         string
	nodeV4, nodeV6 string
}

func (o outside) inside(f func() error) error {
	return ns.WithNetNSPath(o.netns, func(ns.NetNS) error { return f() })
}

// addOutside links a machine to the node.
func addOutside(tb testing.TB) outside {
	tb.Helper()
	o := outside{netns: newNetns(tb), v4: "198.51.100.2", v6: "2001:db8:51::2", nodeV4: "198.51.100.1", nodeV6: "2001:db8:51::1"}
	target, err := ns.GetNS(o.netns)
	must(tb, err)
	defer target.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "wan"
	must(tb, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "wan0", PeerNamespace: netlink.NsFd(int(target.Fd()))}))
	tb.Cleanup(func() {
		link, err := netlink.LinkByName("wan")
		must(tb, err)
		must(tb, netlink.LinkDel(link))
	})
	give := func(name string, addresses ...string) error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for _, text := range addresses {
			address, err := netlink.ParseAddr(text)
			if err != nil {
				return err
			}
			address.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrAdd(link, address); err != nil {
				return err
			}
		}
		return netlink.LinkSetUp(link)
	}
	must(tb, give("wan", o.nodeV4+"/24", o.nodeV6+"/64"))
	link, err := netlink.LinkByName("wan")
	must(tb, err)
	// Everything else is out there, too. It goes with the link.
	for _, gateway := range []string{o.v4, o.v6} {
		must(tb, netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gateway)}))
	}
	must(tb, o.inside(func() error { return give("wan0", o.v4+"/24", o.v6+"/64") }))
	return o
}

// portholeNode is a node with a whole OVN, the default Network, and two Networks of the same addresses.
func portholeNode(tb testing.TB, change func(red, blue *model.Network)) (*node, *Agent, outside) {
	tb.Helper()
	n := newNode(tb)
	n.startOVN()
	world := addOutside(tb)
	a := n.agent()
	red, blue := vpc("red"), vpc("blue")
	if change != nil {
		change(red, blue)
	}
	self := givenTo(testNode, 1)
	self.Addresses = []netip.Addr{netip.MustParseAddr(testEncapIP), netip.MustParseAddr(world.nodeV4), netip.MustParseAddr(world.nodeV6)}
	n.addDefault(self)
	n.addNetwork("red", testSubnet, testSubnet6)
	n.addNetwork("blue", testSubnet, testSubnet6)
	servers := []netip.AddrPort{netip.MustParseAddrPort(testEncapIP + ":6443"), netip.MustParseAddrPort("[" + world.nodeV6 + "]:6443")}
	a.seesCluster(servers, []*model.Node{self}, red, blue)
	must(tb, a.sweep(tb.Context()))
	tb.Cleanup(func() { n.clearPortholes(a) })
	return n, a, world
}

// clearPortholes leaves the node as the next test wants to find it.
func (n *node) clearPortholes(a *Agent) {
	n.tb.Helper()
	ids, err := a.keeper.List()
	must(n.tb, err)
	for _, id := range ids {
		must(n.tb, a.keeper.Remove(id))
	}
	for _, name := range []string{model.NodeInterface, model.EdgeInterface} {
		if link, err := netlink.LinkByName(name); err == nil {
			must(n.tb, netlink.LinkDel(link))
		}
	}
	unguard(n.tb)
}

func TestPodsOfOneAddressAreReachedByTheirFaces(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	for _, p := range []*testPod{red, blue} {
		must(t, a.Check(t.Context(), p.request))
		serveName(t, p.inside, "0.0.0.0:80", p.nic.Network)
		serveName(t, p.inside, "[::]:81", p.nic.Network)
		// A program may bind to its face.
		serveName(t, p.inside, net.JoinHostPort(p.nic.Faces[0].String(), "82"), p.nic.Network)
	}
	for _, p := range []*testPod{red, blue} {
		network := p.nic.Network
		wantAnswer(t, here, net.JoinHostPort(p.nic.Faces[0].String(), "80"), network+" sees "+ownNode)
		wantAnswer(t, here, net.JoinHostPort(p.nic.Faces[1].String(), "81"), network+" sees "+ownNode6)
		// Its own face leads a pod to itself.
		wantAnswer(t, p.inside, net.JoinHostPort(p.nic.Faces[0].String(), "82"), network+" sees "+p.nic.Faces[0].String())
	}
}

// Two nodes: whoever is in the default Network, or a node, reaches faces of the other node and is seen as who it is.
func TestFacesOfAnotherNode(t *testing.T) {
	n := newNode(t)
	other := n.neighbour()
	n.startOVN()
	other.joinOVN()
	nodes := []*model.Node{givenTo(n.name, 1), givenTo(other.name, 2)}
	nodes[0].Addresses, nodes[1].Addresses = []netip.Addr{netip.MustParseAddr(n.encapIP)}, []netip.Addr{netip.MustParseAddr(other.encapIP)}
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
	blue, infra := n.addGuest(a, "blue", "one", 5, 5), n.addDefaultPod(a, "infra", 5)
	var red *testPod
	must(t, other.inside(func() error {
		red = other.addGuest(b, "red", "one", 5, 5)
		return nil
	}))
	serveName(t, red.inside, ":80", "red")
	serveName(t, blue.inside, ":80", "blue")
	serveName(t, infra.inside, ":80", "infra")
	n.nbctl("--wait=hv", "sync")
	for _, test := range []struct {
		from          func(func() error) error
		address, want string
	}{
		{here, red.nic.Faces[0].String(), "red sees 10.128.1.1"},
		{here, red.nic.Faces[1].String(), "red sees fd00:128::1:1"},
		{other.inside, blue.nic.Faces[0].String(), "blue sees 10.128.1.2"},
		{other.inside, blue.nic.Faces[1].String(), "blue sees fd00:128::1:2"},
		{infra.inside, red.nic.Faces[0].String(), "red sees 10.128.2.5"},
		{infra.inside, red.nic.Faces[1].String(), "red sees fd00:128::2:5"},
		{other.inside, "10.128.2.5", "infra sees 10.128.1.2"},
		{here, "10.128.2.5", "infra sees 10.128.1.1"},
	} {
		wantAnswer(t, test.from, net.JoinHostPort(test.address, "80"), test.want)
	}
	for _, target := range []string{red.nic.Faces[0].String() + ":80", "10.128.1.2:80", other.encapIP + ":80"} {
		wantRefused(t, blue.inside, target)
	}
}
