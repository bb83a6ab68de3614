//go:build integration

package api

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/apiserver"
)

// testNodes: whoever has a kubelet's credentials takes no other node's addresses, and comes into no Network.
func testNodes(t *testing.T, s *apiserver.Server) {
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, "kubelets-of-nodes", "system:nodes", rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status", "pods"}, Verbs: []string{"create", "update", "patch", "get"},
	})
	thief := clientFor(t, s.As("system:node:stolen-1", "system:nodes", "system:authenticated"))
	made, err := admin.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stolen-1", Annotations: map[string]string{"note": "mine"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	makeNamespace(t, admin, "node-red", map[string]string{model.LabelNetwork: "red"}, nil)
	makeNamespace(t, admin, "node-tenant", map[string]string{model.LabelTenant: "acme"}, nil)
	makeNamespace(t, admin, "node-plain", nil, nil)
	claim := `{"metadata":{"annotations":{"atoll.dev/node":"{\"nodeUID\":\"` + string(made.UID) + `\",\"faces\":[\"172.30.0.0/25\"]}"}}}`
	patch := func(who kubernetes.Interface, body string, of ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := who.CoreV1().Nodes().Patch(ctx, "stolen-1", types.MergePatchType, []byte(body), dryPatch, of...)
			return err
		}
	}
	const byController = "is written by atoll-controller only"
	t.Run("annotations", func(t *testing.T) {
		tries(t, admin, "atoll-nodes", []theft{
			{"a block", byController, patch(thief, claim)},
			{"a block, by the status", byController, patch(thief, claim, "status")},
			{"a Node that is new", byController, func(ctx context.Context) error {
				_, err := thief.CoreV1().Nodes().Create(ctx,
					&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stolen-2", Annotations: map[string]string{model.AnnotationNode: "{}"}}}, dry)
				return err
			}},
			{"what a kubelet writes", "", patch(thief, `{"metadata":{"annotations":{"note":"yours"},"labels":{"a":"b"}}}`)},
			{"an operator", "", patch(admin, claim)},
		})
	})
	static := func(namespace string, change func(*corev1.Pod)) func(context.Context) error {
		return func(ctx context.Context) error {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "web-stolen-1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "1"},
				},
				Spec: corev1.PodSpec{NodeName: "stolen-1", Containers: []corev1.Container{{Name: "c", Image: "none"}}},
			}
			if change != nil {
				change(p)
			}
			_, err := thief.CoreV1().Pods(namespace).Create(ctx, p, dry)
			return err
		}
	}
	onNode := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	const inNone = "a static pod is in no Network"
	t.Run("static pods", func(t *testing.T) {
		tries(t, admin, "atoll-static-pods", []theft{
			{"in a Network's namespace", inNone, static("node-red", nil)},
			{"in a tenant's namespace", inNone, static("node-tenant", nil)},
			{"in a Network by its own label", inNone, static("node-plain", func(p *corev1.Pod) { p.Labels[model.LabelNetwork] = "red" })},
			{"beside Atoll's programs", inNone, static("atoll-system", onNode)},
			{"in a namespace that is nobody's", "", static("node-plain", nil)},
			{"of the cluster", "", static("kube-system", onNode)},
		})
	})
}
