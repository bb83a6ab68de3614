//go:build integration

package agent

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/test/frames"
)

// TestNobodyPosesAsAConsumer: a provider's pod sees a face as its client only if that face's pod has sent the packet. A
// consumer's pod forges with OVN's port security away, so that porthole and node stand alone; a pod of the default Network is
// held by its port security.
func TestNobodyPosesAsAConsumer(t *testing.T) {
	p := newPeers(t, []string{"near", "one", "two", "stranger"}, []string{"far"})
	p.serve("near", "one", "two")
	p.serve("far", "one", "two")
	n := p.nodes[0]
	infra := n.addDefaultPod(p.agents[0], "infra", 5)
	n.nbctl("--wait=hv", "sync")
	came := map[string]*inbox{}
	for _, provider := range []string{"near", "far"} {
		came[provider] = inboxOf(listenUDP(t, p.pods[provider].inside, ":9"))
	}
	router, err := net.ParseMAC("0a:58:00:00:00:01")
	must(t, err)
	send := func(by *testPod, source netip.Addr, provider, text string) {
		t.Helper()
		own, err := net.ParseMAC(by.nic.MAC)
		must(t, err)
		by.sendFrame(frames.V4{
			From: own, To: router, Source: source, Target: p.face(provider, 0), Protocol: unix.IPPROTO_UDP, Payload: frames.UDP(4711, 9, text),
		}.Bytes())
	}
	arrives := func(by *testPod, source netip.Addr, provider string) {
		t.Helper()
		text := fmt.Sprintf("arrives %d.", texts.Add(1))
		came[provider].wantArrival(t, text, func() { send(by, source, provider, text) })
	}
	one, two, stranger := p.pods["one"], p.face("two", 0), p.pods["stranger"]
	own, nobodys := one.nic.Addresses[0].Addr(), netip.MustParseAddr("100.64.1.99")
	n.nbctl("--wait=hv", "lsp-set-port-security", one.request.Pod.Key().String(), "--",
		"lsp-set-port-security", stranger.request.Pod.Key().String())
	for _, provider := range []string{"near", "far"} {
		arrives(one, own, provider)
		for _, source := range []netip.Addr{two, p.face("one", 0), nobodys, p.face("far", 0), p.face("near", 0)} {
			for _, by := range []*testPod{one, stranger, infra} {
				// The pod is told by the texts of what fails.
				text := fmt.Sprintf("by %s %d.", by.request.Pod.Key(), texts.Add(1))
				came[provider].never(t, text, func() { send(by, source, provider, text) }, func(mark string) { send(one, own, provider, mark) })
			}
		}
	}
	// The controls: without what looks at sources in the porthole and on the node, nftables and the kernel's reverse path, and
	// without port security.
	without(t, wall{porthole.IDOf(uidOf("one")).Name(), "flush chain inet atoll entrance"}, wall{"", "flush chain inet atoll entrance"})
	for _, link := range []string{"all", porthole.IDOf(uidOf("one")).HostLink()} {
		file := filepath.Join("/proc/sys/net/ipv4/conf", link, "rp_filter")
		was, err := os.ReadFile(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte("0"), 0o644))
		t.Cleanup(func() { _ = os.WriteFile(file, was, 0o644) })
	}
	n.nbctl("--wait=hv", "lsp-set-port-security", infra.request.Pod.Key().String())
	for _, provider := range []string{"near", "far"} {
		arrives(one, two, provider)
		arrives(infra, two, provider)
	}
}
