package decide_test

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestUnknownKeysAreToldOnce: on a pod and on a namespace, once for each, and they stop nobody.
func TestUnknownKeysAreToldOnce(t *testing.T) {
	w := newWorld()
	w.setNetwork(network("red", "a", "10.0.0.0/24"))
	ns := model.Namespace{Name: "team", UID: "uid-team", Labels: inNetwork("red"), Unknown: []string{"label atoll.dev/tenent means nothing"}}
	set := func() {
		again := ns
		w.change(func() { w.changes.Namespaces["team"] = &again })
		w.settle()
	}
	set()
	p := pod("team", "p", "")
	p.Unknown = []string{"label atoll.dev/a means nothing"}
	w.setPod(p)
	w.settle()
	set()
	p.Unknown = append(p.Unknown, "label atoll.dev/b means nothing")
	p.Assigned = w.pods[p.Key].Assigned
	w.setPod(p)
	w.settle()
	if !w.hasPort(p) {
		t.Error("the pod has no port")
	}
	if got := w.eventsOf("namespace team"); len(got) != 1 || got[0].Reason != model.ReasonUnknownKey {
		t.Errorf("the namespace was told %+v", got)
	}
	if got := w.eventsOf("team/p"); len(got) != 2 || got[1].Message != "label atoll.dev/b means nothing" {
		t.Errorf("the pod was told %+v", got)
	}

	// Another object of the same name is told again.
	ns.UID = "uid-another"
	set()
	if got := w.eventsOf("namespace team"); len(got) != 2 {
		t.Errorf("namespaces of that name were told %+v", got)
	}
	// And nobody is told for ever.
	for i := range 100 {
		p.Unknown = []string{fmt.Sprintf("label atoll.dev/x%d means nothing", i)}
		w.setPod(p)
		w.settle()
	}
	if got := len(w.eventsOf("team/p")); got != 32 {
		t.Errorf("the pod was told %d times, want 32", got)
	}
}
