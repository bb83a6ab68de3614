//go:build integration

package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// isolated lets the pods of a namespace neither receive nor send anything, except to peers.
func isolated(ns string, to ...model.Peer) model.Policy {
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: "isolated"}, UID: "uid-isolated-" + ns, Tier: model.TierTenant,
		Subject: match.Pods{Namespace: ns}, Isolates: [2]bool{true, true},
	}
	if len(to) > 0 {
		p.Rules[model.PolicyEgress] = []model.Rule{{Verdict: model.Allow, AnyPort: true, Peers: to}}
	}
	return p
}

// decides waits until the node has a policy's rows.
func (s *stage) decides(p model.Policy, network string) {
	s.t.Helper()
	s.setPolicy(p)
	want := "an ACL"
	eventually(s.t, want, func() string {
		out := nbctl(s.t, s.central, "--bare", "--columns=match", "find", "ACL", "external_ids:atoll.dev/network="+network)
		if !strings.Contains(out, "outport") {
			return out
		}
		return want
	})
	s.sync()
}

// No policy keeps a pod from itself: it reaches itself by its Service and by its face, when it may reach nobody else.
func TestAnIsolatedPodReachesItselfWithPackets(t *testing.T) {
	s := newStage(t)
	for ns, network := range homes {
		t.Run(network, func(t *testing.T) {
			s.t = t
			one, other := s.pod(ns, "one"), s.pod(ns, "other")
			s.serve(one, 8080, "one")
			heard := listenSCTP(t, one)
			s.setService(dualService(ns, "web"))
			for i, vip := range vips(ns) {
				s.behind(ns, "web", i == 1, "one")
				for _, protocol := range []string{"tcp", "udp", "sctp"} {
					s.leads(network, ns+"/web", protocol, vip, netip.AddrPortFrom(s.own(ns, "one", i == 1), 8080))
				}
			}
			if got := asks(t, other, "tcp", vips(ns)[0]); !strings.HasPrefix(got, "one sees ") {
				t.Fatalf("without a policy: %q", got)
			}
			s.decides(isolated(ns), network)
			for i, vip := range vips(ns) {
				v6 := i == 1
				for _, protocol := range []string{"tcp", "udp"} {
					want := "one sees " + netip.MustParseAddrPort(vip).Addr().String()
					if got := asks(t, one, protocol, vip); got != want {
						t.Errorf("itself by %s %s: %q, want %q", protocol, vip, got, want)
					}
					if got := asks(t, other, protocol, vip); got != "i/o timeout" {
						t.Errorf("another by %s %s: %q", protocol, vip, got)
					}
					if face := s.face(ns, "one", v6); face != s.own(ns, "one", v6) {
						want := "one sees " + face.String()
						if got := asks(t, one, protocol, netip.AddrPortFrom(face, 8080).String()); got != want {
							t.Errorf("itself by %s to its face: %q, want %q", protocol, got, want)
						}
					}
				}
			}
			vip := netip.MustParseAddrPort(vips(ns)[0])
			if err := heard.say(sctpInit, 4000, vip, 0); err != nil {
				t.Fatal(err)
			}
			chunk, from, to, err := heard.hears()
			if want := netip.AddrPortFrom(vip.Addr(), 4000); err != nil || chunk != sctpInit || from != want || to != 8080 {
				t.Errorf("itself by SCTP: it hears %d from %s at port %d (%v), want %d from %s at port 8080", chunk, from, to, err, sctpInit, want)
			}
		})
	}
}

// A block that holds a pod's face means the pod, however it is dialled; the face of a pod of another Network means nobody
// here, though a pod has that one's own address.
func TestABlockMeansPodsByTheirFacesWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	for _, name := range []string{"one", "two"} {
		s.serve(s.pod("r", name), 8080, name)
	}
	// The second pods of both Networks have the same address, and other faces.
	s.pod("b", "first")
	s.pod("b", "second")
	if s.own("r", "one", false) != s.own("b", "second", false) {
		t.Fatalf("%s and %s are to be the same", s.own("r", "one", false), s.own("b", "second", false))
	}
	block := func(face netip.Addr) model.Peer {
		return model.Peer{Block: &model.Block{CIDR: netip.PrefixFrom(face, face.BitLen())}}
	}
	blue := block(s.face("b", "second", false))
	reached := func(v6 bool, name string) string {
		own, face := netip.AddrPortFrom(s.own("r", name, v6), 8080), netip.AddrPortFrom(s.face("r", name, v6), 8080)
		return asks(t, client, "tcp", own.String()) + ", " + asks(t, client, "udp", face.String())
	}
	allowing := isolated("r", blue)
	allowing.Isolates = [2]bool{false, true}
	s.decides(allowing, "red")
	const none = "i/o timeout, i/o timeout"
	eventually(t, none, func() string { return reached(false, "one") })
	for i, v6 := range []bool{false, true} {
		allowing.Rules[model.PolicyEgress][0].Peers = []model.Peer{blue, block(s.face("r", "one", v6))}
		s.decides(allowing, "red")
		seen := "one sees " + s.own("r", "client", v6).String()
		eventually(t, seen+", "+seen, func() string { return reached(v6, "one") })
		if got := reached(v6, "two"); got != none {
			t.Errorf("%d: a pod that is not meant: %s", i, got)
		}
		if got := reached(!v6, "one"); got != none {
			t.Errorf("%d: the pod in the other family: %s", i, got)
		}
	}
	// All but one, of everything there is.
	face := s.face("r", "one", false)
	allowing.Rules[model.PolicyEgress][0].Peers = []model.Peer{{Block: &model.Block{
		CIDR: netip.MustParsePrefix("0.0.0.0/0"), Except: []netip.Prefix{netip.PrefixFrom(face, 32)},
	}}}
	s.decides(allowing, "red")
	seen := "two sees " + s.own("r", "client", false).String()
	eventually(t, seen+", "+seen, func() string { return reached(false, "two") })
	if got := reached(false, "one"); got != none {
		t.Errorf("the pod that is left out: %s", got)
	}
}
