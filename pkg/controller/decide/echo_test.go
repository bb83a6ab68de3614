package decide_test

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestWhatDoesNotConcernItIsNotLookedAt: what a change costs does not grow with what it does not concern.
func TestWhatDoesNotConcernItIsNotLookedAt(t *testing.T) {
	const many = 300
	furnished := func() *world {
		w := facedWorld("100.64.0.0/10")
		w.setNode(node("n1", 1))
		w.settle()
		return w
	}
	// costs is how much memory is taken, by number, when something changes and changes back.
	costs := func(w *world, change func(round int)) float64 {
		round := 0
		return testing.AllocsPerRun(4, func() {
			round++
			change(round)
			w.state.Apply(w.Take())
			w.commit()
		})
	}
	relabel := func(w *world) float64 {
		return costs(w, func(round int) {
			n := *w.nodes["n1"]
			n.Labels = map[string]string{"zone": fmt.Sprint(round)}
			n.Addresses = nil
			if round%2 == 0 {
				n.Addresses = append(n.Addresses, at("192.168.0.1"))
			}
			w.setNode(n)
		})
	}
	policies := func(policies, services int) *world {
		w := furnished()
		w.setPod(pod("a", "p", "red"))
		for i := range policies {
			w.setPolicy(model.Policy{
				Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "a", Name: fmt.Sprint(i)}, UID: fmt.Sprint("uid-", i),
				Tier: model.TierTenant, Subject: match.Pods{Namespace: "a"}, Isolates: [2]bool{true, true},
			})
		}
		for i := range services {
			s := service("a", fmt.Sprint(i), "10.96.1.1")
			w.setService(s)
			of := slice("a", fmt.Sprint(i), s.Key.Name)
			of.Endpoints = append(of.Endpoints, endpoint("a", "p", "100.64.0.1"))
			w.setSlice(of)
		}
		w.settle()
		return w
	}
	alone := relabel(policies(1, 1))
	if with := relabel(policies(many, 1)); with > 2*alone {
		t.Errorf("a change of a node takes %v pieces of memory with 1 policy and %v with %d", alone, with, many)
	}
	if with := relabel(policies(1, many)); with > 2*alone {
		t.Errorf("a change of a node's addresses takes %v pieces of memory with 1 Service and %v with %d", alone, with, many)
	}

	w := furnished()
	for i := range many {
		w.setPod(pod("a", fmt.Sprint(i), "red"))
	}
	w.settle()
	if len(w.attachment(model.PodKey{Namespace: "a", Name: "7"}).Faces) == 0 {
		t.Fatal("pods have no faces")
	}
	echo := costs(w, func(int) {
		for _, p := range w.pods {
			w.setPod(*p)
		}
	})
	looked := costs(w, func(round int) {
		for _, p := range w.pods {
			changed := *p
			changed.Labels = map[string]string{"app": fmt.Sprint(round)}
			w.setPod(changed)
		}
	})
	if echo > looked/3 {
		t.Errorf("what comes back of %d pods takes %v pieces of memory, other labels of them %v", many, echo, looked)
	}
}
