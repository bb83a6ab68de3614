//go:build integration

package decide_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// A second flat Network shares the default one's router, its load balancers and its way out. Its pods reach each other, nodes and
// infrastructure's pods, and are reached by them; other pods of the default Network and they do not reach each other, by Services
// neither.
func TestASecondFlatNetworkWithPackets(t *testing.T) {
	s := newFaceStage(t)
	wide := network("wide")
	wide.Type, wide.Created = model.Flat, wide.Created.Add(1)
	wide.Subnets = []model.Subnet{
		{Name: "pods", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.245.0.0/24"), netip.MustParsePrefix("fd00:245::/64")}},
	}
	s.setNetwork(wide)
	s.setNamespace("w", map[string]string{model.LabelNetwork: "wide"})
	guests := map[string]*ovn.Guest{"n1": s.node}
	for _, name := range []string{"w/one", "w/two", "a/plain", "kube-system/dns"} {
		ns, pod, _ := strings.Cut(name, "/")
		guests[name] = s.pod(ns, pod)
		s.serve(guests[name], facePort, name)
	}
	at := func(name string, v6 bool) netip.Addr {
		if ns, pod, isPod := strings.Cut(name, "/"); isPod {
			return s.own(ns, pod, v6)
		}
		return s.nodeHas(name).Addresses[b2i(v6)].Addr()
	}
	try := func(from, to string, v6, answered bool) {
		t.Helper()
		for _, protocol := range []string{"tcp", "udp"} {
			address := netip.AddrPortFrom(at(to, v6), facePort).String()
			who := to
			if to == "n1" {
				who = "face"
			}
			want := refused
			if answered {
				want = who + " sees " + at(from, v6).String()
			}
			if got := asks(t, guests[from], protocol, address); got != want {
				t.Errorf("%s dials %s at %s by %s: %q, want %q", from, to, address, protocol, got, want)
			}
		}
	}
	apart := [][2]string{{"w/one", "a/plain"}, {"a/plain", "w/one"}}
	for _, v6 := range []bool{false, true} {
		for _, together := range [][2]string{
			{"w/one", "w/two"},
			{"w/one", "kube-system/dns"},
			{"kube-system/dns", "w/one"},
			{"n1", "w/one"},
			{"w/one", "n1"},
			{"a/plain", "kube-system/dns"},
			{"kube-system/dns", "a/plain"},
		} {
			try(together[0], together[1], v6, true)
		}
		for _, pair := range apart {
			try(pair[0], pair[1], v6, false)
		}
	}

	// A Service is known in all of the space, and judged as what it leads to.
	for ns, pod := range map[string]string{"r": "w/two", "a": "a/plain"} {
		of, name, _ := strings.Cut(pod, "/")
		web := dualService(ns, "web")
		web.Key.Namespace = of
		s.setService(web)
		s.behind(of, "web", false, name)
		s.leads("default", of+"/web", "tcp", vips(ns)[0], netip.AddrPortFrom(at(pod, false), facePort))
	}
	if got, want := asks(t, guests["w/one"], "tcp", vips("r")[0]), "w/two sees "+at("w/one", false).String(); got != want {
		t.Errorf("a Service of the own Network: %q, want %q", got, want)
	}
	for from, vip := range map[string]string{"w/one": vips("a")[0], "a/plain": vips("r")[0]} {
		if got := asks(t, guests[from], "tcp", vip); strings.Contains(got, "sees") {
			t.Errorf("%s reaches a Service of the other Network: %q", from, got)
		}
	}

	// The control: without the rows that refuse, they reach each other.
	s.engine.stop()
	for row := range strings.FieldsSeq(nbctl(t, s.central, "--bare", "--columns=_uuid", "find", "ACL", "action=reject")) {
		for group := range strings.FieldsSeq(nbctl(t, s.central, "--bare", "--columns=_uuid", "find", "Port_Group", "acls{>=}"+row)) {
			nbctl(t, s.central, "remove", "Port_Group", group, "acls", row)
		}
	}
	s.sync()
	for _, pair := range slices.Concat(apart) {
		try(pair[0], pair[1], false, true)
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
