package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// hurried is a world whose tenants change their Networks a few times at once. It begins at clock.
type hurried struct {
	*world
	clock time.Time
}

func hurriedWorld(atOnce int) *hurried {
	settings := withFaces("100.64.0.0/10")
	settings.NetworkChanges = atOnce
	w := &hurried{newWorldOf(settings), time.Unix(6000, 0)}
	w.settings = settings
	w.setNode(node("n1", 1))
	w.setNetwork(network("default", "pods", "10.244.0.0/16"))
	w.setNamespace("a", map[string]string{model.LabelTenant: "acme"})
	w.state.Turn(w.clock)
	w.settle()
	return w
}

// later moves time on, as far as that two changes count as two.
func (w *hurried) later(by time.Duration) {
	w.clock = w.clock.Add(by)
	w.turn(w.clock)
}

const apart = 4 * time.Second

// asks changes what the owner of a Network asks for, and lets time pass afterwards.
func (w *hurried) asks(name string, change func(n *model.Network)) {
	w.edits(name, change)
	w.later(apart)
}

func (w *hurried) edits(name string, change func(n *model.Network)) {
	n := tenantNetwork("acme", name)
	if old := w.networks[name]; old != nil {
		n = *old
	}
	change(&n)
	n.Generation++
	w.setNetwork(n)
	w.settle()
}

// lists gives a Network subnets of these names.
func lists(names ...string) func(n *model.Network) {
	return func(n *model.Network) {
		n.Subnets = nil
		for _, name := range names {
			n.Subnets = append(n.Subnets, network("", name, fmt.Sprintf("10.0.%d.0/24", name[0]-'a')).Subnets...)
		}
	}
}

func (w *hurried) wantSwitches(t *testing.T, when, name, want string) {
	t.Helper()
	if got := w.switches(name); got != want {
		t.Errorf("%s: Network %s has switches %q, want %q", when, name, got, want)
	}
}

// wantReady looks at the condition Ready and at the generation that it is about.
func (w *hurried) wantReady(t *testing.T, when, name, reason string) {
	t.Helper()
	c, status := w.condition(name, model.ConditionReady), w.status(name)
	if c.Reason != reason || c.Status != (reason == "Ready") {
		t.Errorf("%s: Network %s is Ready %v: %s: %s; want %s", when, name, c.Status, c.Reason, c.Message, reason)
	}
	if status.ObservedGeneration != w.networks[name].Generation {
		t.Errorf("%s: Network %s says that of generation %d, want %d", when, name, status.ObservedGeneration, w.networks[name].Generation)
	}
}

// told counts how often the owner of a Network heard that a change waits.
func (w *hurried) told(name string) (times int) {
	for _, p := range w.eventsOf(name) {
		if p.Reason == model.ReasonChangesTooOften {
			times++
		}
	}
	return times
}

// TestChangesOfNetworksAreBounded: what a tenant adds to Networks too often waits for 30 seconds, while the Network goes on as it
// was and says so. Nobody else waits.
func TestChangesOfNetworksAreBounded(t *testing.T) {
	w := hurriedWorld(2)
	start := w.clock
	w.asks("acme", lists("a"))
	w.asks("acme", lists("a", "b"))
	w.wantSwitches(t, "with two changes", "acme", "acme/a acme/b")
	w.wantReady(t, "with two changes", "acme", "Ready")
	w.asks("acme", lists("a", "b", "c"))
	w.wantSwitches(t, "with a third change", "acme", "acme/a acme/b")
	w.wantReady(t, "with a third change", "acme", model.ReasonChangesTooOften)
	if c := w.condition("acme", model.ConditionSubnetsValid); c.Status || !strings.Contains(c.Message, "1970-01-01T01:40:30Z") {
		t.Errorf("with a third change: SubnetsValid %v: %s", c.Status, c.Message)
	}
	if phase := w.status("acme").Phase; phase != model.Degraded {
		t.Errorf("with a third change the Network is %s", phase)
	}
	p := asking("a", "p", "acme", model.NICRequest{Subnet: "c"})
	w.setPod(p)
	w.edits("acme", lists("a", "b", "d"))
	w.edits("acme", lists("a", "b", "c"))
	w.settle()
	if times := w.told("acme"); times != 1 || w.hasPort(p) {
		t.Errorf("while a change waits, its owner was told of it %d times, and a pod in the new subnet has a port: %v", times, w.hasPort(p))
	}
	w.edits("globex", func(n *model.Network) { n.Tenant = "globex"; lists("a")(n) })
	w.edits("nobodys", func(n *model.Network) { n.Tenant = ""; lists("a")(n) })
	for _, more := range []string{"b", "c", "d"} {
		w.asks("nobodys", lists("a", more))
	}
	w.wantSwitches(t, "of another tenant", "globex", "globex/a")
	w.wantSwitches(t, "of no tenant", "nobodys", "nobodys/a nobodys/d")

	if due, ok := w.state.Due(); !ok || !due.Equal(start.Add(30*time.Second)) {
		t.Errorf("what waits is due at %s (%v), want half a minute after the start", due, ok)
	}
	w.later(start.Add(30 * time.Second).Sub(w.clock))
	w.wantSwitches(t, "after half a minute", "acme", "acme/a acme/b acme/c")
	w.wantReady(t, "after half a minute", "acme", "Ready")
	if !w.hasPort(p) {
		t.Errorf("after half a minute the pod in the new subnet has no port: %v", w.eventsOf("a/p"))
	}
	w.later(time.Hour)
	if due, ok := w.state.Due(); ok {
		t.Errorf("after an hour something is due at %s", due)
	}
}

// TestChangesThatComeTogetherAreOne: ovn-northd computes together what comes together, so twenty Networks in two seconds are one
// change, and those that wait for their turn are taken in together.
func TestChangesThatComeTogetherAreOne(t *testing.T) {
	w := hurriedWorld(1)
	names := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, fmt.Sprintf("acme--%02d", i))
		}
		return out
	}
	served := func() (n int) {
		for _, name := range names(0, 40) {
			if w.switches(name) != "" {
				n++
			}
		}
		return n
	}
	for _, name := range names(0, 20) {
		w.edits(name, lists("a"))
		w.later(100 * time.Millisecond)
	}
	if got := served(); got != 20 {
		t.Errorf("of 20 Networks that came within two seconds %d are served", got)
	}
	w.later(apart)
	for _, name := range names(20, 40) {
		w.asks(name, lists("a"))
		if w.status(name).Phase == model.Failed {
			t.Errorf("a Network that waits is called failed: %+v", w.status(name))
		}
		if w.clock.Before(time.Unix(6030, 0)) && served() != 20 {
			t.Errorf("at %s %d Networks are served, want the first 20", w.clock, served())
		}
	}
	w.later(30 * time.Second)
	if got := served(); got != 40 {
		t.Errorf("in the end %d of 40 Networks are served", got)
	}
}

// TestWhatEndsDoesNotWait: a Network that may not get anything loses at once what its owner takes from it.
func TestWhatEndsDoesNotWait(t *testing.T) {
	w := hurriedWorld(1)
	w.edits("acme", lists("a"))
	w.edits("acme--back", func(n *model.Network) {
		lists("b")(n)
		n.CompatibleWith = []model.CompatiblePeer{{Tenant: "acme"}}
	})
	w.edits("globex", func(n *model.Network) {
		n.Tenant, n.Uses = "globex", []string{"acme--back"}
		lists("c")(n)
	})
	w.edits("acme--back", func(n *model.Network) {
		n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{Network: "globex"})
	})
	consumers := func() (out []string) {
		for _, c := range w.status("acme--back").Compatibility {
			if c.State == model.CompatibilityActive {
				out = append(out, c.Network)
			}
		}
		slices.Sort(out)
		return out
	}
	if got := consumers(); !slices.Equal(got, []string{"acme", "globex"}) {
		t.Fatalf("at first, the control, acme--back has to do with %q", got)
	}
	w.later(apart)
	// All in one edit: a subnet that comes, and consents that go and come.
	w.asks("acme--back", func(n *model.Network) {
		lists("b", "d")(n)
		n.CompatibleWith = []model.CompatiblePeer{{Tenant: "acme"}, {Network: "nobody"}}
	})
	w.wantSwitches(t, "with a consent that ends and a subnet that comes", "acme--back", "acme--back/b")
	w.wantReady(t, "with a consent that ends and a subnet that comes", "acme--back", model.ReasonChangesTooOften)
	if got := consumers(); !slices.Equal(got, []string{"acme"}) {
		t.Errorf("when the consent has ended, acme--back has to do with %q", got)
	}
	if i := w.status("acme--back").Isolation; i != nil {
		t.Errorf("while a consent waits, the Network is said to be %s", i.Overall)
	}
	if c := w.condition("acme--back", model.ConditionCompatible); c.Status || c.Reason != model.ReasonChangesTooOften {
		t.Errorf("while a consent waits, Compatible is %+v", c)
	}
	w.asks("acme--back", func(n *model.Network) { n.CompatibleWith = nil })
	if got := consumers(); len(got) > 0 {
		t.Errorf("when all consents have ended, acme--back has to do with %q", got)
	}
	w.edits("acme", func(n *model.Network) { n.Deleting = true })
	w.wantSwitches(t, "a deleted Network", "acme", "")
	// What ended counts: it was two more changes.
	w.later(time.Unix(6030, 0).Sub(w.clock))
	w.wantSwitches(t, "half a minute after the beginning", "acme--back", "acme--back/b")
	w.later(time.Unix(6000, 0).Add(4 * 30 * time.Second).Sub(w.clock))
	w.wantSwitches(t, "two minutes after the beginning", "acme--back", "acme--back/b acme--back/d")
	w.wantReady(t, "two minutes after the beginning", "acme--back", "Ready")
}

// TestMakingAndDeletingNetworksIsBounded counts how often a tenant's Network comes and goes in ten minutes, when its owner makes
// and deletes it without a pause.
func TestMakingAndDeletingNetworksIsBounded(t *testing.T) {
	w := hurriedWorld(4)
	changes, before := 0, ""
	for range 150 {
		for _, do := range []func(){
			func() { w.edits("acme", lists("a")) },
			func() { w.edits("acme", func(n *model.Network) { n.Deleting = true }) },
		} {
			do()
			if now := w.switches("acme"); now != before {
				before = now
				changes++
			}
			w.later(2 * time.Second)
		}
	}
	// What goes within three seconds of its coming goes with it.
	if changes < 2*4 || changes > 2*(4+20)+1 {
		t.Errorf("the Network came or went %d times in ten minutes, want that it comes 4 times at once and once more every half a minute",
			changes)
	}
	w.edits("acme", lists("a"))
	w.later(30 * time.Second)
	w.later(30 * time.Second)
	w.wantSwitches(t, "a minute later", "acme", "acme/a")
}

// TestWhatCostsLittleIsNotCounted: settings that ovn-northd does not see, statuses, and what is said once more.
func TestWhatCostsLittleIsNotCounted(t *testing.T) {
	w := hurriedWorld(1)
	w.asks("acme", lists("a"))
	for i := range 6 {
		w.asks("acme", func(n *model.Network) {
			n.Egress, n.Ingress = model.EgressNode, []model.InfraIngress{model.InfraIngressAll, model.InfraIngressNone}[i%2]
			n.Subnets = slices.Clone(n.Subnets)
			n.Subnets[0].Exclude = []model.AddrRange{{First: at("10.0.0.9"), Last: at(fmt.Sprintf("10.0.0.%d", 10+i))}}
		})
		w.replay(w.namespaces)
		w.settle()
	}
	w.later(time.Unix(6030, 0).Sub(w.clock))
	w.edits("acme", lists("a", "b"))
	w.wantSwitches(t, "the second change", "acme", "acme/a acme/b")
	w.wantReady(t, "the second change", "acme", "Ready")
	if w.told("acme") > 0 {
		t.Errorf("the owner was told %+v", w.eventsOf("acme"))
	}
}

// TestARestartHoldsNobody: a controller that starts takes in all that is there, and counts none of it.
func TestARestartHoldsNobody(t *testing.T) {
	w := hurriedWorld(1)
	w.asks("acme", lists("a"))
	w.asks("acme", lists("a", "b"))
	w.wantSwitches(t, "the control, before the restart", "acme", "acme/a")
	w.graph = graph.New()
	w.state = decide.NewState(w.settings, w.graph, w.cluster)
	w.replay(w.namespaces)
	w.state.Turn(w.clock)
	w.settle()
	w.wantSwitches(t, "after the restart", "acme", "acme/a acme/b")
	w.wantReady(t, "after the restart", "acme", "Ready")
	w.later(apart)
	w.edits("acme", lists("a", "b", "c"))
	w.wantSwitches(t, "the first change after the restart", "acme", "acme/a acme/b acme/c")
}

// TestTheNewestIsTakenIn: of several changes that wait the newest is taken in, and none if the owner takes them back.
func TestTheNewestIsTakenIn(t *testing.T) {
	w := hurriedWorld(1)
	w.asks("acme", lists("a"))
	w.asks("acme", lists("a", "b"))
	w.asks("acme", lists("a", "c"))
	w.later(time.Unix(6030, 0).Sub(w.clock))
	w.wantSwitches(t, "after half a minute", "acme", "acme/a acme/c")
	w.later(apart)
	w.asks("acme", lists("a", "c", "d"))
	w.wantReady(t, "with what waits", "acme", model.ReasonChangesTooOften)
	w.asks("acme", lists("a", "c"))
	w.wantReady(t, "when the owner has taken it back", "acme", "Ready")
	if due, ok := w.state.Due(); ok {
		t.Errorf("nothing waits, and something is due at %s", due)
	}
	w.edits("acme", lists("a", "c", "d"))
	n := *w.networks["acme"]
	n.UID = "another"
	w.setNetwork(n)
	w.settle()
	w.wantSwitches(t, "made anew too often", "acme", "")
	if phase := w.status("acme").Phase; phase != model.Pending {
		t.Errorf("made anew too often the Network is %s, want Pending", phase)
	}
	w.later(time.Hour)
	w.wantSwitches(t, "in the end", "acme", "acme/a acme/c acme/d")
}

// TestWhatWaitedIsReadyWithItsRows: a Network whose part waited is not ready before the database has that part.
func TestWhatWaitedIsReadyWithItsRows(t *testing.T) {
	w := hurriedWorld(1)
	w.asks("acme", lists("a"))
	w.asks("acme", lists("a", "b"))
	w.state.Turn(time.Unix(6030, 0))
	w.state.Apply(w.Take())
	w.wantReady(t, "before the database has it", "acme", "Pending")
	w.commit()
	w.settle()
	w.wantReady(t, "afterwards", "acme", "Ready")
}
