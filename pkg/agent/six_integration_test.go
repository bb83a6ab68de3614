//go:build integration

package agent

import (
	"net"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/agent/portholes"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestOnlyIPv6WithPackets: a Network of IPv6 alone has names and the API in a cluster that has both by IPv4 alone, and as many of these
// doors as its owner opens.
func TestOnlyIPv6WithPackets(t *testing.T) {
	j := rangedWorld(t)
	infra := testInfrastructure()
	infra.DNS = infra.DNS[:1]
	j.agent.world.SetInfrastructure(infra)
	j.agent.world.SetAPI([]netip.AddrPort{netip.MustParseAddrPort(testAPI + ":443")})
	j.agent.world.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort(testEncapIP + ":6443")})
	j.service("kube-system", "kube-dns", 53, nil, testDNS)
	j.service("default", "kubernetes", 443, nil, testAPI)
	plan := rangePlan{name: "six", cidrs: []string{"fd00:6::/64"}}
	j.join(plan)
	near, far := j.pod("six", "near", "", "near"), j.pod("six", "far", "", "far")
	serveName(t, far.inside, ":80", "far")
	answers(t, near, far.nic.Addresses[0].Addr(), "80", "far")
	wantAnswer(t, here, net.JoinHostPort(far.nic.Faces[0].String(), "80"), "far sees "+ownNode6)
	answers(t, near, netip.MustParseAddr(j.world.v6), "80", "outside")
	six := netip.MustParseAddr("fd00:96::c850")
	j.wantName(t, near, model.NamesAddress6(), "web.six.svc.cluster.local.", six)
	answers(t, near, model.APIAddress6(), "443", "api")

	told, found := j.agent.ownAddresses(nri.Pod{Namespace: "six", Name: "near", UID: near.request.Pod.UID})
	if !found || told.Elsewhere.Resolver != model.NamesAddress6() || told.Elsewhere.API.String() != testAPI ||
		len(told.Elsewhere.Resolvers) != 1 {
		t.Errorf("containers are told %+v", told.Elsewhere)
	}

	// An API server that has IPv6 is dialled itself.
	j.agent.world.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort("[" + j.world.nodeV6 + "]:6443")})
	must(t, j.agent.portholes.Refresh(t.Context(), portholes.Trusting))
	answers(t, near, model.APIAddress6(), "443", "api")

	closed := *j.agent.world.Network(uidOf("six"))
	closed.Infra = model.InfraNone
	j.agent.world.SetNetwork(&closed)
	must(t, j.agent.portholes.Refresh(t.Context(), portholes.Trusting))
	wantRefused(t, near.inside, net.JoinHostPort(model.APIAddress6().String(), "443"))
	j.agent.world.SetServers("kubernetes", []netip.AddrPort{netip.MustParseAddrPort(testEncapIP + ":6443")})
	must(t, j.agent.portholes.Refresh(t.Context(), portholes.Trusting))
	wantRefused(t, near.inside, net.JoinHostPort(model.APIAddress6().String(), "443"))
	for _, p := range []*testPod{near, far} {
		must(t, j.agent.Del(t.Context(), p.request))
	}
}
