package agree_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/policytrial"
	"github.com/atoll-net/atoll/test/policy/agree"
	"github.com/atoll-net/atoll/test/policy/oracle"
	"github.com/atoll-net/atoll/test/policy/random"
)

// tried is a cluster before and after a change.
type tried struct{ before, after oracle.Cluster }

func drawTried() *rapid.Generator[tried] {
	return rapid.Custom(func(t *rapid.T) tried {
		before := random.Case(0).Draw(t, "cluster").Cluster
		return tried{before, random.Changed(before).Draw(t, "after")}
	})
}

// disagreements compares what somebody says of a change with what the oracle says of the cluster before and after, on every path.
func disagreements(t *testing.T, c tried, say func(policytrial.Question) (policytrial.Outcome, error)) (out []string, paths, changed int) {
	t.Helper()
	q, err := agree.QuestionOf(c.before, c.after)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := say(q)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range agree.Paths(c.before) {
		what, changes := p.Otherwise(outcome, c.before, c.after)
		if paths++; changes {
			changed++
		}
		if what != "" {
			out = append(out, what)
		}
	}
	return out, paths, changed
}

// trials is how many random changes are tried.
const trials = 100

// TestATrialAgreesWithWhatHappens: what would change, is what the oracle says of the cluster with the policy applied: on every
// path of 100 random clusters, each with one random policy that comes, is another one, or goes.
func TestATrialAgreesWithWhatHappens(t *testing.T) {
	t.Parallel()
	draw := drawTried()
	paths, changed, quiet := 0, 0, 0
	for seed := range trials {
		found, n, differ := disagreements(t, draw.Example(seed), policytrial.Compare)
		if paths, changed = paths+n, changed+differ; differ == 0 {
			quiet++
		}
		if len(found) > 0 {
			t.Errorf("seed %d: %d of %d paths: %s", seed, len(found), n, found[0])
		}
	}
	t.Logf("%d paths in %d cases, %d changed; in %d cases none did", paths, trials, changed, quiet)
	if changed < paths/50 || quiet > trials*2/3 || quiet == 0 {
		t.Errorf("that shows little: %d of %d paths changed, in %d cases none", changed, paths, quiet)
	}
}

// TestAWrongTrialIsFound is the control: whoever judges otherwise, disagrees somewhere.
func TestAWrongTrialIsFound(t *testing.T) {
	t.Parallel()
	draw := drawTried()
	for name, say := range map[string]func(policytrial.Question) (policytrial.Outcome, error){
		"says that nothing changes": func(policytrial.Question) (policytrial.Outcome, error) { return policytrial.Outcome{}, nil },
		"takes all ports together": func(q policytrial.Question) (policytrial.Outcome, error) {
			o, err := policytrial.Compare(q)
			for i := range o.Changes {
				for k := range o.Changes[i].Ports {
					o.Changes[i].Ports[k].Ranges = []policytrial.Range{{First: 1, Last: 65535}}
				}
			}
			return o, err
		},
		"forgets what rules say of egress": func(q policytrial.Question) (policytrial.Outcome, error) {
			for key, p := range q.Policies {
				if p != nil {
					other := *p
					other.Rules[model.PolicyEgress] = nil
					q.Policies[key] = &other
				}
			}
			return policytrial.Compare(q)
		},
		"takes both IP families together": func(q policytrial.Question) (policytrial.Outcome, error) {
			o, err := policytrial.Compare(q)
			for i := range o.Changes {
				o.Changes[i].Family = ""
			}
			return o, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range trials {
				if found, _, _ := disagreements(t, draw.Example(seed), say); len(found) > 0 {
					return
				}
			}
			t.Error("nobody has found it")
		})
	}
}
