package trial

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/test/inspected"
)

// tryIn tries policies in a world, for an asker who may ask about some namespaces; nil: about all.
func tryIn(w *inspected.World, tried Tried, own []string) (api.PolicyTrialStatus, error) {
	var may question.MayAsk
	if own != nil {
		may = func(namespace string) (bool, error) { return slices.Contains(own, namespace), nil }
	}
	s := snapshot.Sources{
		Held:     func() (snapshot.Held, error) { return w.HeldOf(), nil },
		Settings: func() (config.Settings, error) { return inspected.Explained(), nil },
	}
	return Answer(context.Background(), s, tried, may, nil)
}

// closed isolates every pod of a namespace, in both directions.
func closed(namespace string) Tried {
	p := inspected.ClosedPolicy(namespace)
	return Tried{p.Key: p}
}

// TestNothingOfOthersIsTried: an asker with one namespace learns what a policy there would change between the asker's own pods, and
// between these and ends that belong to no tenant. The answer names no other tenant's pod and does not depend on any. The control:
// an asker who may ask about everything sees those pods.
func TestNothingOfOthersIsTried(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	leaks := 0
	for _, own := range []string{"red", "blue", "green", "own", "west", "foreign"} {
		some, err := tryIn(w, closed(own), []string{own})
		if err != nil {
			t.Fatal(err)
		}
		all, err := tryIn(w, closed(own), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !some.Changes || !all.Changes {
			t.Errorf("%s: isolation changes nothing: %s", own, some.Verdict)
		}
		if named := trialNames(w, some, own); len(named) > 0 {
			t.Errorf("%s is told of %v", own, named)
		}
		leaks += len(trialNames(w, all, own))
		// The answer is the same when others have no pods.
		alone := inspected.TownWorld(t)
		for key := range alone.Objects.Pods {
			if key.Namespace != own && key.Namespace != "kube-system" {
				delete(alone.Objects.Pods, key)
			}
		}
		without, err := tryIn(alone, closed(own), []string{own})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := textOf(t, some), textOf(t, without); a != b {
			t.Errorf("%s: what he is told depends on others' pods:\n%s\n%s", own, a, b)
		}
	}
	if leaks == 0 {
		t.Error("with every right nobody else is named either: that shows nothing")
	}
}

func textOf(t testing.TB, s api.PolicyTrialStatus) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// trialNames returns the other namespaces that an answer names.
func trialNames(w *inspected.World, s api.PolicyTrialStatus, own string) (out []string) {
	text := textOf(w.T, s)
	for name := range w.Objects.Namespaces {
		if name != own && strings.Contains(text, `"`+name+"/") {
			out = append(out, name)
		}
	}
	return out
}

// TestWhatATrialSays: the answer says what changes, and why. Some questions are refused.
func TestWhatATrialSays(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	all, err := tryIn(w, closed("red"), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := textOf(t, all)
	for _, want := range []string{
		`"name":"the Kubernetes API"`, `"name":"blue/client"`,
		`"after":{"allowed":false,"deciders":["isolation of Egress by NetworkPolicy/red/closed"]}`, `"name":"node/n`,
		`"isolation of Ingress by NetworkPolicy/red/closed"`, "would be denied, 0 newly allowed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s in %s", want, text)
		}
	}
	lock := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "lock"}
	gone, err := tryIn(w, Tried{lock: nil}, nil)
	if err != nil || gone.Denied != 0 || gone.Allowed == 0 || !strings.Contains(gone.Verdict, "would be allowed, 0 denied") {
		t.Errorf("without the policy: %s %v", gone.Verdict, err)
	}
	same, err := tryIn(w, Tried{lock: w.Objects.Policies[lock]}, nil)
	if err != nil || same.Changes ||
		same.Verdict != "Nothing would change: the policies select no pod" && same.Verdict != "Nothing would change" {
		t.Errorf("with what is there: %s %v", same.Verdict, err)
	}
	none := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "none"}
	if _, err := tryIn(w, Tried{none: nil}, nil); err == nil || !strings.Contains(err.Error(), "there is no NetworkPolicy/red/none") {
		t.Errorf("of what is not there: %v", err)
	}
	whole := model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "all"}
	if _, err := tryIn(w, Tried{whole: nil}, []string{"red"}); err == nil || !strings.Contains(err.Error(), "pods of all namespaces") {
		t.Errorf("of the whole cluster, for one who may not ask about it: %v", err)
	}
}
