package intake

import (
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	inspectv1alpha1 "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxAdmins bounds what is read of a Tenant's admins.
const maxAdmins = 256

// Tenant reads a Tenant object.
func Tenant(in *v1alpha1.Tenant) *model.Tenant {
	out := &model.Tenant{
		Name:       in.Name,
		UID:        string(in.UID),
		Generation: in.Generation,
		Template:   NetworkTemplate(in.Spec.NetworkTemplate),
		Networks:   quota(in.Spec.Quotas.Networks),
		Pods:       quota(in.Spec.Quotas.Pods),
		Services:   quota(in.Spec.Quotas.Services),
		Gateways:   quota(in.Spec.Quotas.Gateways),
		Isolated:   isolated(in.Status.Isolation),
		Deleting:   in.DeletionTimestamp != nil,
		Finalized:  slices.Contains(in.Finalizers, model.TenantFinalizer),
	}
	if len(in.Spec.ServiceCIDRs) > 0 || in.Spec.DNS != nil {
		out.Fallback = NetworkTemplate(&v1alpha1.NetworkTemplate{ServiceCIDRs: in.Spec.ServiceCIDRs, DNS: in.Spec.DNS})
	}
	for _, a := range in.Spec.Admins[:min(len(in.Spec.Admins), maxAdmins)] {
		out.Admins = append(out.Admins, model.TenantAdmin{Kind: a.Kind, Namespace: a.Namespace, Name: a.Name})
	}
	return out
}

// quota reads a bound. A negative one, which the schema refuses, lets nothing through.
func quota(in *int32) model.Quota {
	if in == nil {
		return model.Quota{}
	}
	return model.Quota{Bounded: true, Hard: int64(max(*in, 0))}
}

// NetworkTemplate keeps a template as it was written; nil is none.
func NetworkTemplate(in *v1alpha1.NetworkTemplate) model.NetworkTemplate {
	if in == nil {
		return ""
	}
	return model.NetworkTemplate(jsonOf(in))
}

// DefaultNetwork is the Network that is made for a Tenant, which owns it: it goes with it. What the template leaves open the
// Tenant itself says, and the schema the rest.
func DefaultNetwork(want model.DefaultNetwork) (*v1alpha1.Network, error) {
	var template, fallback v1alpha1.NetworkTemplate
	for _, read := range []struct {
		text model.NetworkTemplate
		into *v1alpha1.NetworkTemplate
	}{{want.Template, &template}, {want.Fallback, &fallback}} {
		if read.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(read.text), read.into); err != nil {
			return nil, fmt.Errorf("read template of Network %q: %w", want.Tenant, err)
		}
	}
	spec := v1alpha1.NetworkSpec{
		Type: template.Type, Tenant: want.Tenant, Subnets: template.Subnets, ServiceCIDRs: template.ServiceCIDRs,
		Egress: template.Egress, InfraAccess: template.InfraAccess, InfraIngress: template.InfraIngress, DNS: template.DNS,
	}
	if spec.Type == "" {
		spec.Type = v1alpha1.NetworkVPC
	}
	// A flat Network has no service ranges.
	if len(spec.ServiceCIDRs) == 0 && spec.Type == v1alpha1.NetworkVPC {
		spec.ServiceCIDRs = fallback.ServiceCIDRs
	}
	if spec.DNS == nil {
		spec.DNS = fallback.DNS
	}
	return &v1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Name: want.Tenant, OwnerReferences: ownedBy(want.Tenant, want.TenantUID)},
		Spec:       spec,
	}, nil
}

// ownedBy says that an object goes with a Tenant.
func ownedBy(tenant, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Tenant", Name: tenant, UID: types.UID(uid),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
}

// ownerOf is the UID of the Tenant that a Network was made for; empty for others.
func ownerOf(in *v1alpha1.Network) string {
	for _, o := range in.OwnerReferences {
		if o.Kind == "Tenant" && o.APIVersion == v1alpha1.SchemeGroupVersion.String() && o.Name == in.Name && ptr.Deref(o.Controller, false) {
			return string(o.UID)
		}
	}
	return ""
}

// LabelsOfRoles are on the roles and bindings that the controller keeps for Tenants; with them it finds its own.
func LabelsOfRoles() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "atoll-controller", "app.kubernetes.io/component": "tenant"}
}

// RoleName is the name of the ClusterRole of a Tenant's admins, and of its binding. The admission policy knows its beginning.
func RoleName(tenant string) string { return "atoll:tenant:" + tenant }

// TenantRole is what a Tenant's admins may do: make Networks, write and read those that are the Tenant's, and see the Tenant. That what
// they make is the Tenant's, the admission policy atoll-tenants sees to, which asks for the verb administer.
func TenantRole(want model.TenantRole) *rbacv1.ClusterRole {
	groups := []string{v1alpha1.GroupName}
	rules := []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{"networks"}, Verbs: []string{"create"}},
		{
			APIGroups: groups, Resources: []string{"tenants"}, ResourceNames: []string{want.Tenant},
			Verbs: []string{"get", "list", "watch", "administer"},
		},
	}
	// A user who may list the inspection resources of Networks sees those Networks that RBAC lets the user get.
	inspected := []string{inspectv1alpha1.GroupName}
	rules = append(rules, rbacv1.PolicyRule{APIGroups: inspected, Resources: inspectv1alpha1.NetworkResources(), Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: inspected, Resources: []string{inspectv1alpha1.ResourceFlows}, Verbs: []string{"list", "watch"}})
	// A rule without names would be about all.
	if len(want.Networks) > 0 {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: groups, Resources: []string{"networks"}, ResourceNames: want.Networks,
			Verbs: []string{"get", "list", "watch", "update", "patch", "delete"},
		}, rbacv1.PolicyRule{
			APIGroups: inspected, Resources: append(inspectv1alpha1.NetworkResources(), inspectv1alpha1.ResourceFlows), ResourceNames: want.Networks,
			Verbs: []string{"get"},
		})
	}
	return &rbacv1.ClusterRole{ObjectMeta: roleMeta(want), Rules: rules}
}

// TenantBinding gives that role to the Tenant's admins.
func TenantBinding(want model.TenantRole) *rbacv1.ClusterRoleBinding {
	out := &rbacv1.ClusterRoleBinding{
		ObjectMeta: roleMeta(want),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: RoleName(want.Tenant)},
	}
	for _, a := range want.Admins {
		subject := rbacv1.Subject{Kind: a.Kind, Name: a.Name, Namespace: a.Namespace}
		if a.Kind != rbacv1.ServiceAccountKind {
			subject.APIGroup = rbacv1.GroupName
		}
		out.Subjects = append(out.Subjects, subject)
	}
	return out
}

func roleMeta(want model.TenantRole) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: RoleName(want.Tenant), Labels: LabelsOfRoles(), OwnerReferences: ownedBy(want.Tenant, want.TenantUID),
	}
}

// TenantStatus is the status to show for what the controller reports; see NetworkStatus.
func TenantStatus(old v1alpha1.TenantStatus, report model.TenantStatus, now metav1.Time) v1alpha1.TenantStatus {
	out := v1alpha1.TenantStatus{
		Phase: v1alpha1.NetworkPhase(report.Phase), ObservedGeneration: report.ObservedGeneration, DefaultNetwork: report.DefaultNetwork,
		Networks: report.Networks, Namespaces: report.Namespaces, Pods: report.Pods,
		Services: report.Services, Gateways: report.Gateways, Isolation: isolation(report.Isolation),
	}
	for _, c := range report.Conditions {
		out.Conditions = append(out.Conditions, condition(old.Conditions, c, report.ObservedGeneration, now))
	}
	for _, q := range report.Quotas {
		out.Quotas = append(out.Quotas, v1alpha1.TenantQuotaStatus{Resource: q.Resource, Used: q.Used, Hard: q.Hard})
	}
	return out
}
