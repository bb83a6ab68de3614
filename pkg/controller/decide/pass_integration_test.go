//go:build integration

package decide_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// What a rule passes, and nothing decides after it, is let in with its answers, also where the receiver may send nothing of its
// own: OVN follows connections that some tier has no row about, and tier 0 has none about these.
func TestWhatPassesIsAnsweredWithPackets(t *testing.T) {
	for name, tier := range map[string]model.Tier{"Admin": model.TierAdmin, "Baseline": model.TierBaseline} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.setNamespace("c", map[string]string{model.LabelNetwork: "red"})
			client, server := s.pod("c", "client"), s.pod("r", "server")
			s.serve(server, 80, "server")
			s.serve(client, 80, "client")
			silent := isolated("r")
			silent.Isolates = [2]bool{false, true}
			s.decides(silent, "red")
			to := func(ns, name string, v6 bool) string { return netip.AddrPortFrom(s.own(ns, name, v6), 80).String() }
			eventually(t, "i/o timeout", func() string { return asks(t, server, "tcp", to("c", "client", false)) })
			answers := func() string {
				var out string
				for _, v6 := range []bool{false, true} {
					for _, protocol := range []string{"tcp", "udp"} {
						out += fmt.Sprintln(asks(t, client, protocol, to("r", "server", v6)))
					}
				}
				return out
			}
			var want string
			for _, v6 := range []bool{false, true} {
				want += fmt.Sprintf("server sees %[1]s\nserver sees %[1]s\n", s.own("c", "client", v6))
			}
			if got := answers(); got != want {
				t.Errorf("without the rule: %q, want %q", got, want)
			}
			s.setPolicy(model.Policy{
				Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "pass"}, UID: "uid-pass", Tier: tier, Priority: 10,
				Subject: match.Pods{Namespace: "r"},
				Rules:   [2][]model.Rule{model.PolicyIngress: {{Verdict: model.Pass, AnyPeer: true, AnyPort: true}}},
			})
			eventually(t, "there", func() string {
				if nbctl(t, s.central, "--bare", "--columns=_uuid", "find", "ACL", `external_ids:"atoll.dev/uid"=uid-pass`) != "" {
					return "there"
				}
				return "no ACL"
			})
			s.sync()
			if got := answers(); got != want {
				t.Errorf("with the rule: %q, want %q", got, want)
			}
		})
	}
}
