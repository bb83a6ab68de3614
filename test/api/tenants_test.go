//go:build integration

package api

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/apiserver"
)

func resourceOf(t *testing.T, s *apiserver.Server, resource, user string, groups ...string) dynamic.ResourceInterface {
	t.Helper()
	config := s.RESTConfig()
	if user != "" {
		config = s.As(user, groups...)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource(resource))
}

// testTenants: what the schema of Tenants refuses.
func testTenants(t *testing.T, s *apiserver.Server) {
	tenants := resourceOf(t, s, "tenants", "")
	for _, sample := range []struct{ what, name, spec, refusal string }{
		{"nothing is said", "acme", "{}", ""},
		{"all is said", "acme", `{
			networkTemplate: {type: vpc, subnets: [{name: a, cidrs: [10.0.0.0/24]}], egress: none, infraAccess: direct, infraIngress: All, dns: {mode: none}, serviceCIDRs: [10.9.0.0/16]},
			serviceCIDRs: [10.8.0.0/16, "fd08::/112"], dns: {mode: node}, quotas: {networks: 3, pods: 100, services: 20, gateways: 0},
			admins: [{kind: User, name: jo}, {kind: Group, name: acme}, {kind: ServiceAccount, name: deployer, namespace: shop}]}`, ""},
		{"a name with a dot", "acme.corp", "{}", "at most 63 characters, and no dots"},
		{"a name with two dashes", "acme--corp", "{}", "has no two dashes in a row"},
		{
			"a flat Network with service ranges", "acme", "{networkTemplate: {type: flat, serviceCIDRs: [10.9.0.0/16]}}",
			"only a Network of type vpc has service ranges",
		},
		{"a range that is none", "acme", "{serviceCIDRs: [ten]}", "must be a range in CIDR notation"},
		{"two ranges of a family", "acme", "{serviceCIDRs: [10.8.0.0/16, 10.9.0.0/16]}", "two ranges must be one IPv4 and one IPv6"},
		{"a ServiceAccount of nowhere", "acme", "{admins: [{kind: ServiceAccount, name: deployer}]}", "a ServiceAccount has a namespace"},
		{"a user with a namespace", "acme", "{admins: [{kind: User, name: jo, namespace: shop}]}", "a ServiceAccount has a namespace"},
		{"another kind of admin", "acme", "{admins: [{kind: Pod, name: jo}]}", "Unsupported value"},
		{"a quota below nothing", "acme", "{quotas: {pods: -1}}", "should be greater than or equal to 0"},
		{"a quota of Services below nothing", "acme", "{quotas: {services: -1}}", "should be greater than or equal to 0"},
		{"a quota of Gateways below nothing", "acme", "{quotas: {gateways: -1}}", "should be greater than or equal to 0"},
	} {
		t.Run(sample.what, func(t *testing.T) {
			_, err := tenants.Create(t.Context(), tenant(t, sample.name, sample.spec), metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: "Strict",
			})
			expect(t, err, sample.refusal)
		})
	}
}

// tenant is the object with a spec in YAML.
func tenant(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	object := network(t, name, spec)
	object.SetKind("Tenant")
	return object
}

// testTenantAdmins: a tenant's admin has the role that the controller keeps. The admin may write the tenant's Networks and no others.
func testTenantAdmins(t *testing.T, s *apiserver.Server) {
	admin := clientFor(t, s.RESTConfig())
	grant(t, admin, "atoll-network-admin", "operators")
	operator, controllers := resourceOf(t, s, "networks", "operator", "operators"), clientFor(t, s.As(controller))
	roles := []model.TenantRole{
		{
			Tenant: "acme", TenantUID: "u", Networks: []string{"acme", "acme--given", "acme--lent"},
			Admins: []model.TenantAdmin{{Kind: "User", Name: "jo"}},
		},
		{Tenant: "other", TenantUID: "v", Networks: []string{"other"}, Admins: []model.TenantAdmin{{Kind: "User", Name: "kim"}}},
	}
	// The controller has the right to give these rights.
	for _, role := range roles {
		if _, err := controllers.RbacV1().ClusterRoles().Create(t.Context(), intake.TenantRole(role), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := controllers.RbacV1().ClusterRoleBindings().Create(t.Context(), intake.TenantBinding(role),
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, spec := range map[string]string{
		"acme":        "{type: vpc, tenant: acme}",
		"acme--given": "{type: vpc, tenant: acme, infraAccess: direct, vpcID: vpc-acme, allowedNamespaces: {}}",
		"acme--lent":  "{type: flat, tenant: acme, subnets: [{name: a, cidrs: [10.250.0.0/24]}]}",
		"other":       "{type: vpc, tenant: other}",
		"nobodys":     "{type: vpc}",
	} {
		if _, err := operator.Create(t.Context(), network(t, name, spec), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = operator.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	}
	jo := resourceOf(t, s, "networks", "jo")
	dry := []string{metav1.DryRunAll}
	create := func(ctx context.Context, name, spec string) error {
		_, err := jo.Create(ctx, network(t, name, spec), metav1.CreateOptions{DryRun: dry})
		return err
	}
	patch := func(name, body string) error {
		_, err := jo.Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: dry})
		return err
	}
	waitForPolicies(t, func(ctx context.Context) error { return create(ctx, "free", "{type: vpc}") })
	const rbac = "cannot"
	for _, step := range []struct {
		what, refusal string
		do            func() error
	}{
		{"he makes a Network of his tenant", "", func() error { return create(t.Context(), "acme--db", "{type: vpc, tenant: acme}") }},
		{"for his namespaces", "", func() error {
			return create(t.Context(), "acme--db", "{type: vpc, tenant: acme, allowedNamespaces: {matchLabels: {atoll.dev/tenant: acme, app: db}}}")
		}},
		{
			"of no tenant", "set spec.tenant to a Tenant whose admin you are",
			func() error { return create(t.Context(), "acme--db", "{type: vpc}") },
		},
		{
			"of another tenant", "you are no admin of Tenant other",
			func() error { return create(t.Context(), "other--db", "{type: vpc, tenant: other}") },
		},
		{
			"with another's name", "is called acme, or acme-- and more",
			func() error { return create(t.Context(), "other--db", "{type: vpc, tenant: acme}") },
		},
		{
			"with the name of tenant acme-b", "is called acme, or acme-- and more",
			func() error { return create(t.Context(), "acme-b", "{type: vpc, tenant: acme}") },
		},
		{"a flat one", "writes Networks of type vpc only", func() error { return create(t.Context(), "acme--db", "{type: flat, tenant: acme}") }},
		{"for all namespaces", "leave it out, or give it matchLabels with atoll.dev/tenant: acme", func() error {
			return create(t.Context(), "acme--db", "{type: vpc, tenant: acme, allowedNamespaces: {}}")
		}},
		{"for another's namespaces", "leave it out, or give it matchLabels with atoll.dev/tenant: acme", func() error {
			return create(t.Context(), "acme--db", "{type: vpc, tenant: acme, allowedNamespaces: {matchLabels: {atoll.dev/tenant: other}}}")
		}},
		{"with an id", "set vpcID", func() error { return create(t.Context(), "acme--db", "{type: vpc, tenant: acme, vpcID: vpc-other}") }},
		{
			"with direct access", "direct access to the infrastructure",
			func() error { return create(t.Context(), "acme--db", "{type: vpc, tenant: acme, infraAccess: direct}") },
		},
		{"he changes his Network", "", func() error { return patch("acme", `{"spec":{"egress":"none"}}`) }},
		{"he gives it away", "a Network stays its tenant's", func() error { return patch("acme", `{"spec":{"tenant":"other"}}`) }},
		{"he takes its tenant away", "set spec.tenant to a Tenant", func() error { return patch("acme", `{"spec":{"tenant":null}}`) }},
		{
			"he opens it to all", "leave it out, or give it matchLabels", func() error { return patch("acme", `{"spec":{"allowedNamespaces":{}}}`) },
		},
		{
			"he opens the infrastructure", "direct access to the infrastructure",
			func() error { return patch("acme", `{"spec":{"infraAccess":"direct"}}`) },
		},
		{"he gives it an id", "set vpcID", func() error { return patch("acme", `{"spec":{"vpcID":"vpc-other"}}`) }},
		{
			"he writes its finalizers", "finalizers and ownerReferences",
			func() error { return patch("acme", `{"metadata":{"finalizers":["a.b/c"]}}`) },
		},
		{
			"he changes what an operator has opened, and leaves that", "",
			func() error { return patch("acme--given", `{"spec":{"egress":"none"}}`) },
		},
		{
			"he changes a flat one that an operator made", "writes Networks of type vpc only",
			func() error { return patch("acme--lent", `{"spec":{"egress":"none"}}`) },
		},
		{"he changes another's", rbac, func() error { return patch("other", `{"spec":{"egress":"none"}}`) }},
		{"he changes nobody's", rbac, func() error { return patch("nobodys", `{"spec":{"tenant":"acme"}}`) }},
		{"he writes a status", rbac, func() error {
			_, err := jo.Patch(t.Context(), "acme", types.MergePatchType, []byte(`{"status":{"pods":1}}`), metav1.PatchOptions{DryRun: dry},
				"status")
			return err
		}},
		{"he lists all", rbac, func() error { _, err := jo.List(t.Context(), metav1.ListOptions{}); return err }},
		{"he looks at his by name", "", func() error {
			_, err := jo.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=acme"})
			return err
		}},
		{"he deletes his", "", func() error { return jo.Delete(t.Context(), "acme", metav1.DeleteOptions{DryRun: dry}) }},
		{"he deletes another's", rbac, func() error { return jo.Delete(t.Context(), "other", metav1.DeleteOptions{DryRun: dry}) }},
		{"he makes a Tenant", rbac, func() error {
			_, err := resourceOf(t, s, "tenants", "jo").Create(t.Context(), tenant(t, "mine", "{}"), metav1.CreateOptions{DryRun: dry})
			return err
		}},
		{"an operator writes what he likes", "", func() error {
			_, err := operator.Create(t.Context(), network(t, "any", "{type: vpc, tenant: other, infraAccess: direct, allowedNamespaces: {}}"),
				metav1.CreateOptions{DryRun: dry})
			return err
		}},
		{"a role that is stale: the Network has become another's", "you are no admin of Tenant other", func() error {
			if _, err := operator.Patch(t.Context(), "acme", types.MergePatchType, []byte(`{"spec":{"tenant":"other"}}`),
				metav1.PatchOptions{}); err != nil {
				return err
			}
			return jo.Delete(t.Context(), "acme", metav1.DeleteOptions{DryRun: dry})
		}},
		{"the controller writes another role", "whose names begin with atoll:tenant:", func() error {
			_, err := controllers.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
				metav1.CreateOptions{DryRun: dry})
			return err
		}},
		{"the controller deletes a role of the cluster's", "whose names begin with atoll:tenant:", func() error {
			return controllers.RbacV1().ClusterRoles().Delete(t.Context(), "view", metav1.DeleteOptions{DryRun: dry})
		}},
		{"the controller gives away what it has not", rbacEscalation, func() error {
			role := intake.TenantRole(roles[0])
			role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
			_, err := controllers.RbacV1().ClusterRoles().Update(t.Context(), role, metav1.UpdateOptions{DryRun: dry})
			return err
		}},
		{"control: without the policy a tenant's admin makes any Network", "", func() error {
			return without(t, admin, func(ctx context.Context) error {
				return create(ctx, "free", "{type: flat, tenant: other, infraAccess: direct, allowedNamespaces: {}}")
			}, "atoll-tenants")
		}},
	} {
		t.Run(step.what, func(t *testing.T) { expect(t, step.do(), step.refusal) })
	}
}

// rbacEscalation are RBAC's words.
const rbacEscalation = "attempting to grant RBAC permissions not currently held"
