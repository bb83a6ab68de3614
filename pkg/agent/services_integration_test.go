//go:build integration

package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// externally does what kube-proxy (v1.36, mode nftables) does for external addresses of Services: the same tables, chains, maps
// and priorities, with as much of them as these addresses need. Each address leads to an endpoint, port 80.
func (n *node) externally(services map[string]string) {
	n.tb.Helper()
	var elements, chains []string
	for address, endpoint := range services {
		chain := "external-" + strings.ReplaceAll(address, ".", "-")
		elements = append(elements, fmt.Sprintf("%s . tcp . 80 : goto %s", address, chain))
		chains = append(chains, fmt.Sprintf("chain %s { meta l4proto tcp dnat to %s:80\n}", chain, endpoint))
	}
	n.nft("table ip kube-proxy {",
		strings.Join(chains, "\n"), fmt.Sprintf("map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { %s }\n}",
			strings.Join(elements, ", ")), `
	chain services {
		ip daddr . meta l4proto . th dport vmap @service-ips
	}
	chain nat-prerouting {
		type nat hook prerouting priority dstnat; policy accept;
		jump services
	}
	chain nat-output {
		type nat hook output priority -100; policy accept;
		jump services
	}
}`)
	n.tb.Cleanup(func() { n.nft("delete table ip kube-proxy") })
}

// TestServicesCatchNobodysPackets: a tenant's Service lists addresses that belong to others: addresses outside the cluster, and the
// faces of other tenants' pods. kube-proxy redirects their packets to the tenant's pod, or to whatever else the Service names. The
// node's chains exempt packets that pods send and packets for a pod. Without these chains kube-proxy redirects them, too.
func TestServicesCatchNobodysPackets(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	infra := n.addDefaultPod(a, "infra", 5)
	outer := []string{"203.0.113.80", "203.0.113.81", "203.0.113.82", "203.0.113.83", "203.0.113.84"}
	for _, address := range append(outer, "203.0.113.66") {
		must(t, world.inside(func() error { return giveAddress("wan0", address) }))
	}
	for _, p := range []*testPod{red, blue, infra} {
		serveName(t, p.inside, ":80", p.request.Pod.Key().String())
	}
	serveName(t, world.inside, ":80", "outside")
	serveName(t, here, ":80", "the node")
	face := blue.nic.Faces[0].String()
	n.externally(map[string]string{
		outer[0]: face, outer[1]: "10.128.2.5", outer[2]: testEncapIP, outer[3]: "169.254.169.254", outer[4]: "203.0.113.66",
		face: red.nic.Faces[0].String(), "10.128.2.5": red.nic.Faces[0].String(), world.nodeV4: face,
	})
	for _, address := range outer {
		wantAnswer(t, red.inside, address+":80", "outside sees "+world.nodeV4)
	}
	for _, address := range outer[1:] {
		wantAnswer(t, infra.inside, address+":80", "outside sees "+world.nodeV4)
	}
	// The range of a load balancer is kube-proxy's.
	wantAnswer(t, infra.inside, outer[0]+":80", "blue/one sees 10.128.2.5")
	wantAnswer(t, here, face+":80", "blue/one sees "+ownNode)
	wantAnswer(t, infra.inside, face+":80", "blue/one sees 10.128.2.5")
	wantAnswer(t, here, "10.128.2.5:80", "default/infra sees 10.128.1.1")
	// Who is no pod may use Services' external addresses, and is seen as who it is.
	wantAnswer(t, here, outer[0]+":80", "blue/one sees "+ownNode)
	wantAnswer(t, world.inside, world.nodeV4+":80", "blue/one sees "+world.v4)

	without(t, wall{"", "flush chain inet atoll bind"}, wall{"", "flush chain inet atoll bind-here"})
	for _, address := range outer[:4] {
		wantRefused(t, red.inside, address+":80")
	}
	// Without the chains each packet is redirected to the Service that lists its destination.
	for _, caught := range []struct {
		from         func(func() error) error
		address, not string
	}{
		{infra.inside, outer[1], "outside sees " + world.nodeV4},
		{here, face, "blue/one sees " + ownNode},
		{here, "10.128.2.5", "default/infra sees 10.128.1.1"},
	} {
		if answer, err := ask(caught.from, caught.address+":80"); err != nil || answer == caught.not {
			t.Errorf("without the chains %s is not caught (%q, error %v): this test shows nothing", caught.address, answer, err)
		}
	}
}

// TestHiddenClients: where kube-proxy hides the client, it is behind an address of the node.
func TestHiddenClients(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	blue := n.addGuest(a, "blue", "one", 5, 6)
	serveName(t, blue.inside, ":80", "blue/one")
	n.addService(world.nodeV4, blue.nic.Faces[0].String())
	n.nft("add chain ip services post { type nat hook postrouting priority srcnat; }",
		"add rule ip services post ct status dnat masquerade")
	answer, err := ask(world.inside, world.nodeV4+":80")
	client := strings.TrimPrefix(answer, "blue/one sees ")
	if local, _ := netdev.Addresses(); err != nil || !slices.Contains(local, netip.MustParseAddr(client)) {
		t.Errorf("a client that is hidden gets %q (error %v)", answer, err)
	}
}

// TestFlatNetworksObeyTheirAccess: what pods of the default Network reach of nodes, of the control plane and outside is what
// their Network says.
func TestFlatNetworksObeyTheirAccess(t *testing.T) {
	n, a, world := portholeNode(t, nil)
	other := givenTo("node2", 2)
	other.Addresses = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	a.world.SetNode(other)
	must(t, world.inside(func() error { return giveAddress("wan0", "203.0.113.9") }))
	infra, peer := n.addDefaultPod(a, "infra", 5), n.addDefaultPod(a, "peer", 6)
	for _, port := range []string{":9000", ":6443"} {
		// Go looks once whether there is IPv6, and outside there is no loopback to see it by.
		serveName(t, here, port, "the node")
	}
	serveName(t, world.inside, ":80", "outside")
	serveName(t, peer.inside, ":80", "peer")
	type reach struct{ node, api, out bool }
	for _, test := range []struct {
		egress model.Egress
		infra  model.InfraAccess
		want   reach
	}{
		{model.EgressNode, model.InfraDirect, reach{true, true, true}},
		{model.EgressNode, model.InfraServices, reach{false, true, true}},
		{model.EgressNone, model.InfraNone, reach{false, false, false}},
		{model.EgressNone, model.InfraDirect, reach{true, true, false}},
	} {
		t.Run(string(test.egress)+" "+string(test.infra), func(t *testing.T) {
			flat := *a.world.Network(uidOf("default"))
			flat.Egress, flat.Infra = test.egress, test.infra
			a.world.SetNetwork(&flat)
			must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
			for address, want := range map[string]bool{
				testEncapIP + ":9000": test.want.node, world.nodeV4 + ":9000": test.want.node, "10.128.1.1:9000": test.want.node,
				"203.0.113.9:80":              test.want.node,
				"[" + world.nodeV6 + "]:9000": test.want.node, "[fd00:128::1:1]:9000": test.want.node,
				testEncapIP + ":6443": test.want.api, "[" + world.nodeV6 + "]:6443": test.want.api,
				world.v4 + ":80": test.want.out, "[" + world.v6 + "]:80": test.want.out,
				"10.128.2.6:80": true, "169.254.169.254:80": false,
			} {
				if !want {
					wantRefused(t, infra.inside, address)
				} else if _, err := ask(infra.inside, address); err != nil {
					t.Errorf("%s: %v", address, err)
				}
			}
			// Whatever they reach, they are reached.
			if _, err := ask(here, "10.128.2.6:80"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDatabasesAreClosed: OVN's databases, on a machine that is no node and on one that is, are refused to pods whatever access
// their Network has.
func TestDatabasesAreClosed(t *testing.T) {
	n, a, world := portholeNode(t, func(_, blue *model.Network) { blue.Infra = model.InfraDirect })
	red, blue := n.addGuest(a, "red", "one", 5, 5), n.addGuest(a, "blue", "one", 5, 6)
	infra := n.addDefaultPod(a, "infra", 5)
	pods := []*testPod{red, blue, infra}
	serveName(t, world.inside, ":6641", "northbound")
	serveName(t, world.inside, ":6642", "southbound")
	serveName(t, here, ":6642", "southbound")
	serveName(t, here, ":9000", "the node")
	remote := []string{world.v4 + ":6641", world.v4 + ":6642"}
	// Until somebody says what they are.
	for _, address := range remote {
		if _, err := ask(red.inside, address); err != nil {
			t.Errorf("%s is not reached before: %v; this test shows nothing", address, err)
		}
	}
	for _, p := range pods[1:] {
		if _, err := ask(p.inside, testEncapIP+":6642"); err != nil {
			t.Errorf("the node's database is not reached before: %v; this test shows nothing", err)
		}
	}
	// As the flag --sb-address says it; ovn-controller needs its own.
	a.southbound = vswitch.Servers(fmt.Sprintf("tcp:%s:6642,tcp:%s:6642", world.v4, testEncapIP))
	must(t, a.portholes.Refresh(t.Context(), portholes.Trusting))
	// A Service with endpoints that somebody wrote by hand, as OVN has it in the Network, and as kube-proxy has it.
	n.nbctl("lb-add", "byhand", "10.96.0.77:80", world.v4+":6642", "--", "ls-lb-add", "red", "byhand", "--", "ls-lb-add", "blue", "byhand",
		"--", "ls-lb-add", "default", "byhand")
	n.nbctl("--wait=hv", "sync")
	n.addService("10.96.0.78", world.v4+":6642")
	for _, p := range pods {
		for _, address := range append(remote, testEncapIP+":6642", testEncapIP+":6641", "10.96.0.77:80") {
			wantRefused(t, p.inside, address)
		}
	}
	wantRefused(t, blue.inside, "10.96.0.78:80")
	// From outside, by a node port.
	n.addService(world.nodeV4, world.v4+":6642")
	wantRefused(t, world.inside, world.nodeV4+":80")
	// All else on the node is reached as before.
	for _, p := range pods[1:] {
		if _, err := ask(p.inside, testEncapIP+":9000"); err != nil {
			t.Error(err)
		}
	}
}
