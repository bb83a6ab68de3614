package policies_test

import (
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// withPorts gives a pod that many ports called x, from a number on.
func (b *bench) withPorts(name, address string, first, n int) model.PodKey {
	key := b.attach(name, address, map[string]string{"app": "db"})
	for i := range n {
		b.pods[key].Ports = append(b.pods[key].Ports, model.PodPort{Name: "x", Protocol: model.TCP, Port: uint16(first + i)})
	}
	return key
}

// naming allows everybody the ports called x of the pods of an application, in as many rules.
func naming(subject string, rules int) *model.Policy {
	p := isolated(subject, "")
	p.Rules = [2][]model.Rule{}
	for range rules {
		p.Rules[model.PolicyIngress] = append(p.Rules[model.PolicyIngress], model.Rule{
			Verdict: model.Allow, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, Name: "x"}},
		})
	}
	return p
}

// TestNumbersBeyondTheBoundAreSaidOnce: pods give a policy's port more numbers than are read, and its pods stay isolated. The
// controls are fewer numbers, before and after.
func TestNumbersBeyondTheBoundAreSaidOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := nb.PolicyOwner(nb.KindNetworkPolicy, "team", "p", "red")
	step := func(when string, rows, events int) {
		t.Helper()
		b.Decide(nil)
		b.Write()
		b.commit()
		facts, _ := b.graph.Facts(owner)
		if len(facts.Rows) != rows || len(b.events) != events {
			t.Errorf("%s: %d ACLs, want %d; Events %q, want %d", when, len(facts.Rows), rows, b.events, events)
		}
		if !b.Judges(&b.network) {
			t.Errorf("%s: the pods are not judged", when)
		}
	}
	b.withPorts("one", "10.0.0.2", 1000, 100)
	b.decide(naming("db", 32))
	step("one pod", 32*100, 0)
	two := b.withPorts("two", "10.0.0.3", 2000, 100)
	step("two pods", 20*200, 1)
	three := b.withPorts("three", "10.0.0.4", 3000, 5000)
	step("three pods", 0, 1)
	if groups := b.rows(nb.TablePortGroup); groups != 3 {
		t.Errorf("%d port groups, want the pods, the isolated and the judged", groups)
	}
	for _, key := range []model.PodKey{two, three} {
		delete(b.attachments, key)
		b.ports.Changed(key)
	}
	step("one pod again", 32*100, 1)
	if len(b.events) > 0 && !strings.Contains(b.events[0], "spec.ingress[20]") {
		t.Errorf("it says %q", b.events[0])
	}
}
