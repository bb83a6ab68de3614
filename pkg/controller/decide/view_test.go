package decide_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestViewsShowOnesOwn: namespaces that share a Network see it, and their own pods, and nothing of each other; one that may not use it
// sees nothing; what is no longer granted is taken away at once.
func TestViewsShowOnesOwn(t *testing.T) {
	w := newWorld()
	moment := time.Unix(1000, 0)
	tick := func() {
		moment = moment.Add(4 * time.Second)
		w.state.Turn(moment)
		w.settle()
	}
	w.setNamespace("a", map[string]string{model.LabelTenant: "acme"})
	w.setNamespace("b", map[string]string{model.LabelTenant: "acme"})
	w.setNamespace("c", nil)
	w.setNetwork(tenantNetwork("acme", "red", "front", "10.0.0.0/24", "back", "10.0.1.0/24"))
	w.setNetwork(tenantNetwork("other", "secret", "a", "10.0.0.0/24"))
	for i := range 3 {
		w.setPod(pod("a", fmt.Sprintf("mine-%d", i), "red"))
	}
	w.setPod(pod("b", "theirs", "red"))
	stuck := pod("b", "stuck", "red")
	stuck.NIC.Subnet = "nowhere"
	w.setPod(stuck)
	tick()
	tick()
	a, b := w.views[model.ViewKey{Namespace: "a", Network: "red"}], w.views[model.ViewKey{Namespace: "b", Network: "red"}]
	if len(w.views) != 2 || a.Phase != model.Ready || a.Reason != "Ready" {
		t.Fatalf("%+v", w.views)
	}
	if a.Pods != 3 || a.Waiting != 0 || len(a.Addresses) != 3 || a.Subnets[0].Used != 3 || a.Subnets[0].Gateway.String() != "10.0.0.1" {
		t.Errorf("a sees %+v", a)
	}
	if b.Pods != 1 || b.Waiting != 1 || len(b.Addresses) != 1 || b.Addresses[0].Name != "theirs" || b.Subnets[0].Used != 1 {
		t.Errorf("b sees %+v", b)
	}
	if text := fmt.Sprintf("%+v", a); strings.Contains(text, "theirs") || strings.Contains(text, "stuck") || strings.Contains(text, "acme") {
		t.Errorf("a sees of others: %s", text)
	}
	// What another namespace does is not shown: nothing is written for it.
	before := w.seen
	w.setPod(pod("b", "another", "red"))
	tick()
	if w.seen != before+1 {
		t.Errorf("a pod of b wrote %d views", w.seen-before)
	}
	// Its right goes, and its pods were never there.
	w.setNamespace("b", nil)
	w.setNamespace("d", map[string]string{model.LabelTenant: "acme"})
	w.settle()
	if _, sees := w.views[model.ViewKey{Namespace: "d", Network: "red"}]; !sees {
		t.Error("d does not see what it may use")
	}
	w.setNamespace("d", nil)
	w.setNamespace("e", map[string]string{model.LabelTenant: "acme"})
	w.settle()
	w.setNamespace("e", map[string]string{model.LabelTenant: "other"})
	w.settle()
	if _, sees := w.views[model.ViewKey{Namespace: "e", Network: "red"}]; sees {
		t.Error("e sees what it may no longer use")
	}
	if _, sees := w.views[model.ViewKey{Namespace: "e", Network: "secret"}]; !sees {
		t.Error("e does not see what it may use now")
	}
	// Where another Network is the reason, the words do not name it.
	rival := tenantNetwork("other", "rival", "a", "10.0.0.0/24")
	rival.VPCID, rival.Created = "v", time.Unix(1, 0)
	w.setNetwork(rival)
	late := tenantNetwork("acme", "late", "a", "10.0.0.0/24")
	late.VPCID, late.Created = "v", time.Unix(2, 0)
	w.setNetwork(late)
	tick()
	if v := w.views[model.ViewKey{Namespace: "a", Network: "late"}]; v.Phase != model.Failed || v.Reason != model.ReasonVPCIDInUse ||
		strings.Contains(v.Message, "rival") {
		t.Errorf("a sees %+v", v)
	}
	if c := w.condition("late", model.ConditionReady); !strings.Contains(c.Message, "rival") {
		t.Errorf("control: who owns the Network reads %q", c.Message)
	}
}

// TestViewsAreBounded: a namespace of many pods has a view of a bounded size, written every three seconds at most while they come.
func TestViewsAreBounded(t *testing.T) {
	const pods = 1000
	w := newWorld()
	w.setNamespace("a", nil)
	w.setNetwork(network("red", "a", "10.0.0.0/16"))
	moment := time.Unix(1000, 0)
	for i := range pods {
		w.setPod(pod("a", fmt.Sprintf("p%04d", i), "red"))
		if i%10 == 0 {
			moment = moment.Add(30 * time.Millisecond)
			w.state.Turn(moment)
			w.settle()
		}
	}
	if w.seen > 4 {
		t.Errorf("%d views were written in three seconds", w.seen)
	}
	if due, ok := w.state.Due(); !ok || due.Sub(moment) > 3*time.Second {
		t.Errorf("what is left is due %s", due)
	}
	w.state.Turn(moment.Add(3 * time.Second))
	w.settle()
	v := w.views[model.ViewKey{Namespace: "a", Network: "red"}]
	if v.Pods != pods || len(v.Addresses) != model.MaxViewed || v.Addresses[0].Name != "p0000" || v.Addresses[99].Name != "p0099" {
		t.Errorf("%d pods, %d listed", v.Pods, len(v.Addresses))
	}
}
