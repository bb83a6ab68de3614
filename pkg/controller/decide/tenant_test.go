package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func tenant(name string) model.Tenant {
	return model.Tenant{Name: name, UID: "uid-tenant-" + name, Generation: 1}
}

func (w *world) tenantCondition(name, kind string) model.Condition {
	for _, c := range w.tenants.statuses[name].Conditions {
		if c.Type == kind {
			return c
		}
	}
	return model.Condition{}
}

// TestATenantHasItsDefaultNetwork: it is made with the Tenant, pods of its namespaces join it, and it goes with the Tenant, once
// its pods have.
func TestATenantHasItsDefaultNetwork(t *testing.T) {
	w := newWorld()
	w.setTenant(tenant("acme"))
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	w.settle()
	home := w.networks["acme"]
	if home == nil || home.Tenant != "acme" || home.TenantUID != "uid-tenant-acme" {
		t.Fatalf("the default Network is %+v", home)
	}
	p := pod("shop", "p", "")
	w.setPod(p)
	w.settle()
	if a := w.attachment(p.Key); a == nil || a.Network != "acme" || !w.hasPort(p) {
		t.Fatalf("the pod has %+v", a)
	}
	want := model.TenantStatus{
		ObservedGeneration: 1, Phase: model.Ready, DefaultNetwork: "acme", Networks: 1, Namespaces: 1, Pods: 1,
		Isolation: &model.Isolation{Pods: model.Hard, DNS: model.Hard, Overall: model.Hard},
		Conditions: []model.Condition{
			{
				Type: "DNSReady", Unknown: true, Reason: "ClusterDNSNotFound",
				Message: `Network "acme": Service / does not exist, whose addresses kubelets tell pods to ask for names: make it, or name the right one in the AtollConfig (dns.service)`,
			},
			{Type: "NetworksReady", Status: true, Reason: "Ready", Message: "every Network of the Tenant is ready"},
			{Type: "Ready", Status: true, Reason: "Ready", Message: "the Networks of the Tenant are ready, and names are answered there"},
		},
	}
	if diff := cmp.Diff(want, w.tenants.statuses["acme"]); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(model.TenantRole{Tenant: "acme", TenantUID: "uid-tenant-acme", Networks: []string{"acme"}},
		w.tenants.roles["acme"]); diff != "" {
		t.Errorf("role (-want +got):\n%s", diff)
	}
	w.endTenant("acme")
	w.settle()
	if n := w.networks["acme"]; n == nil || !n.Deleting {
		t.Fatalf("the Network of a Tenant that goes: %+v", n)
	}
	if c := w.tenantCondition("acme", model.ConditionInUse); !c.Status || !strings.HasPrefix(c.Message, "1 Network must go first: acme.") {
		t.Errorf("InUse: %+v", c)
	}
	if s := w.tenants.statuses["acme"]; s.Phase != model.Terminating {
		t.Errorf("phase %s", s.Phase)
	}
	w.deletePod(p.Key)
	w.settle()
	if w.networks["acme"] != nil || w.tenants.objects["acme"] != nil || len(w.tenants.roles) > 0 {
		t.Errorf("left: %+v, %+v, %+v", w.networks["acme"], w.tenants.objects["acme"], w.tenants.roles)
	}
}

// TestADefaultNetworkIsMadeOnce: what its owner makes of it stays, and one that somebody deletes comes back.
func TestADefaultNetworkIsMadeOnce(t *testing.T) {
	w := newWorld()
	w.setTenant(tenant("acme"))
	w.settle()
	edited := *w.networks["acme"]
	edited.Egress, edited.Generation = model.EgressNone, 2
	w.setNetwork(edited)
	changed := tenant("acme")
	changed.Finalized, changed.Template, changed.Generation = true, `{"type":"flat"}`, 2
	w.setTenant(changed)
	w.settle()
	if n := w.networks["acme"]; n.Egress != model.EgressNone || w.patches != 1 {
		t.Errorf("%d Networks made; it is %+v", w.patches, n)
	}
	w.DeleteNetwork("acme", edited.UID)
	w.settle()
	if n := w.networks["acme"]; n == nil || n.UID == edited.UID {
		t.Errorf("after its end there is %+v", n)
	}
}

// TestATenantTouchesNoNetworkOfOthers: one of its name that is not its own stays as it is, and takes none of its pods; neither one of
// its own that it did not make goes with it.
func TestATenantTouchesNoNetworkOfOthers(t *testing.T) {
	w := newWorld()
	other := network("acme", "s", "10.0.0.0/24")
	other.Allowed = nil
	w.setNetwork(other)
	w.setTenant(tenant("acme"))
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	p := pod("shop", "p", "")
	w.setPod(p)
	w.settle()
	if c := w.tenantCondition("acme", model.ConditionNetworksReady); c.Status || c.Reason != model.ReasonNameTaken {
		t.Errorf("NetworksReady: %+v", c)
	}
	if s := w.tenants.statuses["acme"]; s.Phase != model.Failed || s.DefaultNetwork != "" {
		t.Errorf("status %+v", s)
	}
	if w.attachment(p.Key) != nil {
		t.Error("the pod is in a Network that is not its tenant's")
	}
	w.setNetwork(tenantNetwork("acme", "acme--db", "s", "10.0.0.0/24"))
	w.endTenant("acme")
	w.settle()
	if w.tenants.objects["acme"] == nil || w.networks["acme"].Deleting || w.networks["acme--db"].Deleting {
		t.Error("a Network that was not made for the Tenant goes with it, or the Tenant before it")
	}
	own := *w.networks["acme--db"]
	own.Deleting = true
	w.setNetwork(own)
	w.settle()
	if w.tenants.objects["acme"] != nil || w.networks["acme"] == nil {
		t.Error("the Tenant stays, or what is not its has gone")
	}
}

// TestQuotaOfNetworks: the default Network comes first, and then the oldest; what comes free is the next one's.
func TestQuotaOfNetworks(t *testing.T) {
	w := newWorld()
	limited := tenant("acme")
	limited.Networks = model.Quota{Bounded: true, Hard: 2}
	w.setTenant(limited)
	for i, name := range []string{"acme--a", "acme--b"} {
		n := tenantNetwork("acme", name, "s", "10.0.0.0/24")
		n.Created = n.Created.AddDate(-1, 0, -i)
		w.setNetwork(n)
	}
	w.settle()
	served := func() string {
		var out []string
		for _, name := range []string{"acme", "acme--a", "acme--b"} {
			if c := w.condition(name, model.ConditionReady); c.Status {
				out = append(out, name)
			} else if c.Reason != model.ReasonQuotaExceeded {
				t.Errorf("%s: %+v", name, c)
			}
		}
		return strings.Join(out, " ")
	}
	if got := served(); got != "acme acme--b" {
		t.Errorf("served: %s", got)
	}
	if c := w.tenantCondition("acme", model.ConditionReady); c.Status || c.Reason != model.ReasonQuotaExceeded {
		t.Errorf("the Tenant is %+v", c)
	}
	if diff := cmp.Diff([]model.QuotaStatus{{Resource: "networks", Used: 3, Hard: 2}}, w.tenants.statuses["acme"].Quotas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	raised := *w.tenants.objects["acme"]
	raised.Networks.Hard = 3
	w.setTenant(raised)
	w.settle()
	if got := served(); got != "acme acme--a acme--b" {
		t.Errorf("served with a higher quota: %s", got)
	}
}

// TestQuotaOfPods: who has an address keeps it, and the oldest of those that wait is the next.
func TestQuotaOfPods(t *testing.T) {
	w := newWorld()
	limited := tenant("acme")
	limited.Pods = model.Quota{Bounded: true, Hard: 2}
	w.setTenant(limited)
	w.setNetwork(tenantNetwork("acme", "acme--db", "s", "10.0.0.0/24"))
	w.setNamespace("shop", map[string]string{model.LabelTenant: "acme"})
	w.setNamespace("data", map[string]string{model.LabelTenant: "acme", model.LabelNetwork: "acme--db"})
	w.setNamespace("other", map[string]string{model.LabelTenant: "acme", model.LabelNetwork: "acme--db"})
	w.settle()
	var pods []model.Pod
	for i, ns := range []string{"shop", "data", "shop", "other"} {
		pods = append(pods, pod(ns, fmt.Sprint("p", i), ""))
		w.setPod(pods[i])
	}
	w.settle()
	attached := func() string {
		out := ""
		for _, p := range pods {
			if w.pods[p.Key] != nil && w.hasPort(p) {
				out += p.Key.Name + " "
			}
		}
		return out
	}
	if got := attached(); got != "p0 p1 " {
		t.Errorf("attached: %s", got)
	}
	if told := w.eventsOf("shop/p2"); len(told) != 1 || told[0].Reason != model.ReasonQuotaExceeded {
		t.Errorf("p2 was told %+v", told)
	}
	w.deletePod(pods[1].Key)
	w.settle()
	if got := attached(); got != "p0 p2 " {
		t.Errorf("attached when p1 has gone: %s", got)
	}
	lowered := *w.tenants.objects["acme"]
	lowered.Pods.Hard = 0
	w.setTenant(lowered)
	w.settle()
	if got := attached(); got != "p0 p2 " {
		t.Errorf("attached with a quota of none: %s", got)
	}
	if s := w.tenants.statuses["acme"]; s.Pods != 2 {
		t.Errorf("counted: %+v", s)
	}
	// A namespace that goes to another tenant takes its pods along.
	w.setNamespace("shop", map[string]string{model.LabelTenant: "others"})
	lowered.Pods.Hard = 1
	w.setTenant(lowered)
	w.settle()
	if got := attached(); got != "p3 " {
		t.Errorf("attached when the namespace is another's: %s", got)
	}
	lowered.Pods = model.Quota{}
	w.setTenant(lowered)
	w.settle()
	if s := w.tenants.statuses["acme"]; s.Pods != 1 || len(s.Quotas) != 0 {
		t.Errorf("without a quota: %+v", s)
	}
}
