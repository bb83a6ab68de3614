package random

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/test/policy/oracle"
)

// TestEveryKindOfVerdictIsDrawn: cases in which nothing is ever decided would prove nothing.
func TestEveryKindOfVerdictIsDrawn(t *testing.T) {
	seen := map[string]int{}
	all := 0
	gen := Case(40)
	for seed := range 300 {
		c := gen.Example(seed)
		for _, p := range c.Packets {
			v := c.Judge(p.Packet)
			all++
			for _, r := range []oracle.Reason{v.Egress, v.Ingress} {
				kind, _, _ := strings.Cut(r.Policy, " ")
				verb := map[bool]string{true: "allowed", false: "denied"}[r.Allowed]
				seen[verb+" "+string(r.Why)+" "+kind]++
			}
			seen[map[bool]string{true: "allowed", false: "denied"}[v.Allowed]]++
		}
	}
	t.Logf("%d packets: %v", all, seen)
	for _, want := range []string{
		"allowed rule NetworkPolicy", "allowed rule ClusterNetworkPolicy", "denied rule ClusterNetworkPolicy",
		"denied isolated by default NetworkPolicy", "allowed nothing selects it ", "allowed the pod's own node ",
		"allowed no pod of the Network ", "allowed", "denied",
	} {
		if seen[want] < all/100 {
			t.Errorf("%d of %d packets are %s", seen[want], all, want)
		}
	}
}

// TestACaseIsDrawnWhole: what is drawn once is drawn again by the same choices, and can be written down.
func TestACaseIsDrawnWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Case(5).Draw(t, "case")
		if _, err := c.Text(); err != nil {
			t.Fatal(err)
		}
	})
}
