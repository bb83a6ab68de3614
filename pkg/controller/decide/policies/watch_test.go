package policies_test

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// wantPairs compares how many pairs of a selector and a pod are held.
func (b *bench) wantPairs(when string, want int) {
	b.t.Helper()
	if got := b.Pairs(); got != want {
		b.t.Errorf("%s: %d pairs of a selector and a pod are held, want %d", when, got, want)
	}
}

// step decides about a policy, and has the database take it.
func (b *bench) step(p *model.Policy) {
	b.decide(p)
	b.Write()
	b.commit()
	clear(b.told)
}

// TestSelectorsHoldPodsOfTheirNetworksOnly: a policy with many selectors of all pods holds nothing of pods of other Networks. The
// controls are its own Network, and a policy that selects a pod of the other one, too.
func TestSelectorsHoldPodsOfTheirNetworksOnly(t *testing.T) {
	t.Parallel()
	const peers, here, there = 50, 3, 100
	b := newBench(t)
	b.others["blue"] = &model.Network{Name: "blue", UID: "blue-uid", Type: model.VPC}
	for i := range there {
		b.attachTo("blue", fmt.Sprint("blue", i), "10.0.0.2", map[string]string{"app": fmt.Sprint("b", i)})
	}
	p := isolated("db", "web")
	p.Rules[model.PolicyIngress][0].Peers = selectingAll(peers)
	b.step(p)
	b.wantPairs("a policy without pods", 0)

	db := b.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	for i := range here - 1 {
		b.attach(fmt.Sprint("red", i), "10.0.0.3", nil)
	}
	b.step(p)
	b.wantPairs("a policy with pods in red", 1+peers*here)
	b.attachTo("blue", "late", "10.0.0.4", nil)
	b.attach("early", "10.0.0.5", nil)
	b.step(p)
	b.wantPairs("one pod more in each Network", 1+peers*(here+1))

	blue := b.attachTo("blue", "db2", "10.0.0.6", map[string]string{"app": "db"})
	b.step(p)
	b.wantPairs("a pod in blue, too", 2+peers*(here+1+there+2))
	for _, key := range []model.PodKey{blue, db} {
		delete(b.attachments, key)
		b.ports.Changed(key)
	}
	b.step(p)
	b.wantPairs("no pods any more", 0)
	b.step(nil)
	if n, networks := b.Selectors(), b.Watched(); n != 0 || networks != 0 {
		t.Errorf("%d selectors and %d Networks are left", n, networks)
	}
}

// TestASubjectThatBecomesAPeerIsNarrowed: a selector holds pods of all Networks while it is a subject, and in its own one the
// database's rows need it for longer.
func TestASubjectThatBecomesAPeerIsNarrowed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	b.attach("web", "10.0.0.3", map[string]string{"app": "web"})
	for i := range 10 {
		b.attachTo("gone", fmt.Sprint("web", i), "10.0.0.3", map[string]string{"app": "web"})
	}
	b.step(isolated("web", "db"))
	b.wantPairs("web is a subject", 11+1)
	b.decide(isolated("db", "web"))
	b.wantPairs("web is a peer, and so is db in the database", 1+1)
	b.Write()
	b.commit()
	b.wantPairs("web is a peer", 1+1)
	b.decide(nil)
	b.wantPairs("the policy has gone", 1+1)
	b.Write()
	b.commit()
	b.wantPairs("its rows, too", 0)
}

// TestSelectorsHoldPodsOfPeers: pods of a Network that reaches red are held for the rules about what is received, from the moment
// when it may, and no longer.
func TestSelectorsHoldPodsOfPeers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others["blue"] = &model.Network{Name: "blue", UID: "blue-uid", Type: model.VPC}
	b.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	var blue []model.PodKey
	for i := range 3 {
		blue = append(blue, b.attachTo("blue", fmt.Sprint("blue", i), "10.0.0.3", map[string]string{"app": "web"}))
	}
	p := isolated("db", "web")
	b.step(p)
	b.wantPairs("nobody reaches red", 1)
	for _, step := range []struct {
		what    string
		reaches [2][]string
		pairs   int
		told    []model.PodKey
	}{
		{"blue reaches red", [2][]string{{"blue"}, nil}, 1 + 3, blue},
		{"red reaches blue alone", [2][]string{nil, {"blue"}}, 1, blue},
		{"nobody reaches red again", [2][]string{}, 1, nil},
		{"both", [2][]string{{"blue"}, {"blue"}}, 1 + 3, blue},
	} {
		b.peers["red"] = step.reaches
		b.served.Changed("red")
		b.decide(p)
		b.Write()
		b.wantTold(step.what, step.told...)
		b.commit()
		clear(b.told)
		b.wantPairs(step.what, step.pairs)
	}
	b.step(nil)
	b.wantPairs("the policy has gone", 0)
}
