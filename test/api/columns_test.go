//go:build integration

package api

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/test/apiserver"
)

// testColumns looks at what `kubectl get` shows of a Network and of a Tenant with a status.
func testColumns(t *testing.T, s *apiserver.Server) {
	networks := networksOf(t, s)
	created, err := networks.Create(t.Context(), network(t, "red", "{type: vpc, vpcID: vpc-1, tenant: acme, serviceCIDRs: [10.9.0.0/16]}"),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.NetworkStatus{
		Phase:              v1alpha1.NetworkReady,
		ObservedGeneration: created.GetGeneration(),
		Conditions: []metav1.Condition{
			{Type: "InUse", Status: metav1.ConditionTrue, Reason: "PodsAttached", LastTransitionTime: metav1.NewTime(time.Unix(0, 0))},
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Served", LastTransitionTime: metav1.NewTime(time.Unix(0, 0))},
		},
		Subnets: []v1alpha1.SubnetStatus{
			{Name: "a", CIDR: "10.0.0.0/24", Used: 12, Free: 241},
			{Name: "a", CIDR: "fd00::/64", Used: 12, Free: 1<<53 - 1},
		},
		ServiceCIDRs: []v1alpha1.ServiceCIDRStatus{{CIDR: "10.9.0.0/16", Used: 3, Free: 65531}},
		Pods:         12,
		Isolation: &v1alpha1.Isolation{
			Pods: v1alpha1.Soft, DNS: v1alpha1.Hard, Overall: v1alpha1.Soft, Reasons: []v1alpha1.IsolationReason{
				{Reason: "InfraIngressAll", Message: "spec.infraIngress is All"},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	created.Object["status"] = status
	if _, err := networks.UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	tenants := resourceOf(t, s, "tenants", "")
	told, err := tenants.Create(t.Context(), tenant(t, "crimson", "{}"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	verdict := map[string]any{"pods": "Hard", "dns": "Hard", "overall": "Unknown"}
	told.Object["status"] = map[string]any{
		"phase": "Ready", "networks": int64(1), "namespaces": int64(2), "pods": int64(3), "services": int64(4), "gateways": int64(0),
		"isolation": verdict,
	}
	_, err = tenants.UpdateStatus(t.Context(), told, metav1.UpdateOptions{})
	expect(t, err, "Unsupported value")
	verdict["overall"] = "Hard"
	if _, err := tenants.UpdateStatus(t.Context(), told, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, look := range []struct {
		args []string
		want string
	}{
		{
			[]string{"get", "tenants", "--field-selector=metadata.name=crimson"},
			"NAME PHASE REASON NETWORKS NAMESPACES PODS SERVICES GATEWAYS ISOLATION AGE / crimson Ready 1 2 3 4 0 Hard",
		},
		{[]string{"get", "networks"}, "NAME TYPE PHASE REASON PODS TENANT AGE / red vpc Ready Served 12 acme"},
		{
			[]string{"get", "net", "-o", "wide"},
			"NAME TYPE PHASE REASON PODS TENANT VPC SERVICE-CIDRS ISOLATION AGE / red vpc Ready Served 12 acme vpc-1 [\"10.9.0.0/16\"] Soft",
		},
		// Of several kinds kubectl says which one it is.
		{[]string{"get", "atoll"}, "NAME TYPE PHASE REASON PODS TENANT AGE / network.atoll.dev/red vpc Ready Served 12 acme"},
	} {
		if look.args[1] != "tenants" {
			look.args = append(look.args, "--field-selector=metadata.name=red")
		}
		out, err := s.Kubectl(t.Context(), look.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		// The age that ends the last line depends on when one looks.
		if got := strings.Join(lines, " / "); !strings.HasPrefix(got, look.want+" ") {
			t.Errorf("kubectl %s\nshows %s\nwant  %s", strings.Join(look.args, " "), got, look.want)
		}
	}
}
