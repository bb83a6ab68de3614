//go:build integration

package kube

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestTenants: with the controller's own rights, what is decided about a Tenant is written: its default Network, which it owns,
// its finalizer, its status, and its admins' role; and what somebody else makes of the role is undone.
func TestTenants(t *testing.T) {
	l := newLab(t)
	admin, err := newClients(l.server.RESTConfig())
	must(t, err)
	api := admin.network
	made := &v1alpha1.Tenant{}
	must(t, api.Post().Resource("tenants").Body(&v1alpha1.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "acme"},
		Spec:       v1alpha1.TenantSpec{ServiceCIDRs: []v1alpha1.CIDR{"10.9.0.0/16"}, Admins: []v1alpha1.TenantAdmin{{Kind: "User", Name: "jo"}}},
	}).Do(l.ctx).Into(made))
	l.until("the Tenant", func(c model.Changes) bool { return c.Tenants["acme"] != nil })
	seen := l.seen.Tenants["acme"]
	uid := string(made.UID)
	if seen.UID != uid || len(seen.Admins) != 1 || seen.Finalized {
		t.Fatalf("the feed has %+v", seen)
	}

	home := model.DefaultNetwork{Tenant: "acme", TenantUID: uid, Template: seen.Template, Fallback: seen.Fallback}
	role := &model.TenantRole{Tenant: "acme", TenantUID: uid, Networks: []string{"acme"}, Admins: seen.Admins}
	l.writer.WriteTenantFinalizer("acme", uid, true)
	l.writer.MakeNetwork(home)
	l.writer.WriteTenantRoles(map[string]*model.TenantRole{"acme": role})
	l.writer.WriteTenantStatus("acme", uid, model.TenantStatus{
		Phase: model.Ready, ObservedGeneration: 1, DefaultNetwork: "acme", Networks: 1, Isolation: &model.Isolation{
			Pods: model.Hard, DNS: model.Hard, Overall: model.Hard,
		},
	})
	l.until("its Network and its finalizer", func(c model.Changes) bool {
		return c.Networks["acme"] != nil && c.Networks["acme"].TenantUID == uid && c.Tenants["acme"].Finalized
	})
	// Made twice it is made once.
	l.writer.MakeNetwork(home)
	binding := func() *rbacv1.ClusterRoleBinding {
		b := &rbacv1.ClusterRoleBinding{}
		if err := admin.rbac.Get().Resource("clusterrolebindings").Name("atoll:tenant:acme").Do(l.ctx).Into(b); err != nil {
			return nil
		}
		return b
	}
	until := func(what string, met func() bool) {
		t.Helper()
		for !met() {
			if l.ctx.Err() != nil {
				t.Fatalf("%s did not happen", what)
			}
		}
	}
	until("the binding", func() bool { b := binding(); return b != nil && len(b.Subjects) == 1 && b.Subjects[0].Name == "jo" })
	l.flush()
	shown := &v1alpha1.Tenant{}
	must(t, api.Get().Resource("tenants").Name("acme").Do(l.ctx).Into(shown))
	if shown.Status.Phase != "Ready" || shown.Status.DefaultNetwork != "acme" || shown.Status.Isolation == nil ||
		shown.Status.Isolation.Overall != v1alpha1.Hard {
		t.Errorf("status %+v", shown.Status)
	}
	var network v1alpha1.Network
	must(t, api.Get().Resource("networks").Name("acme").Do(l.ctx).Into(&network))
	if network.Spec.Tenant != "acme" || network.Spec.Type != "vpc" || len(network.Spec.ServiceCIDRs) != 1 {
		t.Errorf("the default Network is %+v", network.Spec)
	}

	must(t, admin.rbac.Delete().Resource("clusterroles").Name("atoll:tenant:acme").Do(l.ctx).Error())
	changed := binding()
	changed.Subjects = nil
	must(t, admin.rbac.Put().Resource("clusterrolebindings").Name(changed.Name).Body(changed).Do(l.ctx).Error())
	until("the role and the binding as they were", func() bool {
		r := &rbacv1.ClusterRole{}
		err := admin.rbac.Get().Resource("clusterroles").Name("atoll:tenant:acme").Do(l.ctx).Into(r)
		b := binding()
		return err == nil && len(r.Rules) == 6 && b != nil && len(b.Subjects) == 1
	})

	// It goes: the Network, the finalizer, the roles.
	must(t, api.Delete().Resource("tenants").Name("acme").Do(l.ctx).Error())
	l.until("the Tenant's end", func(c model.Changes) bool { return c.Tenants["acme"].Deleting })
	l.writer.DeleteNetwork("acme", string(network.UID))
	l.until("the Network's end", func(c model.Changes) bool { return c.Networks["acme"] == nil })
	l.writer.WriteTenantFinalizer("acme", uid, false)
	l.until("the Tenant has gone", func(c model.Changes) bool { return c.Tenants["acme"] == nil })
	l.writer.WriteTenantRoles(map[string]*model.TenantRole{"acme": nil})
	until("no role is left", func() bool {
		err := admin.rbac.Get().Resource("clusterroles").Name("atoll:tenant:acme").Do(l.ctx).Error()
		return apierrors.IsNotFound(err) && binding() == nil
	})
}
