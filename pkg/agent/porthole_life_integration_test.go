//go:build integration

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/wait"
)

// ours is what is ours on a node, to compare.
func (n *node) ours() []string {
	n.tb.Helper()
	links, err := netlink.LinkList()
	must(n.tb, err)
	var out []string
	for _, link := range links {
		if strings.HasPrefix(link.Attrs().Name, "atoll") {
			out = append(out, "link "+link.Attrs().Name)
		}
	}
	entries, err := os.ReadDir("/var/run/netns")
	must(n.tb, err)
	for _, e := range entries {
		out = append(out, "namespace "+e.Name())
	}
	for port := range strings.FieldsSeq(n.vsctl("list-ports", "br-int")) {
		out = append(out, "port "+port)
	}
	for _, family := range []string{"-4", "-6"} {
		routes, err := exec.Command("ip", family, "route", "show", "proto", "167").Output()
		must(n.tb, err)
		for line := range strings.Lines(string(routes)) {
			out = append(out, "route "+strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

func TestThePortholeGoesWithTheLastPod(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	before := n.ours()
	one, two := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "red", "two", 6, 6)
	for _, p := range []*testPod{one, two} {
		serveName(t, p.inside, ":80", p.request.Pod.Name)
	}
	again := one.resandbox()
	_, err := a.Add(t.Context(), again.request)
	must(t, err)
	serveName(t, again.inside, ":80", "one again")
	// The old sandbox goes, and the pod's face stays with the new one.
	must(t, a.Del(t.Context(), one.request))
	wantAnswer(t, here, "100.64.1.5:80", "one again sees "+ownNode)
	must(t, a.Del(t.Context(), again.request))
	wantSilence(t, here, "100.64.1.5:80")
	wantAnswer(t, here, "100.64.1.6:80", "two sees "+ownNode)
	for range 2 {
		must(t, a.Del(t.Context(), two.request))
	}
	if after := n.ours(); !slices.Equal(before, after) {
		t.Errorf("left: %v\nbefore: %v", after, before)
	}
}

// A face that goes from one pod to the next takes no connection along.
func TestConnectionsEndWithTheirPod(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	n.addGuest(a, "red", "stays", 7, 7)
	one := n.addGuest(a, "red", "one", 5, 5)
	lines := listenUDP(t, one.inside, ":9")
	conn, err := net.Dial("udp4", "100.64.1.5:9")
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("first"))
	must(t, err)
	if line := <-lines; !strings.HasSuffix(line, "first") {
		t.Fatalf("got %q", line)
	}
	must(t, a.Del(t.Context(), one.request))
	n.nbctl("lsp-del", one.request.Pod.Key().String())
	two := n.addGuest(a, "red", "two", 6, 5)
	lines = listenUDP(t, two.inside, ":9")
	_, err = conn.Write([]byte("second"))
	must(t, err)
	select {
	case line := <-lines:
		if !strings.HasSuffix(line, "second") {
			t.Errorf("got %q", line)
		}
	case <-wait.Context(t, wait.Patience).Done():
		t.Errorf("the next pod with the face is not reached")
	}
}

// A change of what a Network may do counts for connections that are there already.
func TestAChangeCountsAtOnce(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	serveEcho(t, world.inside)
	serveEcho(t, red.inside)
	dial := func(inside func(func() error) error, address string) (conn net.Conn) {
		must(t, inside(func() (err error) {
			conn, err = wait.Dial(&net.Dialer{}, "tcp", address, 3*time.Second)
			return err
		}))
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	talks := func(conn net.Conn) error {
		defer wait.Limit(conn, 2*time.Second)()
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, 1))
		return err
	}
	out, in := dial(red.inside, world.v4+":80"), dial(here, "100.64.1.5:80")
	must(t, talks(out))
	must(t, talks(in))
	closed := vpc("red")
	closed.Egress = model.EgressNone
	a.world.SetNetwork(closed)
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	if err := talks(out); err == nil {
		t.Error("a connection goes on that may not be begun any more")
	}
	must(t, talks(in))
	wantRefused(t, red.inside, world.v4+":80")
}

func TestTheKubernetesAPIAndDNS(t *testing.T) {
	n, a, world := portholeNode(t, func(_, blue *model.Network) { blue.Infra, blue.DNS = model.InfraNone, model.DNSNone })
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	serveName(t, here, ":6443", "the API server")
	wantAnswer(t, red.inside, testAPI+":443", "the API server sees "+red.nic.Faces[0].String())
	wantAnswer(t, red.inside, "[fd00:96::1]:443", "the API server sees "+red.nic.Faces[1].String())
	wantRefused(t, blue.inside, testAPI+":443")
	// It moves to a machine outside; there, the node's address is seen.
	serveName(t, world.inside, ":6443", "the other API server")
	a.world.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort(world.v4 + ":6443")})
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	wantAnswer(t, red.inside, testAPI+":443", "the other API server sees "+world.nodeV4)
	wantRefused(t, red.inside, "[fd00:96::1]:443")
	// Whoever answers for names listens inside the porthole, at the cluster's address.
	inPorthole := func(f func() error) error {
		return ns.WithNetNSPath(porthole.IDOf(uidOf("red")).NetnsPath(), func(ns.NetNS) error { return f() })
	}
	serveName(t, inPorthole, testDNS+":53", "names")
	serveName(t, inPorthole, "[fd00:96::a]:53", "names")
	serveName(t, inPorthole, testDNS+":54", "no names")
	wantAnswer(t, red.inside, testDNS+":53", "names sees 10.0.0.5")
	wantAnswer(t, red.inside, "[fd00:96::a]:53", "names sees fd00:10::5")
	wantRefused(t, red.inside, testDNS+":54")
	wantRefused(t, blue.inside, testDNS+":53")
}

// A client whose address the Network has, too, is seen as the porthole; every other client as itself.
func TestAClientOfTheNetworksOwnAddresses(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	serveName(t, red.inside, ":80", "red")
	n.nft(
		"add table inet services",
		"add chain inet services pre { type nat hook prerouting priority dstnat; }",
		fmt.Sprintf("add rule inet services pre ip daddr %s tcp dport 80 dnat ip to %s", world.nodeV4, red.nic.Faces[0]),
		fmt.Sprintf("add rule inet services pre ip6 daddr %s tcp dport 80 dnat ip6 to %s", world.nodeV6, red.nic.Faces[1]),
	)
	t.Cleanup(func() { n.nft("delete table inet services") })
	wan, err := netlink.LinkByName("wan")
	must(t, err)
	for client, want := range map[string]string{
		"10.0.0.9/32": "169.254.100.2", "192.0.2.99/32": "192.0.2.99", "fd00:10::9/128": "fdd7:5e3c:91a4::a701:2",
		"2001:db8:9::9/128": "2001:db8:9::9",
	} {
		address, err := netlink.ParseAddr(client)
		must(t, err)
		address.Flags = unix.IFA_F_NODAD
		service, via := world.nodeV4, world.v4
		if address.IP.To4() == nil {
			service, via = world.nodeV6, world.v6
		}
		must(t, netlink.RouteAdd(&netlink.Route{LinkIndex: wan.Attrs().Index, Dst: address.IPNet, Gw: net.ParseIP(via)}))
		must(t, world.inside(func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			return netlink.AddrAdd(lo, address)
		}))
		var answer []byte
		err = world.inside(func() error {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: address.IP}, Timeout: 3 * time.Second}
			conn, err := dialer.Dial("tcp", net.JoinHostPort(service, "80"))
			if err != nil {
				return err
			}
			defer conn.Close()
			answer, err = io.ReadAll(conn)
			return err
		})
		if err != nil || string(answer) != "red sees "+want {
			t.Errorf("from %s: %q (error %v), want %s", client, answer, err, want)
		}
	}
}

// The node itself is seen under one address, by which policies know it, whichever of its own it uses.
func TestTheNodeIsSeenAsItself(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red := n.addGuest(a, "red", "one", 5, 5)
	serveName(t, red.inside, ":80", "red")
	for own, want := range map[string]string{
		"10.128.1.1": ownNode, world.nodeV4: ownNode, testEncapIP: ownNode, "fd00:128::1:1": ownNode6, world.nodeV6: ownNode6,
	} {
		face := red.nic.Faces[0]
		if want == ownNode6 {
			face = red.nic.Faces[1]
		}
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(own)}, Timeout: 3 * time.Second}
		conn, err := dialer.Dial("tcp", net.JoinHostPort(face.String(), "80"))
		if err != nil {
			t.Errorf("from %s: %v", own, err)
			continue
		}
		answer, err := io.ReadAll(conn)
		if err != nil || string(answer) != "red sees "+want {
			t.Errorf("from %s: %q (error %v), want %s", own, answer, err, want)
		}
		conn.Close()
	}
}

// The owner of a Network chooses its addresses, be they the node's and the API server's own.
func TestANetworkThatHasTheNodesAddresses(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	green := vpc("green")
	green.Subnets[0].CIDRs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8:51::/64")}
	a.world.SetNetwork(green)
	// Its router's addresses are the node's, too.
	n.addNetwork("green", "192.0.2.0/24", "2001:db8:51::/64")
	p := newGuest(t, a, "green", "one", 5, 5)
	p.nic.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24"), netip.MustParsePrefix("2001:db8:51::77/64")}
	p.nic.Gateways = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8:51::1")}
	p.publish(a)
	n.addPodPort("green", p)
	_, err := a.Add(t.Context(), p.request)
	must(t, err)
	serveName(t, p.inside, ":80", "green")
	serveName(t, here, ":6443", "the API server")
	serveName(t, world.inside, ":80", "outside")
	wantAnswer(t, here, "100.64.1.5:80", "green sees "+ownNode)
	wantAnswer(t, p.inside, testAPI+":443", "the API server sees 100.64.1.5")
	wantAnswer(t, p.inside, "[fd00:96::1]:443", "the API server sees fd64:a701::1:5")
	wantAnswer(t, p.inside, world.v4+":80", "outside sees "+world.nodeV4)
}

// What an attacker, a person or a crash breaks, the sweep mends; and what a dead agent left over goes.
func TestSweepMendsPortholes(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	serveName(t, world.inside, ":80", "outside")
	for _, p := range []*testPod{red, blue} {
		serveName(t, p.inside, ":80", p.nic.Network)
	}
	works := func() {
		t.Helper()
		wantAnswer(t, here, "100.64.1.5:80", "red sees "+ownNode)
		wantAnswer(t, here, "100.64.1.6:80", "blue sees "+ownNode)
		wantAnswer(t, red.inside, world.v4+":80", "outside sees "+world.nodeV4)
	}
	works()
	want := n.ours()
	id := porthole.IDOf(uidOf("red"))
	remove := func(link string) error {
		found, err := netlink.LinkByName(link)
		if err != nil {
			return err
		}
		return netlink.LinkDel(found)
	}
	for name, breakIt := range map[string]func(){
		"nothing":              func() {},
		"the node's rules":     func() { unguard(t) },
		"a link to the bridge": func() { must(t, remove(id.Name())) },
		"a link to the node":   func() { must(t, remove(id.HostLink())) },
		"a port": func() {
			n.vsctl("del-port", id.Name())
			seesPort(t, a, id.Name(), false)
		},
		"the node's ports": func() {
			n.vsctl("del-port", porthole.NodePort, "--", "del-port", porthole.EdgePort)
			seesPort(t, a, porthole.NodePort, false)
			seesPort(t, a, porthole.EdgePort, false)
		},
		"the node's links":            func() { must(t, errors.Join(remove("atoll0"), remove("atoll1"))) },
		"a porthole":                  func() { must(t, a.keeper.Remove(id)) },
		"a namespace's mount":         func() { must(t, unix.Unmount(id.NetnsPath(), unix.MNT_DETACH)) },
		"another Network's leftovers": func() { must(t, a.keeper.Ensure(porthole.Spec{UID: "gone", Network: "gone", MTU: 1400})) },
		"a leftover port": func() {
			name := porthole.IDOf("gone").Name()
			n.vsctl("add-port", "br-int", name, "--", "set", "Interface", name, "external_ids:atoll.dev/porthole=gone",
				"--", "set", "Port", name, "external_ids:atoll.dev/porthole=gone")
			seesPort(t, a, name, true)
		},
		"a route of a pod that has gone": func() {
			must(t,
				exec.Command("ip", "route", "add", "100.64.1.99/32", "via", "169.254.100.6", "dev", id.HostLink(), "onlink", "proto", "167").Run())
		},
		"the agent's memory": func() { a = n.successor(a) },
	} {
		t.Run(name, func(t *testing.T) {
			breakIt()
			must(t, a.sweep(t.Context()))
			if after := n.ours(); !slices.Equal(want, after) {
				t.Errorf("left: %v\nwant: %v", after, want)
			}
			settled(t, works)
		})
	}
}

// settled waits until all chassis have what the northbound database says, and checks then: a port that was made anew is
// not waited for by a sweep.
func settled(t *testing.T, check func()) {
	t.Helper()
	for range 10 {
		if _, err := ask(here, "100.64.1.5:80"); err == nil {
			break
		}
	}
	check()
}

// seesPort waits until the agent has heard that a port is there, or is not: what it has not heard of, a sweep mends a minute
// later.
func seesPort(t *testing.T, a *Agent, name string, there bool) {
	t.Helper()
	wait.Until(t, wait.Patience, fmt.Sprintf("port %s is seen: %t", name, there), func() bool {
		_, has, err := a.ovs.Find(t.Context(), name)
		must(t, err)
		return has == there
	})
}

// successor is the agent that comes after another one died: it knows what the API server shows, and nothing else.
func (n *node) successor(a *Agent) *Agent {
	n.tb.Helper()
	next := n.agent()
	next.pods, next.world = a.pods, a.world
	next.bindPortholes()
	return next
}

// A node that starts again has nothing left but what the database has on disk: no links, no namespaces, no rules.
func TestPortholesAfterAReboot(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	one := n.addGuest(a, "red", "one", 5, 5)
	left := n.addGuest(a, "blue", "gone", 5, 6)
	before := n.ours()
	n.stopOVS()
	for _, p := range []*testPod{one, left} {
		must(t, netdev.Delete(netdev.Owner{ContainerID: p.request.ContainerID, Interface: "eth0"}))
		removeNetns(t, p.request.Netns)
	}
	n.clearPortholes(a)
	a.pods.remove(left.request.Pod.Key(), left.request.Pod.UID)
	n.startOVS()
	a = n.successor(a)
	for a.Status(t.Context()) != nil {
		<-a.ovs.Changed()
	}
	must(t, a.sweep(t.Context()))
	again := one.resandbox()
	_, err := a.Add(t.Context(), again.request)
	must(t, err)
	serveName(t, again.inside, ":80", "red")
	settled(t, func() { wantAnswer(t, here, "100.64.1.5:80", "red sees "+ownNode) })
	for _, line := range n.ours() {
		if strings.Contains(line, string(porthole.IDOf(uidOf("blue")))) || strings.Contains(line, one.hostName()) {
			t.Errorf("left over: %s (before: %v)", line, before)
		}
	}
}

// A tenant who writes faces on its pod gets none of others'.
func TestForgedFaces(t *testing.T) {
	n, a, _ := portholeNode(t, nil)
	victim := n.addGuest(a, "blue", "victim", 5, 6)
	serveName(t, victim.inside, ":80", "victim")
	for name, forge := range map[string]func(*model.Attachment){
		"the victim's face":         func(m *model.Attachment) { m.Faces = victim.nic.Faces },
		"a face of another node":    func(m *model.Attachment) { m.Faces[0] = netip.MustParseAddr("100.64.9.9") },
		"an address of the node":    func(m *model.Attachment) { m.Faces[0] = netip.MustParseAddr(testEncapIP) },
		"an own address elsewhere":  func(m *model.Attachment) { m.Addresses[0] = netip.MustParsePrefix("198.51.100.2/24") },
		"a Network that is another": func(m *model.Attachment) { m.Network = "blue" },
		"too few":                   func(m *model.Attachment) { m.Faces = m.Faces[:1] },
	} {
		t.Run(name, func(t *testing.T) {
			thief := newGuest(t, a, "red", "thief", 9, 9)
			forge(&thief.nic)
			thief.publish(a)
			n.nbctl("--if-exists", "lsp-del", thief.request.Pod.Key().String())
			n.addPodPort("red", thief)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if _, err := a.Add(ctx, thief.request); err == nil {
				t.Error("the pod is served")
			} else {
				t.Log(err)
			}
			nothing := fmt.Sprint(n.ours())
			if strings.Contains(nothing, thief.hostName()) || strings.Contains(nothing, string(porthole.IDOf(uidOf("red")))) {
				t.Errorf("left: %s", nothing)
			}
		})
	}
	// The control: one that forges nothing is served.
	n.nbctl("--if-exists", "lsp-del", "red/thief")
	n.addGuest(a, "red", "thief", 9, 9)
	wantAnswer(t, here, "100.64.1.6:80", "victim sees "+ownNode)
}
