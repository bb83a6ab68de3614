package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// notes are the steps of a test.
type notes struct{ said []string }

func (n *notes) Do(title string, step func() error) error {
	n.said = append(n.said, title)
	return step()
}

func (n *notes) Note(format string, args ...any) {
	n.said = append(n.said, fmt.Sprintf(format, args...))
}

func TestUntilSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var steps notes
	err := until(ctx, &steps, func() (string, error) { return "two pods", nil })
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "two pods") || len(steps.said) != 1 {
		t.Errorf("got %v, and %q was said", err, steps.said)
	}
	if err := until(t.Context(), &steps, func() (string, error) { return "", errRefused }); !errors.Is(err, errRefused) {
		t.Errorf("what does not help is waited for: %v", err)
	}
}

func TestRolledOut(t *testing.T) {
	t.Parallel()
	daemon := func(generation, observed, want, updated, ready int64) map[string]any {
		return map[string]any{
			"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"generation": generation},
			"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "a"}}},
			"status": map[string]any{
				"observedGeneration": observed, "desiredNumberScheduled": want, "updatedNumberScheduled": updated, "numberReady": ready,
			},
		}
	}
	deployment := func(replicas, updated, ready, all int64) map[string]any {
		return map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": replicas, "selector": map[string]any{}},
			"status": map[string]any{"replicas": all, "updatedReplicas": updated, "readyReplicas": ready},
		}
	}
	for _, test := range []struct {
		name  string
		state map[string]any
		done  bool
		count string
	}{
		{"not seen", daemon(2, 1, 3, 3, 3), false, "its controller has not seen it yet"},
		{"half new", daemon(2, 2, 3, 1, 3), false, "1 of 3 new, 3 of 3 ready"},
		{"half ready", daemon(2, 2, 3, 3, 1), false, "1 of 3 ready"},
		{"done", daemon(2, 2, 3, 3, 3), true, "3 of 3 ready"},
		{"an old replica is still there", deployment(2, 2, 2, 3), false, "its controller has not seen it yet"},
		{"deployment done", deployment(2, 2, 2, 2), true, "2 of 2 ready"},
	} {
		done, count, _, err := rolledOut(&unstructured.Unstructured{Object: test.state})
		if err != nil || done != test.done || count != test.count {
			t.Errorf("%s: %t, %q, %v", test.name, done, count, err)
		}
	}
}

func TestWhyAPodIsNotReady(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}
	}
	died := waiting("CrashLoopBackOff", "back-off 10s")
	died.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Message: "starting\ncannot read the certificate\n"}
	condition := func(kind corev1.PodConditionType, reason, message string) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}}}
	}
	for _, test := range []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{
			"image",
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("ImagePullBackOff", "not found")}},
			"p on n: c waits: ImagePullBackOff not found",
		},
		{"crash", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{died}}, "p on n: c ended: cannot read the certificate"},
		{"no node", condition(corev1.PodScheduled, "Unschedulable", "0/3 nodes"), "p on n: Unschedulable 0/3 nodes"},
		{"probe", condition(corev1.PodReady, "ContainersNotReady", "[c]"), "p on n: ContainersNotReady [c]"},
		{"ready", corev1.PodStatus{}, ""},
	} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"}, Status: test.status}
		if got := whyNotReady([]corev1.Pod{p}); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// TestWhoHangsOnAtoll: pods with an attachment, but not those of the installation itself, of a node's network, or that have ended.
func TestWhoHangsOnAtoll(t *testing.T) {
	t.Parallel()
	pod := func(namespace, name string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name, Annotations: map[string]string{model.AnnotationAttachments: "[]"}, Labels: map[string]string{},
			},
		}
		change(&p)
		return p
	}
	names := *object("apps/v1", "Deployment", "kube-system", "coredns", nil)
	names.Object["spec"] = map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"k8s-app": "dns"}}}
	got := connected([]corev1.Pod{
		pod("red", "web", func(*corev1.Pod) {}),
		pod("red", "waits", func(p *corev1.Pod) { p.Annotations = nil }),
		pod("red", "ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("kube-system", "proxy", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
		pod("kube-system", "coredns", func(p *corev1.Pod) { p.Labels["k8s-app"] = "dns" }),
		pod("other", "same-label", func(p *corev1.Pod) { p.Labels["k8s-app"] = "dns" }),
	}, []unstructured.Unstructured{names})
	var said []string
	for _, p := range got {
		said = append(said, p.Namespace+"/"+p.Name)
	}
	if strings.Join(said, " ") != "red/web other/same-label" {
		t.Errorf("got %q", said)
	}
}
