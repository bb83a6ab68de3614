package policies

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// told counts how often it is told of a pod.
type told map[model.PodKey]int

// TestNamesAreCountedTogether: a policy that asks for a thousand names queues each pod only once. All of its names are counted. None
// is counted any more when the policy asks for others.
func TestNamesAreCountedTogether(t *testing.T) {
	t.Parallel()
	const names = 1000
	order := pass.NewOrder("cluster", "policies")
	topic := func() *pass.Topic[string] { return pass.NewTopic[string](order.Stage("cluster")) }
	stage := order.Stage("policies")
	s := New(cluster.New(cluster.Settings{}, order.Stage("cluster")), World{
		PortChanged: pass.NewTopic[model.PodKey](order.Stage("cluster")), ServedChanged: topic(), AnswersChanged: topic(), SeenChanged: topic(),
		Networks: alone{},
	}, graph.New(), stage)
	looked := told{}
	s.GroupsChanged.Follow(stage, func(key model.PodKey) { looked[key]++ })
	everybody := compile.Everybody()
	sel := s.selector(everybody)
	sel.users[model.PolicyKey{Name: "another"}] = 1
	for i := range 10 {
		m := &member{key: model.PodKey{Namespace: "team", Name: fmt.Sprint("p", i)}, network: "red", selectors: map[*selector]struct{}{}}
		for k := range 2 * names {
			m.ports = append(m.ports, model.PodPort{Name: fmt.Sprint("n", k), Protocol: model.TCP, Port: 80})
		}
		s.members[m.key] = m
		s.residents.Add(m.network, m)
		s.join(sel, m)
	}
	asking := func(first int) *model.Policy {
		p := &model.Policy{Key: model.PolicyKey{Name: "p"}, Subject: match.Pods{Namespace: "team"}}
		r := model.Rule{Verdict: model.Allow, AnyPeer: true}
		for k := range names {
			r.Ports = append(r.Ports, model.PolicyPort{Protocol: model.TCP, Name: fmt.Sprint("n", first+k)})
		}
		p.Rules[model.PolicyEgress] = []model.Rule{r}
		return p
	}
	counted := func(first int) (n int) {
		for ask := range compile.Names(*asking(first)) {
			for _, given := range sel.portsOf([]string{"red"}, ask) {
				n += len(given.Ports)
			}
		}
		return n
	}
	for _, step := range []struct {
		first, sign int
		early, late int
		what        string
	}{{0, +1, names, 0, "the first names"}, {names, +1, names, names, "others besides"}, {0, -1, 0, names, "the first ones no more"}} {
		clear(looked)
		s.enlist(asking(step.first), step.sign)
		for key, times := range looked {
			if times != 1 {
				t.Errorf("%s: pod %s is looked at %d times", step.what, key, times)
			}
		}
		if early, late := counted(0), counted(names); early != step.early || late != step.late {
			t.Errorf("%s: %d of the first and %d of the others are counted, want %d and %d", step.what, early, late, step.early, step.late)
		}
	}
}

// alone are Networks that have to do with nobody.
type alone struct{ Networks }

func (alone) Peers(string, model.Direction) []string { return nil }
