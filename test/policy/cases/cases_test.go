package cases_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
	"github.com/atoll-net/atoll/test/policy/random"
)

// TestACaseIsReadAsItWasWritten: what a failing test prints can be saved and fails again.
func TestACaseIsReadAsItWasWritten(t *testing.T) {
	draw := random.Case(5)
	for seed := range 50 {
		c := draw.Example(seed)
		for i := range c.Packets {
			c.Packets[i].Verdict = c.Judge(c.Packets[i].Packet).String()
		}
		text, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "case.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := cases.Read(file)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, p := range again.Packets {
			if got := again.Judge(p.Packet).String(); got != p.Verdict {
				t.Errorf("seed %d: read again, the case says %s instead of %s\n%s", seed, got, p.Verdict, text)
			}
		}
		if twice, err := again.Text(); err != nil || string(twice) != string(text) {
			t.Errorf("seed %d: read and written again it is another text (%v)", seed, err)
		}
	}
}

// TestWhatIsLeftIsNeeded: a case made smaller still fails, the one that was given is not touched, and only what the
// failure needs is left: a policy, a rule, two pods and their namespaces.
func TestWhatIsLeftIsNeeded(t *testing.T) {
	draw, tried := random.Case(20), 0
	for seed := 0; tried < 10; seed++ {
		whole := draw.Example(seed)
		wanted := func(c cases.Case) bool {
			for _, p := range c.Packets {
				v := c.Judge(p.Packet)
				if v.Allowed && v.Egress.Why == oracle.Nothing && v.Ingress.Why == oracle.ByRule && p.From.Pod != "" {
					return true
				}
			}
			return false
		}
		if !wanted(whole) {
			continue
		}
		tried++
		before, err := whole.Text()
		if err != nil {
			t.Fatal(err)
		}
		small := cases.Shrink(whole, wanted)
		if !wanted(small) {
			t.Fatalf("seed %d: what is left does not fail", seed)
		}
		after, err := whole.Text()
		if err != nil || string(before) != string(after) {
			t.Fatalf("seed %d: the case itself was changed", seed)
		}
		if len(small.Policies)+len(small.ClusterPolicies) != 1 || len(small.Pods) != 2 || len(small.Packets) != 1 || len(small.Namespaces) > 2 {
			text, _ := small.Text()
			t.Errorf("seed %d: more is left than the failure needs:\n%s", seed, text)
		}
	}
}
