//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
)

// TestBadInput makes everything wrong that a user can, all at once. Each mistake is told to who made it, in an
// Event on the pod and a condition on the Network; meanwhile good pods start; and each pod starts by itself once
// its mistake is mended.
func TestBadInput(t *testing.T) {
	t.Parallel()
	env.network(t, "roomy", v1alpha1.NetworkSpec{
		Subnets:           []v1alpha1.Subnet{subnet("a", "10.0.0.0/24")},
		AllowedNamespaces: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "roomy"}},
	})
	env.network(t, "small", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", "10.0.0.0/29")}})
	env.network(t, "overlapping", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		subnet("first", "10.0.0.0/24"), subnet("second", "10.0.0.128/25"), subnet("third", "10.0.1.0/24"),
	}})
	env.namespace(t, "roomy", "roomy")
	env.namespace(t, "small", "small")
	env.namespace(t, "overlapping", "overlapping")
	env.namespace(t, "nowhere", "nowhere")

	holder := env.pod(t, podSpec{namespace: "roomy", name: "holder", nics: `[{"ip":"10.0.0.50"}]`})
	// 10.0.0.0/29 has six host addresses, and one is the gateway's.
	var small []*corev1.Pod
	for i := range 5 {
		small = append(small, env.pod(t, podSpec{namespace: "small", name: fmt.Sprintf("p%d", i)}))
	}
	first := env.waitReady(t, append(small, holder)...)
	if got := ownAddress(t, first[len(first)-1]); got != "10.0.0.50" {
		t.Errorf("the pod that asked for 10.0.0.50 has %s", got)
	}

	mistakes := []struct {
		pod    podSpec
		reason string
		// says is what the Event must name.
		says []string
		// network has to show it in its condition PodsAttached; empty if there is no such Network.
		network string
		mend    func(t *testing.T)
	}{
		{
			pod:    podSpec{namespace: "roomy", name: "outside", nics: `[{"ip":"10.9.9.9"}]`},
			reason: model.ReasonAddressOutsideSubnet, says: []string{"10.9.9.9"}, network: "roomy",
			mend: func(t *testing.T) {
				env.changeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.Subnets = append(s.Subnets, subnet("b", "10.9.9.0/24"))
				})
			},
		},
		{
			pod:    podSpec{namespace: "roomy", name: "taken", nics: `[{"ip":"10.0.0.50"}]`},
			reason: model.ReasonAddressInUse, says: []string{"10.0.0.50", "roomy/holder"}, network: "roomy",
			mend: func(t *testing.T) { env.deletePod(t, holder) },
		},
		{
			pod:    podSpec{namespace: "roomy", name: "nosubnet", nics: `[{"subnet":"c"}]`},
			reason: model.ReasonSubnetNotFound, says: []string{`c`}, network: "roomy",
			mend: func(t *testing.T) {
				env.changeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.Subnets = append(s.Subnets, subnet("c", "10.0.3.0/24"))
				})
			},
		},
		{
			pod:    podSpec{namespace: "small", name: "sixth"},
			reason: model.ReasonSubnetFull, network: "small",
			mend: func(t *testing.T) { env.deletePod(t, small[0]) },
		},
		{
			pod:    podSpec{namespace: "nowhere", name: "stranger", network: "roomy"},
			reason: model.ReasonNamespaceNotAllowed, says: []string{"nowhere", "roomy"}, network: "roomy",
			mend: func(t *testing.T) {
				env.changeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.AllowedNamespaces = &metav1.LabelSelector{}
				})
			},
		},
		{
			pod:    podSpec{namespace: "nowhere", name: "lost"},
			reason: model.ReasonNetworkNotFound, says: []string{"nowhere"},
			mend: func(t *testing.T) {
				env.network(t, "nowhere", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", "10.0.0.0/24")}})
			},
		},
	}
	pods := make([]*corev1.Pod, len(mistakes))
	for i, m := range mistakes {
		pods[i] = env.pod(t, m.pod)
	}
	good := env.pod(t, podSpec{namespace: "roomy", name: "good"})

	for i, m := range mistakes {
		message := env.waitEvent(t, pods[i], m.reason)
		for _, want := range m.says {
			if !strings.Contains(message, want) {
				t.Errorf("%s: the Event does not name %q: %s", m.reason, want, message)
			}
		}
		t.Logf("%s: %s", m.reason, message)
		if m.network != "" {
			env.waitCondition(t, m.network, model.ConditionPodsAttached, metav1.ConditionFalse, "")
		}
		if port := env.nb.port(t, pods[i].Namespace+"/"+pods[i].Name); port != nil {
			t.Errorf("%s: the pod has a port all the same: %+v", m.reason, port)
		}
	}
	message := env.waitCondition(t, "overlapping", model.ConditionSubnetsValid, metav1.ConditionFalse, model.ReasonSubnetsOverlap)
	if !strings.Contains(message, "second") || !strings.Contains(message, "first") {
		t.Errorf("the condition does not name the subnets that overlap: %s", message)
	}
	// What is not wrong works: good pods, and the other subnets of the Network.
	third := env.pod(t, podSpec{namespace: "overlapping", name: "third", nics: `[{"subnet":"third"}]`})
	env.waitReady(t, good, third)

	for _, m := range mistakes {
		m.mend(t)
	}
	env.waitReady(t, pods...)
	for _, network := range []string{"roomy", "small"} {
		env.waitCondition(t, network, model.ConditionPodsAttached, metav1.ConditionTrue, "")
	}
}

// TestNetworkWithPodsStays: a Network with pods is not deleted; it says which pods, takes no new ones, and goes
// with the last of them, rows and all.
func TestNetworkWithPodsStays(t *testing.T) {
	t.Parallel()
	env.network(t, "green", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{subnet("a", "10.0.0.0/24")}})
	env.namespace(t, "green", "green")
	stays := env.pod(t, podSpec{namespace: "green", name: "stays"})
	env.waitReady(t, stays)
	if env.nb.countOf(t, "green") == 0 {
		t.Error("the Network has no rows")
	}

	env.deleteNetwork(t, "green")
	env.waitPhase(t, "green", v1alpha1.NetworkTerminating)
	if message := env.waitCondition(t, "green", model.ConditionInUse, metav1.ConditionTrue, ""); !strings.Contains(message, "green/stays") {
		t.Errorf("the condition does not name the pod: %s", message)
	}
	late := env.pod(t, podSpec{namespace: "green", name: "late"})
	env.waitEvent(t, late, model.ReasonNetworkTerminating)

	env.deletePod(t, late)
	env.deletePod(t, stays)
	env.waitGone(t, stays)
	env.waitNetworkGone(t, "green")
	env.waitNoRows(t, "green")
}
