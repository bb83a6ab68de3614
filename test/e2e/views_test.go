//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/e2e/cluster"
)

// TestTenantSeesHisOwn: with the built-in role view in a namespace, a tenant sees its Network and its pods' own addresses. The tenant
// does not see another namespace that shares the Network, nor the Network object itself.
func TestTenantSeesHisOwn(t *testing.T) {
	t.Parallel()
	env.Network(t, "views", v1alpha1.NetworkSpec{
		Subnets: []v1alpha1.Subnet{cluster.Subnet("a", "10.0.0.0/24")},
		AllowedNamespaces: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{"views-a", "views-b"}},
			},
		},
	})
	for _, ns := range []string{"views-a", "views-b"} {
		env.Namespace(t, ns, "views")
	}
	_, err := env.Clients.Kube.RbacV1().RoleBindings("views-a").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "ann"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mine := env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "views-a", Name: "mine"}))[0]
	env.WaitReady(t, env.Pod(t, cluster.PodSpec{Namespace: "views-b", Name: "theirs"}))
	own := cluster.OwnAddress(t, mine)
	if got := mine.Annotations[model.AnnotationAddresses]; got != own {
		t.Errorf("the pod's column shows %q, its address is %s", got, own)
	}
	ann := env.As(t, "ann").CoreV1().RESTClient()
	read := func(ctx context.Context, path string) ([]byte, error) { return ann.Get().AbsPath(path).DoRaw(ctx) }
	const group = "/apis/atoll.dev/v1alpha1/"
	cluster.Eventually(t, cluster.Patience, "the tenant's view", func(ctx context.Context) error {
		text, err := read(ctx, group+"namespaces/views-a/networkviews/views")
		if err != nil {
			return err
		}
		view := v1alpha1.NetworkView{}
		if err := json.Unmarshal(text, &view); err != nil {
			return err
		}
		s := view.Status
		if s.Phase != v1alpha1.NetworkReady || s.Pods != 1 || len(s.Addresses) != 1 || s.Addresses[0].Pod != "mine" ||
			s.Addresses[0].Addresses[0] != own || s.Subnets[0].Used != 1 {
			return fmt.Errorf("%+v", s)
		}
		if strings.Contains(string(text), "theirs") || strings.Contains(string(text), "views-b") {
			return fmt.Errorf("it shows others': %s", text)
		}
		return nil
	})
	// The columns that kubectl shows to the tenant, and the one-liner of docs/api/pods.md.
	shows := func(want []string, args ...string) {
		t.Helper()
		cluster.Eventually(t, cluster.Patience, fmt.Sprintf("kubectl get %v", args), func(ctx context.Context) error {
			out, err := env.Program(ctx, append([]string{"kubectl", "--as=ann", "get", "-n", "views-a"}, args...)...).Output()
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(lines) != 2 || !slices.Equal(strings.Fields(lines[0]), strings.Fields(want[0])) ||
				!strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want[1]) {
				return fmt.Errorf("%s", out)
			}
			return nil
		})
	}
	shows([]string{"NAME TYPE PHASE REASON PODS WAITING RANGES AGE", "views vpc Ready Ready 1 0 10.0.0.0/24 "}, "networkviews")
	shows([]string{"NAME ADDRESS FACE", "mine " + own + " " + mine.Status.PodIP}, "pods", columnsOfDocs(t))
	for _, path := range []string{"namespaces/views-b/networkviews/views", "networkviews", "networks", "networks/views"} {
		if text, err := read(t.Context(), group+path); !apierrors.IsForbidden(err) {
			t.Errorf("the tenant reads %s: %s, %v", path, text, err)
		}
	}
	if err := ann.Delete().AbsPath(group + "namespaces/views-a/networkviews/views").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("the tenant deletes a view: %v", err)
	}
	// Its right goes, and with its pods gone its view does.
	env.DeletePod(t, mine)
	env.WaitGone(t, mine)
	env.ChangeNetwork(t, "views", func(s *v1alpha1.NetworkSpec) {
		s.AllowedNamespaces = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "views-b"}}
	})
	cluster.Eventually(t, cluster.Patience, "the end of the view", func(ctx context.Context) error {
		if text, err := read(ctx, group+"namespaces/views-a/networkviews/views"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s, %w", text, err)
		}
		return nil
	})
}

// columnsOfDocs is the option by which docs/api/pods.md shows pods' own addresses.
func columnsOfDocs(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(env.Root, "docs/api/pods.md"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`kubectl get pods -o (custom-columns=)'([^']+)'`).FindSubmatch(page)
	if match == nil {
		t.Fatal("docs/api/pods.md shows no columns")
	}
	return "-o" + string(match[1]) + string(match[2])
}
