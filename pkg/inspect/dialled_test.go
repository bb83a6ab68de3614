package inspect

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// dialledIn are the addresses that a question's sender dials, as somebody is told who may ask about one namespace alone.
func (w *world) dialledIn(held Held, q Question, his string) ([]netip.Addr, error) {
	limits, err := look(held, q, func(namespace string) (bool, error) { return namespace == his, nil })
	if err != nil {
		return nil, err
	}
	seen := makeWorld(w.rows, limits.cut(w.objects), explained(), nil)
	seen.whole = w.objects
	out, err := (&explainer{World: seen, q: q}).dialled(limits)
	if err != nil {
		err = limits.problem(err)
	}
	return out, err
}

// TestDialledAreThoseThatExplanationsFollow: between any two ends of a world, what is pinged is what the explanation says that the sender dials, each once.
func TestDialledAreThoseThatExplanationsFollow(t *testing.T) {
	t.Parallel()
	w := townWorld(t)
	var ends []End
	for key := range w.objects.Pods {
		ends = append(ends, End{Pod: key})
	}
	senders := slices.Clone(ends)
	for key := range w.objects.Services {
		ends = append(ends, End{Service: key}, End{Name: key.Name + "." + key.Namespace + ".svc"})
	}
	for name := range w.objects.Nodes {
		ends = append(ends, End{Node: name})
	}
	seen := w.explainable()
	compared, refused := 0, 0
	for _, from := range senders {
		for _, to := range ends {
			q := Question{From: from, To: to, Protocol: model.TCP, Port: 80}
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

// TestDialledTellsNoMore: whom somebody may not ask about he does not dial by name, and what he is told of it names nobody's.
func TestDialledTellsNoMore(t *testing.T) {
	t.Parallel()
	w := townWorld(t)
	held := w.heldOf()
	red := End{Pod: model.PodKey{Namespace: "red", Name: "web"}}
	for name, c := range map[string]struct {
		q    Question
		his  string
		says string
	}{
		"another's pod":    {Question{From: red, To: End{Pod: model.PodKey{Namespace: "green", Name: "client"}}, Protocol: trace.ICMP}, "red", "you may not ask about pods and Services of namespace green"},
		"from another's":   {Question{From: red, To: End{Address: netip.MustParseAddr("10.0.0.9")}, Protocol: trace.ICMP}, "blue", "you may not ask about pods and Services of namespace red"},
		"outside":          {Question{From: red, To: End{Outside: true}, Protocol: trace.ICMP}, "red", "name the address"},
		"a name outside":   {Question{From: End{Pod: model.PodKey{Namespace: "blue", Name: "client"}}, To: End{Name: "www.example.com"}, Protocol: trace.ICMP}, "blue", "none of the cluster's names"},
		"a name of nobody": {Question{From: red, To: End{Name: "nobody.red.svc"}, Protocol: model.TCP, Port: 80}, "red", "does not exist"},
	} {
		got, err := w.dialledIn(held, c.q, c.his)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// The control: who may ask, is told.
	own, err := w.dialledIn(held, Question{From: red, To: End{Address: netip.MustParseAddr("10.0.0.9")}, Protocol: trace.ICMP}, "red")
	if err != nil || !slices.Equal(own, []netip.Addr{netip.MustParseAddr("10.0.0.9")}) {
		t.Errorf("an address: %v, %v", own, err)
	}
}
