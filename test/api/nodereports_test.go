//go:build integration

package api

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/apiserver"
)

// testNodeReports: the agent of a node writes the report of that node and of no other, whether its token is a pod's or bound to a
// Node, or it has a certificate.
func testNodeReports(t *testing.T, s *apiserver.Server) {
	const notYours = "written by the agent of the node that it names"
	admin := clientFor(t, s.RESTConfig())
	for _, name := range []string{"report-1", "report-2"} {
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := admin.CoreV1().Pods("atoll-system").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent-of-1", Namespace: "atoll-system"},
		Spec: corev1.PodSpec{
			NodeName: "report-1", HostNetwork: true, ServiceAccountName: "atoll-agent", Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As docs/install.md has it.
	bound, err := s.Kubectl(t.Context(), "create", "token", "atoll-agent", "-n", "atoll-system",
		"--bound-object-kind", "Node", "--bound-object-name", "report-1")
	if err != nil {
		t.Fatal(err)
	}
	grant(t, admin, "writes-reports", "reporters", rbacv1.PolicyRule{
		APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"nodereports"}, Verbs: []string{"*"},
	})
	writers := map[string]dynamic.Interface{
		"an agent's pod on node 1": reporterFor(t,
			withToken(t, s, admin, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "agent-of-1"})),
		"a token that is bound to node 1":  reporterFor(t, bearing(s, bound)),
		"an agent's token without a node":  reporterFor(t, withToken(t, s, admin, nil)),
		"an agent's certificate of node 1": reporterFor(t, s.As(agent, "atoll.dev:node:report-1")),
		"somebody of node 1":               reporterFor(t, s.As("somebody", "reporters", "atoll.dev:node:report-1")),
		"who owns the cluster":             reporterFor(t, s.RESTConfig()),
	}
	waitForPolicies(t, func(ctx context.Context) error {
		return writeReport(ctx, writers["somebody of node 1"], "early")
	})
	for _, test := range []struct{ who, node, refusal string }{
		{"an agent's pod on node 1", "report-1", ""},
		{"an agent's pod on node 1", "report-2", notYours},
		{"a token that is bound to node 1", "report-1", ""},
		{"a token that is bound to node 1", "report-2", notYours},
		{"an agent's token without a node", "report-1", notYours},
		{"an agent's certificate of node 1", "report-1", ""},
		{"an agent's certificate of node 1", "report-2", notYours},
		{"somebody of node 1", "report-1", notYours},
		{"who owns the cluster", "report-2", ""},
	} {
		switch err := writeReport(t.Context(), writers[test.who], test.node); {
		case test.refusal == "" && err != nil:
			t.Errorf("%s writes the report of %s: %v", test.who, test.node, err)
		case test.refusal != "" && (err == nil || !strings.Contains(err.Error(), test.refusal)):
			t.Errorf("%s writes the report of %s: %v; want a refusal that says %q", test.who, test.node, err, test.refusal)
		}
	}
	stolen := writers["an agent's pod on node 1"]
	// It goes with its Node, and its agent cannot have it stay.
	const goes = "belongs to the Node of its name"
	stays := reportsThatStay()
	for what, metadata := range stays {
		if err := writeReportOf(t.Context(), stolen, "report-1", metadata); err == nil || !strings.Contains(err.Error(), goes) {
			t.Errorf("an agent's report with %s: %v; want a refusal that says %q", what, err, goes)
		}
	}
	if err := writeReportOf(t.Context(), writers["who owns the cluster"], "report-1", map[string]any{}); err != nil {
		t.Errorf("who owns the cluster writes a report without owner: %v", err)
	}
	err = without(t, admin, func(ctx context.Context) error {
		errs := []error{writeReport(ctx, stolen, "report-2")}
		for _, metadata := range stays {
			errs = append(errs, writeReportOf(ctx, stolen, "report-1", metadata))
		}
		return errors.Join(errs...)
	}, "atoll-node-reports")
	if err != nil {
		t.Errorf("the control: without the policy an agent's pod on node 1 writes the report of node 2, and one that stays: %v", err)
	}
	// What it says of its own node is bounded.
	var many []any
	for range 257 {
		many = append(many, "192.0.2.1")
	}
	for what, addresses := range map[string][]any{"a range": {"0.0.0.0/0"}, "a word": {"everything"}, "too many addresses": many} {
		if err := writeReport(t.Context(), stolen, "report-1", addresses...); err == nil || !strings.Contains(err.Error(), "status.addresses") {
			t.Errorf("a report with %s: %v; want a refusal that names the field", what, err)
		}
	}
}

// reportsThatStay are the metadata of reports that would outlive their Node.
func reportsThatStay() map[string]map[string]any {
	owners := func(of ...any) map[string]any { return map[string]any{"ownerReferences": of} }
	owner := func(kind, name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": kind, "name": name, "uid": "1"}
	}
	held := owners(owner("Node", "report-1"))
	held["finalizers"] = []any{"a.example/b"}
	return map[string]map[string]any{
		"no owner": {}, "another Node": owners(owner("Node", "report-2")), "another kind": owners(owner("Pod", "report-1")),
		"two owners": owners(owner("Node", "report-1"), owner("Node", "report-2")), "a finalizer": held,
	}
}

// withToken is the agent's ServiceAccount with a token that is bound to something, or to nothing.
func withToken(t *testing.T, s *apiserver.Server, admin kubernetes.Interface, of *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	token, err := admin.CoreV1().ServiceAccounts("atoll-system").CreateToken(t.Context(), "atoll-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: of},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return bearing(s, []byte(token.Status.Token))
}

// bearing is how somebody with a token reaches the server.
func bearing(s *apiserver.Server, token []byte) *rest.Config {
	config := rest.AnonymousClientConfig(s.RESTConfig())
	config.BearerToken = strings.TrimSpace(string(token))
	return config
}

func reporterFor(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// writeReport asks the API server what it would say to a report that belongs to its Node.
func writeReport(ctx context.Context, client dynamic.Interface, node string, addresses ...any) error {
	return writeReportOf(ctx, client, node, map[string]any{
		"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": node, "uid": "1"}},
	}, addresses...)
}

// writeReportOf asks the same of a report with other metadata.
func writeReportOf(ctx context.Context, client dynamic.Interface, node string, metadata map[string]any, addresses ...any) error {
	metadata = maps.Clone(metadata)
	metadata["name"] = node
	_, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("nodereports")).Create(
		ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "NodeReport", "metadata": metadata,
			"status": map[string]any{"addresses": addresses},
		}}, metav1.CreateOptions{DryRun: dry.DryRun})
	return err
}
