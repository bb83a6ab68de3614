package trial

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/inspected"
)

// seenFlow is a flow from one end to another, as it was decided at the pod dialled: ends are pods, faces of pods
// (face/NAMESPACE/NAME) or addresses.
func seenFlow(w *inspected.World, network, from, to string, port uint16, verdict string) api.Flow {
	w.T.Helper()
	end := func(text string) api.FlowEnd {
		name, face := strings.CutPrefix(text, "face/")
		namespace, pod, _ := strings.Cut(name, "/")
		p := w.Objects.Pods[model.PodKey{Namespace: namespace, Name: pod}]
		switch {
		case p == nil:
			return api.FlowEnd{Address: text}
		case face:
			return api.FlowEnd{Kind: api.FlowPod, Name: name, Address: p.Assigned[0].Faces[0].String()}
		}
		return api.FlowEnd{Kind: api.FlowPod, Name: name, Address: p.Assigned[0].Addresses[0].Addr().String()}
	}
	f := api.Flow{
		Network: network, From: end(from), To: end(to), Protocol: "tcp", Port: port, Verdict: verdict, Direction: "Ingress", Policy: nb.Isolation,
		Last: meta.NewMicroTime(time.Unix(5000, 0)), Connections: 2,
	}
	if verdict == "allow" {
		f.Policy = "NetworkPolicy/red/lock"
	}
	return f
}

func tryFlows(w *inspected.World, tried Tried, own []string, flows ...api.Flow) *api.TrialFlows {
	w.T.Helper()
	var may question.MayAsk
	if own != nil {
		may = func(namespace string) (bool, error) { return slices.Contains(own, namespace), nil }
	}
	s := snapshot.Sources{
		Held:     func() (snapshot.Held, error) { return w.HeldOf(), nil },
		Settings: func() (config.Settings, error) { return inspected.Explained(), nil },
	}
	status, err := Answer(context.Background(), s, tried, may, &TriedFlows{Since: time.Hour, Flows: flows})
	if err != nil {
		w.T.Fatal(err)
	}
	return status.Flows
}

// TestWhichFlowsAPolicyWouldHaveStopped: those that were let through and would not be, and those that were dropped and would not
// be; of what it does not know it says so, and what is of another Network, or no policy's, is nothing to it.
func TestWhichFlowsAPolicyWouldHaveStopped(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	lock := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "lock"}
	opened := *w.Objects.Policies[lock]
	block := model.Block{CIDR: netip.MustParsePrefix("203.0.113.0/24")}
	opened.Rules[model.PolicyIngress] = append(slices.Clone(opened.Rules[model.PolicyIngress]),
		model.Rule{Verdict: model.Allow, Peers: []model.Peer{{Block: &block}}, AnyPort: true})
	shut := *w.Objects.Policies[lock]
	shut.Rules[model.PolicyIngress] = nil
	own := seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow")
	own.Policy = nb.OwnNode
	folded := seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow")
	folded.From, folded.To, folded.Protocol = api.FlowEnd{}, api.FlowEnd{}, ""
	nobodys := seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow")
	nobodys.To.Kind, nobodys.To.Name = "", ""
	elsewhere := seenFlow(w, "blue", "red/friend", "red/locked", 5432, "allow")
	earlier := seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow")
	earlier.Last = meta.NewMicroTime(time.Unix(1, 0))
	for name, c := range map[string]struct {
		tried Tried
		own   []string
		flow  api.Flow
		want  string
	}{
		"let through and stopped": {
			closed("red"), nil, seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow"), "1 stopped",
		},
		"dropped, and would be":               {closed("red"), nil, seenFlow(w, "red", "red/web", "red/locked", 5432, "drop"), ""},
		"dropped then, and let through today": {closed("red"), nil, seenFlow(w, "red", "red/friend", "red/locked", 5432, "drop"), ""},
		"dropped, and let through":            {Tried{lock: nil}, nil, seenFlow(w, "red", "red/web", "red/locked", 80, "drop"), "1 allowed"},
		"let through, and would be":           {Tried{lock: nil}, nil, seenFlow(w, "red", "red/friend", "red/locked", 5432, "allow"), ""},
		"from another Network by a face": {
			Tried{lock: &shut}, nil, seenFlow(w, "red", "face/blue/client", "red/locked", 5432, "allow"), "1 stopped",
		},
		"of another Network's, for one who is not": {
			closed("red"), []string{"red"}, seenFlow(w, "red", "face/blue/client", "red/locked", 5432, "allow"), "1 unjudged",
		},
		"from outside, newly":            {Tried{lock: &opened}, nil, seenFlow(w, "red", "203.0.113.9", "red/locked", 80, "drop"), "1 allowed"},
		"from outside, of another range": {Tried{lock: &opened}, nil, seenFlow(w, "red", "198.51.100.9", "red/locked", 80, "drop"), ""},
		"from a pod that has gone":       {closed("red"), nil, seenFlow(w, "red", "10.0.0.250", "red/locked", 5432, "allow"), "1 unjudged"},
		"from one that came later":       {closed("red"), nil, earlier, "1 unjudged"},
		"at nobody's pod":                {closed("red"), nil, nobodys, "1 unjudged"},
		"in another Network":             {closed("red"), nil, elsewhere, "1 unjudged"},
		"of a flood":                     {closed("red"), nil, folded, "1 unjudged"},
		"by no policy":                   {closed("red"), nil, own, ""},
	} {
		got := tryFlows(w, c.tried, c.own, c.flow, c.flow)
		var said []string
		for what, n := range map[string]int{"stopped": got.Stopped, "allowed": got.Allowed, "unjudged": got.Unjudged / 2} {
			if n > 0 {
				said = append(said, fmt.Sprintf("%d %s", n, what))
			}
		}
		if text := strings.Join(said, ", "); text != c.want || got.Seen != 2 || len(got.Changes) != got.Stopped+got.Allowed {
			t.Errorf("%s: %s, want %s: %+v", name, text, c.want, got)
		}
		if len(got.Changes) > 0 && (got.Changes[0].Flow.Connections != 4 || got.Changes[0].Before.Allowed == got.Changes[0].After.Allowed) {
			t.Errorf("%s: two that are the same are told as %+v", name, got.Changes[0])
		}
	}
	// No policy isolates the pods yet, so no flows were sampled at them.
	if got := tryFlows(w, closed("red"), nil); got.Unsampled != 5 || got.Seen != 0 {
		t.Errorf("of pods without policies it tells %+v", got)
	}
	if got := tryFlows(w, Tried{lock: nil}, nil); got.Unsampled != 0 {
		t.Errorf("of pods with a policy it tells %+v", got)
	}
}

// TestFlowsAreJudgedAsPaths: of every pair of pods a flow is stopped, or newly let through, exactly where the trial says that the
// path would be.
func TestFlowsAreJudgedAsPaths(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	lock, mute := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "lock"}, model.PolicyKey{
		Kind: model.NetworkPolicy, Namespace: "red", Name: "mute",
	}
	other := *w.Objects.Policies[mute]
	other.Subject = inspected.AppIs("red", "web")
	judged := map[bool]int{}
	for name, tried := range map[string]Tried{
		"closed": closed("red"), "without lock": {lock: nil}, "without mute": {mute: nil}, "another's mute": {mute: &other},
	} {
		paths, err := tryIn(w, tried, nil)
		if err != nil {
			t.Fatal(err)
		}
		changes := func(from, to string, allowed bool) bool {
			has := func(ends []api.TrialEnd, name string) bool {
				return slices.ContainsFunc(ends, func(e api.TrialEnd) bool { return slices.Contains(e.Members, name) })
			}
			return slices.ContainsFunc(paths.Paths, func(p api.TrialPath) bool {
				return has(p.From, from) && has(p.To, to) && p.After.Allowed == allowed &&
					(strings.HasPrefix(p.Ports, "any") || strings.HasPrefix(p.Ports, "tcp but 5432"))
			})
		}
		for from, a := range w.Objects.Pods {
			for to, b := range w.Objects.Pods {
				if from == to || from.Namespace != "red" || to.Namespace != "red" || len(a.Assigned) == 0 || len(b.Assigned) == 0 {
					continue
				}
				for _, dropped := range []bool{false, true} {
					got := tryFlows(w, tried, nil,
						seenFlow(w, "red", from.String(), to.String(), 80, map[bool]string{false: "allow", true: "drop"}[dropped]))
					want := changes(from.String(), to.String(), dropped)
					if is := got.Stopped+got.Allowed == 1; is != want || got.Unjudged > 0 {
						t.Errorf("%s: from %s to %s, which was dropped: %t: it is among those that change: %t, and the path: %t; %+v", name, from, to,
							dropped, is, want, got)
					}
					judged[want]++
				}
			}
		}
	}
	if judged[true] < 10 || judged[false] < 10 {
		t.Errorf("this test shows nothing: %v", judged)
	}
}
