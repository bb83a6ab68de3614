package kube

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestTenantsDoNotSilenceOthers: an endless stream of problems in one Tenant's Networks drops no Event of other tenants, nor the
// Event that this Tenant's isolation has changed. The control is another Network of the same Tenant: it loses Events.
func TestTenantsDoNotSilenceOthers(t *testing.T) {
	synctest.Test(t, silenceOthers)
}

func silenceOthers(t *testing.T) {
	recorder := record.NewFakeRecorder(10 * shareEventsBurst)
	w := &Writer{events: &events{recorder: recorder, allowance: newAllowance()}}
	full := model.Problem{Reason: model.ReasonSubnetFull, Message: "full"}
	soft := model.Problem{Reason: model.ReasonIsolationSoft, Message: "soft"}
	network := func(name, tenant string) model.ObjectRef {
		return model.Network{Name: name, UID: name, Tenant: tenant}.Ref()
	}
	red := network("red", "one")
	for i := range 2 * shareEventsBurst {
		w.Event(red, model.Problem{Reason: model.ReasonSubnetFull, Message: fmt.Sprint("subnet ", i)})
	}
	if got := len(recorder.Events); got > shareEventsBurst+10 || got < shareEventsBurst {
		t.Errorf("of red %d Events are sent at once", got)
	}
	for name, c := range map[string]struct {
		about   model.ObjectRef
		problem model.Problem
		want    int
	}{
		"another Network of the Tenant": {network("r2", "one"), full, 0},
		"the Tenant":                    {model.Tenant{Name: "one", UID: "t1"}.Ref(), full, 0},
		"its isolation":                 {red, soft, 1},
		"the isolation of the Tenant":   {model.Tenant{Name: "one", UID: "t1"}.Ref(), soft, 1},
		"a Network of another Tenant":   {network("blue", "two"), full, 1},
		"a Network of no Tenant":        {network("shared", ""), full, 1},
		"another Tenant":                {model.Tenant{Name: "two", UID: "t2"}.Ref(), full, 1},
		"a Node":                        {model.Node{Name: "n1", UID: "n1"}.Ref(), full, 1},
		"a ClusterNetworkPolicy": {
			model.Policy{Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "p"}, UID: "p"}.Ref(), full, 1,
		},
		"a pod of a namespace of its name": {model.Pod{Key: model.PodKey{Namespace: "one", Name: "p"}, UID: "pod"}.Ref(), full, 1},
	} {
		before := len(recorder.Events)
		if w.Event(c.about, c.problem); len(recorder.Events)-before != c.want {
			t.Errorf("about %s: %d Events are sent, want %d", name, len(recorder.Events)-before, c.want)
		}
	}
}

// TestEventsNameKindsAsTheyAre: package model has no type of Kubernetes, and writes API versions out.
func TestEventsNameKindsAsTheyAre(t *testing.T) {
	t.Parallel()
	ours := v1alpha1.SchemeGroupVersion.String()
	policy := func(kind model.PolicyKind) model.ObjectRef {
		return model.Policy{Key: model.PolicyKey{Kind: kind}}.Ref()
	}
	for _, test := range []struct {
		ref  model.ObjectRef
		want string
	}{
		{model.Pod{}.Ref(), corev1.SchemeGroupVersion.String()},
		{model.Network{}.Ref(), ours},
		{model.Tenant{}.Ref(), ours},
		{policy(model.NetworkPolicy), networkingv1.SchemeGroupVersion.String()},
		{policy(model.ClusterNetworkPolicy), schema.GroupVersion(policyv1alpha2.GroupVersion).String()},
	} {
		if test.ref.APIVersion != test.want {
			t.Errorf("%s is of %s, want %s", test.ref, test.ref.APIVersion, test.want)
		}
	}
}
