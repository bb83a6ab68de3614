//go:build integration

package agree_test

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
	"github.com/atoll-net/atoll/test/policy/agree"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// tracedTrials is how many changes are put before ovn-trace, and tracedPaths how many paths of each that change.
const tracedTrials, tracedPaths = 100, 15

// TestOVNDoesWhatATrialSays: what is said to change is let through, or dropped, by OVN with the policy applied, and was not before.
func TestOVNDoesWhatATrialSays(t *testing.T) {
	bench, draw := open(t), drawTried()
	packets, tried := 0, 0
	for seed := 0; tried < tracedTrials; seed++ {
		c := draw.Example(seed)
		q, err := agree.QuestionOf(c.before, c.after)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := policytrial.Compare(q)
		if err != nil {
			t.Fatal(err)
		}
		var changed []cases.Packet
		for i, p := range agree.Paths(c.before) {
			what, changes := p.Otherwise(outcome, c.before, c.after)
			if what != "" {
				t.Fatalf("seed %d: %s", seed, what)
			}
			if changes && len(p.Packets) == 1 && i%3 == 0 && len(changed) < tracedPaths {
				changed = append(changed, cases.Packet{Packet: p.Packets[0]})
			}
		}
		if len(changed) == 0 {
			continue
		}
		tried, packets = tried+1, packets+len(changed)
		for when, cluster := range map[string]oracle.Cluster{"before": c.before, "after": c.after} {
			found, err := bench.Try(t.Context(), cases.Case{Cluster: cluster, Packets: changed})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, when, err)
			}
			for _, d := range found {
				t.Errorf("seed %d: %s: %s", seed, when, d)
			}
		}
	}
	t.Attr("trials", fmt.Sprintf("%d packets that %d policies change: ovn-trace agrees before and after", packets, tried))
	if packets < tracedTrials*2 {
		t.Errorf("%d packets show nothing", packets)
	}
}
