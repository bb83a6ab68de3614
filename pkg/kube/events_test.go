package kube

import (
	"fmt"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/tools/record"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestTenantsDoNotSilenceOthers: what goes wrong in a Tenant's Networks, without an end, keeps no Event from others, and not the one that his isolation has changed. The
// control is another Network of his.
func TestTenantsDoNotSilenceOthers(t *testing.T) {
	synctest.Test(t, silenceOthers)
}

func silenceOthers(t *testing.T) {
	recorder := record.NewFakeRecorder(10 * shareEventsBurst)
	w := &Writer{events: &events{recorder: recorder, allowance: newAllowance()}}
	said := func(say func()) int {
		before := len(recorder.Events)
		say()
		return len(recorder.Events) - before
	}
	problem := func(text string) model.Problem { return model.Problem{Reason: model.ReasonSubnetFull, Message: text} }
	red := &model.Network{Name: "red", UID: "red", Tenant: "one"}
	if got := said(func() {
		for i := range 2 * shareEventsBurst {
			w.NetworkEvent(red, problem(fmt.Sprint("subnet ", i)))
		}
	}); got > shareEventsBurst+10 || got < shareEventsBurst {
		t.Errorf("of red %d Events are sent at once", got)
	}
	for about, c := range map[string]struct {
		say  func()
		want int
	}{
		"another Network of the Tenant": {func() { w.NetworkEvent(&model.Network{Name: "r2", UID: "r2", Tenant: "one"}, problem("full")) }, 0},
		"the Tenant":                    {func() { w.TenantEvent("one", "t1", problem("full")) }, 0},
		"its isolation":                 {func() { w.NetworkEvent(red, model.Problem{Reason: model.ReasonIsolationSoft, Message: "soft"}) }, 1},
		"the isolation of the Tenant":   {func() { w.TenantEvent("one", "t1", model.Problem{Reason: model.ReasonIsolationSoft, Message: "soft"}) }, 1},
		"a Network of another Tenant":   {func() { w.NetworkEvent(&model.Network{Name: "blue", UID: "blue", Tenant: "two"}, problem("full")) }, 1},
		"a Network of no Tenant":        {func() { w.NetworkEvent(&model.Network{Name: "shared", UID: "shared"}, problem("full")) }, 1},
		"another Tenant":                {func() { w.TenantEvent("two", "t2", problem("full")) }, 1},
		"a Node":                        {func() { w.NodeEvent("n1", "n1", problem("no faces")) }, 1},
		"a ClusterNetworkPolicy": {func() {
			w.PolicyEvent(model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "p"}, "p", problem("bad"))
		}, 1},
		"a pod of a namespace of its name": {func() { w.PodEvent(model.PodKey{Namespace: "one", Name: "p"}, "pod", problem("full")) }, 1},
	} {
		if got := said(c.say); got != c.want {
			t.Errorf("about %s: %d Events are sent, want %d", about, got, c.want)
		}
	}
}
