//go:build e2e

package hostile

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// dry asks the API server what it would say: everything but the write is done, admission too.
func dry() []string { return []string{metav1.DryRunAll} }

// writes is an attempt to write an object. The attacker has it if the API server takes it.
func writes(do func(ctx context.Context) error) attempt {
	return func(ctx context.Context) (string, error) {
		switch err := do(ctx); {
		case err == nil:
			return "the API server takes it", nil
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			return "", nil
		default:
			return "", err
		}
	}
}

// everything is a user who may do all that RBAC can give in the namespace attackers, so that policies stand alone.
func everything(t *testing.T) kubernetes.Interface {
	t.Helper()
	const user = "mallory-the-owner"
	bindings := env.Clients.Kube.RbacV1().RoleBindings("attackers")
	_, err := bindings.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := bindings.Delete(ctx, user, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return env.As(t, user)
}

// patches is an attempt to patch a pod of the attackers.
func patches(by kubernetes.Interface, patch string, subresources ...string) attempt {
	return writes(func(ctx context.Context) error {
		_, err := by.CoreV1().Pods("attackers").Patch(ctx, "weak", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry()},
			subresources...)
		return err
	})
}

// TestForgedAnnotations: a tenant writes what the controller alone writes, in every way in which a pod's metadata can be
// written, and changes the Network of a pod that runs.
func TestForgedAnnotations(t *testing.T) {
	owner := everything(t)
	attachment := `[{"interface":"eth0","network":"victims","subnet":"a","mac":"0a:58:0a:00:00:32","addresses":["10.0.0.50/24"]}]`
	annotation := func(key, value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	}
	creates := func(by kubernetes.Interface, annotations map[string]string) attempt {
		return writes(func(ctx context.Context) error {
			p := cluster.PodSpec{Namespace: "attackers", Name: "forged", Annotations: annotations}.Object()
			_, err := by.CoreV1().Pods("attackers").Create(ctx, p, metav1.CreateOptions{DryRun: dry()})
			return err
		})
	}
	edit := mallory(t)
	policy("atoll-pods").holds(t,
		attack{"a new pod brings attachments", creates(edit, map[string]string{model.AnnotationAttachments: attachment})},
		attack{"a new pod brings empty attachments", creates(edit, map[string]string{model.AnnotationAttachments: ""})},
		attack{"a new pod brings a network-status", creates(edit, map[string]string{model.AnnotationNetworkStatus: "[]"})},
		attack{"a new pod brings its own addresses", creates(edit, map[string]string{model.AnnotationAddresses: "10.0.0.60"})},
		attack{"a pod that runs gets other addresses", patches(edit, annotation(model.AnnotationAddresses, "10.0.0.60"))},
		attack{"a pod that runs gets attachments", patches(edit, annotation(model.AnnotationAttachments, attachment))},
		attack{"a pod that runs loses them", patches(edit, `{"metadata":{"annotations":{"atoll.dev/attachments":null}}}`)},
		attack{"a pod that runs gets a network-status", patches(edit, annotation(model.AnnotationNetworkStatus, "[]"))},
		attack{"attachments through the status", patches(owner, annotation(model.AnnotationAttachments, attachment), "status")},
		attack{"a pod that runs changes its Network", patches(edit, `{"metadata":{"labels":{"atoll.dev/network":"victims"}}}`)},
		attack{"a pod that runs changes its interfaces", patches(edit, annotation(model.AnnotationNICs, `[{"network":"victims"}]`))},
	)
	binds := func(labels, annotations map[string]string) attempt {
		return writes(func(ctx context.Context) error {
			return owner.CoreV1().Pods("attackers").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "unbound", Namespace: "attackers", Labels: labels, Annotations: annotations},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
			}, metav1.CreateOptions{DryRun: dry()})
		})
	}
	unbound := cluster.PodSpec{Namespace: "attackers", Name: "unbound", Node: "nowhere"}.Object()
	env.Make(t, unbound)
	policy("atoll-bindings").holds(t,
		attack{"a Binding brings attachments", binds(nil, map[string]string{model.AnnotationAttachments: attachment})},
		attack{"a Binding brings interfaces", binds(nil, map[string]string{model.AnnotationNICs: `[{"network":"victims"}]`})},
		attack{"a Binding brings a Network", binds(map[string]string{model.LabelNetwork: "victims"}, nil)},
	)
}

// TestForgedObjects: other objects that a tenant must not write, in the name of the controller or of Network owners, even where
// RBAC permits it.
func TestForgedObjects(t *testing.T) {
	owner := everything(t)
	mirror := func(manager string) attempt {
		return writes(func(ctx context.Context) error {
			_, err := owner.DiscoveryV1().EndpointSlices("attackers").Create(ctx, &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: "forged", Labels: map[string]string{discoveryv1.LabelManagedBy: manager}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.50"}}},
			}, metav1.CreateOptions{DryRun: dry()})
			return err
		})
	}
	policy("atoll-mirrors").holds(t, attack{"a mirror of an EndpointSlice", mirror("atoll")})
	env.Service(t, "attackers", "named", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}})
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		if err := env.Clients.Kube.CoreV1().Services("attackers").Delete(ctx, "named", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	policy("atoll-services").holds(t, attack{"a Service's addresses in its Network", writes(func(ctx context.Context) error {
		_, err := mallory(t).CoreV1().Services("attackers").Patch(ctx, "named", types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"}}}`, model.AnnotationServiceAddresses), metav1.PatchOptions{DryRun: dry()})
		return err
	})})
	relabels := func(key, value string) attempt {
		return writes(func(ctx context.Context) error {
			_, err := owner.CoreV1().Namespaces().Patch(ctx, "attackers", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, key, value), metav1.PatchOptions{DryRun: dry()})
			return err
		})
	}
	policy("atoll-namespaces").holds(t,
		attack{"his namespace becomes another tenant's", relabels(model.LabelTenant, `"victims"`)},
		attack{"his namespace has another's Network", relabels(model.LabelNetwork, `"victims"`)},
		attack{"his namespace has no Network, and so the default one", relabels(model.LabelNetwork, "null")},
		attack{"his namespace is infrastructure", relabels(model.LabelInfrastructure, `"true"`)},
	)
	ofHis := attack{"he makes a Network", writes(func(ctx context.Context) error {
		_, err := env.DynamicAs(t, "mallory").Resource(v1alpha1.SchemeGroupVersion.WithResource("networks")).Create(
			ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "Network", "metadata": map[string]any{"name": "his"},
				"spec": map[string]any{"type": "vpc", "subnets": []any{map[string]any{"name": "a", "cidrs": []any{"10.0.0.0/24"}}}},
			}}, metav1.CreateOptions{DryRun: dry()})
		return err
	})}
	granted("no right on networks in the roles edit and admin", "mallory", "atoll-network-admin").holds(t, ofHis)
}

// granted is a defence that the lack of a right is: a ClusterRole is bound to a user.
func granted(name, user, role string) defence {
	return defence{name: name, out: func(t *testing.T) func() {
		t.Helper()
		bindings := env.Clients.Kube.RbacV1().ClusterRoleBindings()
		_, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "hostile-" + user},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			ctx, cancel := cluster.AfterTest()
			defer cancel()
			if err := bindings.Delete(ctx, "hostile-"+user, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}}
}
