//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestBadInput makes everything wrong that a user can, all at once. Each mistake is told to who made it, in an
// Event on the pod and a condition on the Network; meanwhile good pods start; and each pod starts by itself once
// its mistake is mended.
func TestBadInput(t *testing.T) {
	t.Parallel()
	env.Network(t, "roomy", v1alpha1.NetworkSpec{
		Subnets:           []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")},
		AllowedNamespaces: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "roomy"}},
	})
	env.Network(t, "small", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/29")}})
	env.Network(t, "overlapping", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{
		cluster.Subnet("first", "10.0.0.0/24"), cluster.Subnet("second", "10.0.0.128/25"), cluster.Subnet("third", "10.0.1.0/24"),
	}})
	env.Namespace(t, "roomy", "roomy")
	env.Namespace(t, "small", "small")
	env.Namespace(t, "overlapping", "overlapping")
	env.Namespace(t, "nowhere", "nowhere")

	holder := env.Pod(t, cluster.PodSpec{Namespace: "roomy", Name: "holder", NICs: `[{"ip":"10.0.0.50"}]`})
	// 10.0.0.0/29 has six host addresses, and one is the gateway's.
	var small []*corev1.Pod
	for i := range 5 {
		small = append(small, env.Pod(t, cluster.PodSpec{Namespace: "small", Name: fmt.Sprintf("p%d", i)}))
	}
	first := env.WaitReady(t, append(small, holder)...)
	if got := cluster.OwnAddress(t, first[len(first)-1]); got != "10.0.0.50" {
		t.Errorf("the pod that asked for 10.0.0.50 has %s", got)
	}

	mistakes := []struct {
		pod    cluster.PodSpec
		reason string
		// says is what the Event must name.
		says []string
		// network has to show it in its condition PodsAttached; empty if there is no such Network.
		network string
		mend    func(t *testing.T)
	}{
		{
			pod:    cluster.PodSpec{Namespace: "roomy", Name: "outside", NICs: `[{"ip":"10.9.9.9"}]`},
			reason: model.ReasonAddressOutsideSubnet, says: []string{"10.9.9.9"}, network: "roomy",
			mend: func(t *testing.T) {
				env.ChangeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.Subnets = append(s.Subnets, cluster.Subnet("b", "10.9.9.0/24"))
				})
			},
		},
		{
			pod:    cluster.PodSpec{Namespace: "roomy", Name: "taken", NICs: `[{"ip":"10.0.0.50"}]`},
			reason: model.ReasonAddressInUse, says: []string{"10.0.0.50", "roomy/holder"}, network: "roomy",
			mend: func(t *testing.T) { env.DeletePod(t, holder) },
		},
		{
			pod:    cluster.PodSpec{Namespace: "roomy", Name: "nosubnet", NICs: `[{"subnet":"c"}]`},
			reason: model.ReasonSubnetNotFound, says: []string{`c`}, network: "roomy",
			mend: func(t *testing.T) {
				env.ChangeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.Subnets = append(s.Subnets, cluster.Subnet("c", "10.0.3.0/24"))
				})
			},
		},
		{
			pod:    cluster.PodSpec{Namespace: "small", Name: "sixth"},
			reason: model.ReasonSubnetFull, network: "small",
			mend: func(t *testing.T) { env.DeletePod(t, small[0]) },
		},
		{
			pod:    cluster.PodSpec{Namespace: "nowhere", Name: "stranger", Network: "roomy"},
			reason: model.ReasonNetworkNotFound, says: []string{"nowhere", "roomy"}, network: "roomy",
			mend: func(t *testing.T) {
				env.ChangeNetwork(t, "roomy", func(s *v1alpha1.NetworkSpec) {
					s.AllowedNamespaces = &metav1.LabelSelector{}
				})
			},
		},
		{
			pod:    cluster.PodSpec{Namespace: "nowhere", Name: "lost"},
			reason: model.ReasonNetworkNotFound, says: []string{"nowhere"},
			mend: func(t *testing.T) {
				env.Network(t, "nowhere", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
			},
		},
	}
	pods := make([]*corev1.Pod, len(mistakes))
	for i, m := range mistakes {
		pods[i] = env.Pod(t, m.pod)
	}
	good := env.Pod(t, cluster.PodSpec{Namespace: "roomy", Name: "good"})

	for i, m := range mistakes {
		message := env.WaitEvent(t, pods[i], m.reason)
		for _, want := range m.says {
			if !strings.Contains(message, want) {
				t.Errorf("%s: the Event does not name %q: %s", m.reason, want, message)
			}
		}
		t.Logf("%s: %s", m.reason, message)
		if m.network != "" {
			env.WaitCondition(t, m.network, model.ConditionPodsAttached, metav1.ConditionFalse, "")
		}
		if port := env.NB.Port(t, pods[i].Namespace+"/"+pods[i].Name); port != nil {
			t.Errorf("%s: the pod has a port all the same: %+v", m.reason, port)
		}
	}
	message := env.WaitCondition(t, "overlapping", model.ConditionSubnetsValid, metav1.ConditionFalse, model.ReasonSubnetsOverlap)
	if !strings.Contains(message, "second") || !strings.Contains(message, "first") {
		t.Errorf("the condition does not name the subnets that overlap: %s", message)
	}
	// What is not wrong works: good pods, and the other subnets of the Network.
	third := env.Pod(t, cluster.PodSpec{Namespace: "overlapping", Name: "third", NICs: `[{"subnet":"third"}]`})
	env.WaitReady(t, good, third)

	for _, m := range mistakes {
		m.mend(t)
	}
	env.WaitReady(t, pods...)
	for _, network := range []string{"roomy", "small"} {
		env.WaitCondition(t, network, model.ConditionPodsAttached, metav1.ConditionTrue, "")
	}
}

// TestNetworkWithPodsStays: a Network with pods is not deleted; it says which pods, takes no new ones, and goes
// with the last of them, rows and all.
func TestNetworkWithPodsStays(t *testing.T) {
	t.Parallel()
	env.Network(t, "green", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "green", "green")
	stays := env.Pod(t, cluster.PodSpec{Namespace: "green", Name: "stays"})
	env.WaitReady(t, stays)
	if env.NB.CountOf(t, "green") == 0 {
		t.Error("the Network has no rows")
	}

	env.DeleteNetwork(t, "green")
	env.WaitPhase(t, "green", v1alpha1.NetworkTerminating)
	if message := env.WaitCondition(t, "green", model.ConditionInUse, metav1.ConditionTrue, ""); !strings.Contains(message, "green/stays") {
		t.Errorf("the condition does not name the pod: %s", message)
	}
	late := env.Pod(t, cluster.PodSpec{Namespace: "green", Name: "late"})
	env.WaitEvent(t, late, model.ReasonNetworkTerminating)

	env.DeletePod(t, late)
	env.DeletePod(t, stays)
	env.WaitGone(t, stays)
	env.WaitNetworkGone(t, "green")
	env.WaitNoRows(t, "green")
}
