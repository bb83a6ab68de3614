//go:build integration

package decide_test

import (
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestNoPacketPassesOnceForbiddenWithPackets: of a connection that no policy allows any more nothing arrives, however many
// packets its client goes on sending.
func TestNoPacketPassesOnceForbiddenWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	s.answersInFull(s.pod("r", "one"), 8080)
	to := netip.AddrPortFrom(s.own("r", "one", false), 8080).String()
	set := func(name string, port uint16) model.PolicyKey {
		p := model.Policy{
			Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "r", Name: name}, UID: "uid-" + name, Tier: model.TierTenant,
			Subject: match.Pods{Namespace: "r"}, Isolates: [2]bool{true, false},
			Rules: [2][]model.Rule{
				{
					{
						Verdict: model.Allow, Peers: []model.Peer{{Pods: &match.Pods{}}}, Ports: []model.PolicyPort{
							{Protocol: model.UDP, First: port, Last: port},
						},
					},
				}, nil,
			},
		}
		s.setPolicy(p)
		s.hasACLs(p.Key, true)
		return p.Key
	}
	first := set("first", 8080)
	c, err := dial(t, client, "udp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n := 0
	try := func() string {
		n++
		if _, err := c.Write(numbered(n, small, small)); err != nil {
			t.Fatal(err)
		}
		return s.hears(c, numbered(n, 0, small))
	}
	for range 3 {
		if got := try(); got != "answered" {
			t.Fatalf("the control: %s", got)
		}
	}
	second := set("second", 9090)
	s.deletePolicy(first)
	s.hasACLs(first, false)
	const times = 8
	tries := func(what, want string) {
		t.Helper()
		for range times {
			if got := try(); got != want {
				t.Errorf("%s: a datagram is %s, want %s", what, got, want)
			}
		}
	}
	tries("no policy allows it", "lost")
	first = set("first", 8080)
	tries("a policy allows it again", "answered")
	s.deletePolicy(first)
	s.hasACLs(first, false)
	tries("no policy allows it once more", "lost")
	s.deletePolicy(second)
	s.hasACLs(second, false)
	tries("no policy isolates", "answered")
}
