//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestHostileTenant: mallory may do in her namespace what the role admin allows, and wants into others' Networks.
func TestHostileTenant(t *testing.T) {
	t.Parallel()
	const user = "mallory"
	env.Network(t, "victim", v1alpha1.NetworkSpec{
		Subnets:           []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")},
		AllowedNamespaces: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "victim"}},
	})
	env.Network(t, "hers", v1alpha1.NetworkSpec{Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")}})
	env.Namespace(t, "hers", "hers")
	_, err := env.Clients.Kube.RbacV1().RoleBindings("hers").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "mallory"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mallory := env.As(t, user).CoreV1().Pods("hers")
	attachment := `[{"interface":"eth0","network":"victim","subnet":"a","mac":"0a:58:0a:00:00:0a","addresses":["10.0.0.10/24"]}]`
	status := `[{"name":"victim","interface":"eth0","ips":["10.0.0.10"],"default":true}]`

	plain := cluster.PodSpec{Namespace: "hers", Name: "plain", Network: "hers"}
	var mine *corev1.Pod
	cluster.Eventually(t, cluster.Patience, "mallory makes an ordinary pod", func(ctx context.Context) error {
		mine, err = mallory.Create(ctx, plain.Object(), metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { env.DeletePod(t, mine) })

	for name, annotations := range map[string]map[string]string{
		"attachments":    {model.AnnotationAttachments: attachment},
		"network-status": {model.AnnotationNetworkStatus: status},
		"empty":          {model.AnnotationAttachments: ""},
	} {
		p := cluster.PodSpec{Namespace: "hers", Name: "forged", Annotations: annotations}
		if _, err := mallory.Create(t.Context(), p.Object(), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("create a pod with its own %s: want Forbidden, got %v", name, err)
		}
	}
	env.WaitReady(t, mine)
	for name, patch := range map[string]string{
		"attachments":            fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, model.AnnotationAttachments, attachment),
		"attachments to nothing": fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, model.AnnotationAttachments),
		"network-status":         fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, model.AnnotationNetworkStatus, status),
		"network":                fmt.Sprintf(`{"metadata":{"labels":{%q:"victim"}}}`, model.LabelNetwork),
		"nics":                   fmt.Sprintf(`{"metadata":{"annotations":{%q:"[{\"network\":\"victim\"}]"}}}`, model.AnnotationNICs),
	} {
		_, err := mallory.Patch(t.Context(), "plain", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("change %s of a pod: want a refusal, got %v", name, err)
		}
	}

	// What admission lets through, the controller refuses: she may name the Network, but not join it.
	for name, s := range map[string]cluster.PodSpec{
		"by label": {Namespace: "hers", Name: "label", Network: "victim"},
		"by nics":  {Namespace: "hers", Name: "nics", NICs: `[{"network":"victim"}]`},
	} {
		p, err := mallory.Create(t.Context(), s.Object(), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { env.DeletePod(t, p) })
		env.WaitEvent(t, p, model.ReasonNetworkNotFound)
		if port := env.NB.Port(t, "hers/"+s.Name); port != nil {
			t.Errorf("%s: the pod has a port: %+v", name, port)
		}
	}
}
