package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
	"github.com/atoll-net/atoll/test/inspected"
)

// dialledIn returns the addresses that a question's sender dials, for an asker who may ask about one namespace only.
func dialledIn(w *inspected.World, held snapshot.Held, q question.Question, own string) ([]netip.Addr, error) {
	limits, err := visibility.Of(held, q, func(namespace string) (bool, error) { return namespace == own, nil })
	if err != nil {
		return nil, err
	}
	seen := makeWorld(w.Rows, limits.Cut(w.Objects), inspected.Explained(), nil)
	seen.whole = w.Objects
	out, err := (&explainer{World: seen, q: q}).dialled(limits)
	if err != nil {
		err = limits.Problem(err)
	}
	return out, err
}

// TestDialledAreThoseThatExplanationsFollow: between any two ends, Dialled returns the addresses that the explanation follows, each
// once.
func TestDialledAreThoseThatExplanationsFollow(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	var ends []question.End
	for key := range w.Objects.Pods {
		ends = append(ends, question.End{Pod: key})
	}
	senders := slices.Clone(ends)
	for key := range w.Objects.Services {
		ends = append(ends, question.End{Service: key}, question.End{Name: key.Name + "." + key.Namespace + ".svc"})
	}
	for name := range w.Objects.Nodes {
		ends = append(ends, question.End{Node: name})
	}
	seen := explainable(w)
	compared, refused := 0, 0
	for _, from := range senders {
		for _, to := range ends {
			q := question.Question{From: from, To: to, Protocol: model.TCP, Port: 80}
			explained, err := Explain(seen, q)
			want := map[netip.Addr]bool{}
			for _, way := range explained.Ways {
				if at, parsed := netip.ParseAddrPort(way.Dialled); parsed == nil {
					want[at.Addr()] = true
				}
			}
			got, problem := (&explainer{World: seen, q: q}).dialled(nil)
			if (err != nil || len(want) == 0) != (problem != nil) {
				t.Errorf("%s to %s: explained %v, %v; dialled %v, %v", from, to, want, err, got, problem)
				continue
			}
			if problem != nil {
				refused++
				continue
			}
			compared++
			for _, a := range got {
				if !want[a] {
					t.Errorf("%s to %s: %s is dialled, and explained is %v", from, to, a, want)
				}
				delete(want, a)
			}
			if len(want) > 0 {
				t.Errorf("%s to %s: %v is explained, and not dialled", from, to, want)
			}
		}
	}
	if t.Logf("%d compared, %d refused", compared, refused); compared < 200 || refused < 20 {
		t.Error("that shows nothing")
	}
}

// TestDialledTellsNoMore: an asker cannot dial, by name, a pod or Service that this asker may not ask about. The error names no other
// tenant's objects.
func TestDialledTellsNoMore(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	held := w.HeldOf()
	red := question.End{Pod: model.PodKey{Namespace: "red", Name: "web"}}
	for name, c := range map[string]struct {
		q    question.Question
		own  string
		says string
	}{
		"another's pod": {
			question.Question{From: red, To: question.End{Pod: model.PodKey{Namespace: "green", Name: "client"}}, Protocol: trace.ICMP},
			"red",
			"you may not ask about pods and Services of namespace green",
		},
		"from another's": {
			question.Question{From: red, To: question.End{Address: netip.MustParseAddr("10.0.0.9")}, Protocol: trace.ICMP},
			"blue", "you may not ask about pods and Services of namespace red",
		},
		"outside": {question.Question{From: red, To: question.End{Outside: true}, Protocol: trace.ICMP}, "red", "name the address"},
		"a name outside": {
			question.Question{
				From: question.End{Pod: model.PodKey{Namespace: "blue", Name: "client"}}, To: question.End{Name: "www.example.com"},
				Protocol: trace.ICMP,
			}, "blue", "none of the cluster's names",
		},
		"a name of nobody": {
			question.Question{From: red, To: question.End{Name: "nobody.red.svc"}, Protocol: model.TCP, Port: 80}, "red", "does not exist",
		},
	} {
		got, err := dialledIn(w, held, c.q, c.own)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// The control: an asker with the right gets an answer.
	own, err := dialledIn(w, held,
		question.Question{From: red, To: question.End{Address: netip.MustParseAddr("10.0.0.9")}, Protocol: trace.ICMP}, "red")
	if err != nil || !slices.Equal(own, []netip.Addr{netip.MustParseAddr("10.0.0.9")}) {
		t.Errorf("an address: %v, %v", own, err)
	}
}
