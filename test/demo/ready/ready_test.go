package ready

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

func network(phase v1alpha1.NetworkPhase, observed int64, conditions ...metav1.Condition) v1alpha1.Network {
	return v1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: "red", Generation: 2},
		Status:     v1alpha1.NetworkStatus{Phase: phase, ObservedGeneration: observed, Conditions: conditions},
	}
}

func deployment(want, updated, ready, all int32) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "web", Generation: 1},
		Spec:       appsv1.DeploymentSpec{Replicas: &want},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 1, UpdatedReplicas: updated, ReadyReplicas: ready, Replicas: all},
	}
}

func pod(conditions ...corev1.PodCondition) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "web-0"},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: conditions},
	}
}

func TestJudge(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	creating := pod()
	creating.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
	}
	ending := pod(ready)
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	good := network(v1alpha1.NetworkReady, 2)
	tests := map[string]struct {
		objects Objects
		waiting []string
	}{
		"ready": {
			objects: Objects{
				Networks: []v1alpha1.Network{good}, Deployments: []appsv1.Deployment{deployment(1, 1, 1, 1)}, Pods: []corev1.Pod{pod(ready)},
			},
		},
		"network not seen": {
			objects: Objects{Networks: []v1alpha1.Network{network("", 0)}},
			waiting: []string{"Network red: no status yet"},
		},
		"network's last change not seen": {
			objects: Objects{Networks: []v1alpha1.Network{network(v1alpha1.NetworkReady, 1)}},
			waiting: []string{"Network red: Ready"},
		},
		"network failed": {
			objects: Objects{
				Networks: []v1alpha1.Network{
					network(v1alpha1.NetworkFailed, 2, metav1.Condition{
						Type: "Ready", Status: metav1.ConditionFalse, Reason: "SubnetsOverlap", Message: "give it others",
					}),
				},
			},
			waiting: []string{"Network red: Failed, SubnetsOverlap: give it others"},
		},
		"rollout": {
			objects: Objects{Networks: []v1alpha1.Network{good}, Deployments: []appsv1.Deployment{deployment(1, 0, 1, 1)}},
			waiting: []string{"Deployment red/web: 1 of 1 pods Ready"},
		},
		"rollout of a StatefulSet": {
			objects: Objects{Networks: []v1alpha1.Network{good}, StatefulSets: []appsv1.StatefulSet{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "red", Name: "db"}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 1, Replicas: 1},
			}}},
			waiting: []string{"StatefulSet red/db: 1 of 1 pods Ready"},
		},
		"too many": {
			objects: Objects{Networks: []v1alpha1.Network{good}, Deployments: []appsv1.Deployment{deployment(1, 1, 1, 2)}},
			waiting: []string{"Deployment red/web: 1 of 1 pods Ready"},
		},
		"creating": {
			objects: Objects{Networks: []v1alpha1.Network{good}, Pods: []corev1.Pod{creating}},
			waiting: []string{"pod red/web-0: ContainerCreating on n1"},
		},
		"not scheduled": {
			objects: Objects{
				Pods: []corev1.Pod{
					pod(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}),
				},
			},
			waiting: []string{"pod red/web-0: 0/3 nodes are available"},
		},
		"ending": {objects: Objects{Pods: []corev1.Pod{ending}}, waiting: []string{"pod red/web-0: ending"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Judge(test.objects)
			if diff := cmp.Diff(test.waiting, got.Waiting); diff != "" {
				t.Errorf("waiting (-want +got):\n%s", diff)
			}
			if want := test.waiting == nil; got.Done() != want {
				t.Errorf("done is %v, want %v", got.Done(), want)
			}
		})
	}
	if Judge(Objects{}).Done() {
		t.Error("an empty cluster is done")
	}
}
