package intake

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestTenant(t *testing.T) {
	in := &v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{
			Name: "acme", UID: "u", Generation: 3, Finalizers: []string{model.TenantFinalizer}, DeletionTimestamp: new(metav1.Now()),
		},
		Spec: v1alpha1.TenantSpec{
			NetworkTemplate: &v1alpha1.NetworkTemplate{Egress: v1alpha1.EgressNone},
			ServiceCIDRs:    []v1alpha1.CIDR{"10.9.0.0/16"},
			Admins:          []v1alpha1.TenantAdmin{{Kind: "ServiceAccount", Name: "deployer", Namespace: "shop"}},
			Quotas:          v1alpha1.TenantQuotas{Networks: new(int32(2)), Pods: new(int32(-1)), Services: new(int32(7)), Gateways: new(int32(0))},
		},
		Status: v1alpha1.TenantStatus{Isolation: &v1alpha1.Isolation{Overall: v1alpha1.Hard}},
	}
	want := &model.Tenant{
		Name: "acme", UID: "u", Generation: 3, Template: `{"egress":"none"}`, Fallback: `{"serviceCIDRs":["10.9.0.0/16"]}`,
		Admins:   []model.TenantAdmin{{Kind: "ServiceAccount", Namespace: "shop", Name: "deployer"}},
		Networks: model.Quota{Bounded: true, Hard: 2}, Pods: model.Quota{Bounded: true},
		Services: model.Quota{Bounded: true, Hard: 7}, Gateways: model.Quota{Bounded: true}, Isolated: model.Hard, Deleting: true,
		Finalized: true,
	}
	if diff := cmp.Diff(want, Tenant(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDefaultNetwork: what the template leaves open the Tenant says, and what it says counts.
func TestDefaultNetwork(t *testing.T) {
	fallback := NetworkTemplate(
		&v1alpha1.NetworkTemplate{ServiceCIDRs: []v1alpha1.CIDR{"10.9.0.0/16"}, DNS: &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNone}})
	for _, test := range []struct {
		what     string
		template *v1alpha1.NetworkTemplate
		fallback model.NetworkTemplate
		want     v1alpha1.NetworkSpec
	}{
		{"nothing is said", nil, "", v1alpha1.NetworkSpec{Type: v1alpha1.NetworkVPC}},
		{
			"the template leaves it open", &v1alpha1.NetworkTemplate{Egress: v1alpha1.EgressNone}, fallback,
			v1alpha1.NetworkSpec{
				Type: v1alpha1.NetworkVPC, Egress: v1alpha1.EgressNone, ServiceCIDRs: []v1alpha1.CIDR{"10.9.0.0/16"},
				DNS: &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNone},
			},
		},
		{
			"the template says it",
			&v1alpha1.NetworkTemplate{ServiceCIDRs: []v1alpha1.CIDR{"10.8.0.0/16"}, DNS: &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNode}}, fallback,
			v1alpha1.NetworkSpec{
				Type: v1alpha1.NetworkVPC, ServiceCIDRs: []v1alpha1.CIDR{"10.8.0.0/16"}, DNS: &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNode},
			},
		},
		{
			"a flat one has no service ranges", &v1alpha1.NetworkTemplate{Type: v1alpha1.NetworkFlat}, fallback,
			v1alpha1.NetworkSpec{Type: v1alpha1.NetworkFlat, DNS: &v1alpha1.NetworkDNS{Mode: v1alpha1.DNSNone}},
		},
	} {
		t.Run(test.what, func(t *testing.T) {
			got, err := DefaultNetwork(model.DefaultNetwork{
				Tenant: "acme", TenantUID: "u", Template: NetworkTemplate(test.template), Fallback: test.fallback,
			})
			if err != nil {
				t.Fatal(err)
			}
			test.want.Tenant = "acme"
			if diff := cmp.Diff(test.want, got.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if read := Network(got); read.Name != "acme" || read.TenantUID != "u" {
				t.Errorf("it is read as %+v", read)
			}
		})
	}
}

// TestTenantRole: a Tenant without Networks gives its admins no verb on those of others, as a rule without names would.
func TestTenantRole(t *testing.T) {
	for networks, rules := range map[int]int{0: 4, 1: 6} {
		role := TenantRole(model.TenantRole{Tenant: "acme", Networks: make([]string, networks)})
		if len(role.Rules) != rules {
			t.Errorf("with %d Networks the role has %+v", networks, role.Rules)
		}
		for _, rule := range role.Rules {
			// A list of the inspection API contains only what the user may get.
			lists := cmp.Equal(rule.APIGroups, []string{"inspect.atoll.dev"}) && cmp.Equal(rule.Verbs, []string{"list"})
			// The same holds for users who list or watch flows.
			lists = lists ||
				cmp.Equal(rule.APIGroups, []string{"inspect.atoll.dev"}) && cmp.Equal(rule.Resources, []string{"flows"}) &&
					cmp.Equal(rule.Verbs, []string{"list", "watch"})
			if len(rule.ResourceNames) == 0 && !lists && !cmp.Equal(rule.Verbs, []string{"create"}) {
				t.Errorf("a rule about all: %+v", rule)
			}
		}
	}
	binding := TenantBinding(model.TenantRole{
		Tenant: "acme", Admins: []model.TenantAdmin{
			{Kind: "Group", Name: "acme-admins"}, {Kind: "ServiceAccount", Namespace: "shop", Name: "deployer"},
		},
	})
	if binding.RoleRef.Name != "atoll:tenant:acme" || binding.Subjects[0].APIGroup == "" || binding.Subjects[1].APIGroup != "" ||
		binding.Subjects[1].Namespace != "shop" {
		t.Errorf("the binding is %+v", binding)
	}
}
