package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// tenantWorkers is how many writes of each kind about Tenants run at once.
const tenantWorkers = 2

// tenantWriter writes what is decided about Tenants.
type tenantWriter struct {
	clients    clients
	events     *events
	known      *statuses[string, v1alpha1.TenantStatus]
	statuses   *outbox[string, decided[model.TenantStatus]]
	finalizers *outbox[string, decided[bool]]
	networks   *outbox[string, homeWish]
	roles      *upkeep[*rbacv1.ClusterRole, string, model.TenantRole, string]
	bindings   *upkeep[*rbacv1.ClusterRoleBinding, string, model.TenantRole, string]

	mu sync.Mutex
	// told is what was last handed over of each Tenant: counts alone are not pressed for time.
	told map[string]decided[model.TenantStatus]
}

// homeWish is what is to become of a Tenant's default Network: made, or that with a UID deleted.
type homeWish struct {
	make   *model.DefaultNetwork
	delete string
}

func (w *Writer) newTenants() *tenantWriter {
	t := &tenantWriter{
		clients: w.clients, events: w.events, known: newStatuses[string, v1alpha1.TenantStatus](), told: map[string]decided[model.TenantStatus]{},
	}
	t.statuses = newOutbox(&w.boxes, "tenant", tenantWorkers, t.patchStatus)
	t.finalizers = newOutbox(&w.boxes, "tenantfinalizer", tenantWorkers, t.patchFinalizer)
	t.networks = newOutbox(&w.boxes, "defaultnetwork", tenantWorkers, t.writeNetwork)
	selector := labels.Set(intake.LabelsOfRoles()).String()
	t.bindings = &upkeep[*rbacv1.ClusterRoleBinding, string, model.TenantRole, string]{
		client: w.clients.rbac, resource: "clusterrolebindings", hold: textOf[*rbacv1.ClusterRoleBinding],
		object: func(_ string, r *model.TenantRole) *rbacv1.ClusterRoleBinding { return intake.TenantBinding(*r) },
		same:   func(want *rbacv1.ClusterRoleBinding, have string) bool { return textOf(want) == have },
	}
	t.bindings.start(&w.boxes, "tenantbinding", tenantWorkers, byName, selector)
	t.roles = &upkeep[*rbacv1.ClusterRole, string, model.TenantRole, string]{
		client: w.clients.rbac, resource: "clusterroles", hold: textOf[*rbacv1.ClusterRole],
		object: func(_ string, r *model.TenantRole) *rbacv1.ClusterRole { return intake.TenantRole(*r) },
		same:   func(want *rbacv1.ClusterRole, have string) bool { return textOf(want) == have },
		// The API server takes no binding of a role that is not there.
		arrived: t.bindings.look,
	}
	t.roles.start(&w.boxes, "tenantrole", tenantWorkers, byName, selector)
	return t
}

// textOf is what of a role or a binding is compared with what is wanted.
func textOf[O object](o O) string {
	var what any
	switch o := any(o).(type) {
	case *rbacv1.ClusterRole:
		what = []any{o.Rules, o.AggregationRule}
	case *rbacv1.ClusterRoleBinding:
		what = []any{o.Subjects, o.RoleRef}
	}
	text, err := json.Marshal([]any{o.GetLabels(), o.GetOwnerReferences(), what})
	if err != nil {
		return "" // strings and lists of them always marshal
	}
	return string(text)
}

// WriteTenantStatus shows a status on the Tenant with that UID. Counts go once per second.
func (w *Writer) WriteTenantStatus(name, uid string, s model.TenantStatus) {
	t := w.tenants
	t.mu.Lock()
	old, had := t.told[name]
	t.told[name] = decided[model.TenantStatus]{uid, s}
	t.mu.Unlock()
	delay := countsEvery
	if !had || old.uid != uid || old.value.Phase != s.Phase || old.value.ObservedGeneration != s.ObservedGeneration ||
		!sameConditions(old.value.Conditions, s.Conditions) ||
		!reflect.DeepEqual(old.value.Isolation, s.Isolation) {
		delay = 0
	}
	t.statuses.put(name, decided[model.TenantStatus]{uid, s}, delay)
}

func (t *tenantWriter) patchStatus(ctx context.Context, name string, want decided[model.TenantStatus]) error {
	return changeStatus(ctx, t.target(name, want.uid), t.known, name,
		func(old v1alpha1.TenantStatus) v1alpha1.TenantStatus {
			return intake.TenantStatus(old, want.value, metav1.Now())
		},
		&v1alpha1.Tenant{}, func(o *v1alpha1.Tenant) v1alpha1.TenantStatus { return o.Status })
}

// WriteTenantFinalizer puts our finalizer on the Tenant with that UID, or takes it away. On one that is being deleted it is not put.
func (w *Writer) WriteTenantFinalizer(name, uid string, present bool) {
	w.tenants.finalizers.put(name, decided[bool]{uid, present}, 0)
}

func (t *tenantWriter) patchFinalizer(ctx context.Context, name string, want decided[bool]) error {
	return setFinalizer(ctx, t.target(name, want.uid), &v1alpha1.Tenant{}, model.TenantFinalizer, want.value)
}

func (t *tenantWriter) target(name, uid string) target {
	return target{client: t.clients.network, resource: "tenants", name: name, uid: uid}
}

// MakeNetwork makes a Tenant's default Network, unless there is one of its name.
func (w *Writer) MakeNetwork(want model.DefaultNetwork) {
	w.tenants.networks.put(want.Tenant, homeWish{make: &want}, 0)
}

// DeleteNetwork deletes the Network with that UID.
func (w *Writer) DeleteNetwork(name, uid string) {
	w.tenants.networks.put(name, homeWish{delete: uid}, 0)
}

func (t *tenantWriter) writeNetwork(ctx context.Context, name string, wish homeWish) error {
	if wish.make == nil {
		uid := types.UID(wish.delete)
		err := t.clients.network.Delete().Resource("networks").Name(name).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}).Do(ctx).Error()
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return errGone
		}
		return wrapped("delete network", err)
	}
	network, err := intake.DefaultNetwork(*wish.make)
	if err != nil {
		return err
	}
	err = t.clients.network.Post().Resource("networks").Param("fieldManager", component).Body(network).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return errGone // The watch tells of it.
	}
	if refuses(err) {
		t.events.send(model.Tenant{Name: name, UID: wish.make.TenantUID}.Ref(), model.Problemf(model.ReasonTemplateRefused,
			"the default Network cannot be made from the template: %s. It is tried again; change the Tenant, or the "+
				"AtollConfig's tenantNetworkTemplate", err))
	}
	return wrapped("make network", err)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// WriteTenantRoles keeps the ClusterRoles of Tenants' admins and their bindings, by the Tenants' names; nil takes them away. The first call
// names all that are wanted: what the API server holds of ours beside them is deleted.
func (w *Writer) WriteTenantRoles(changed map[string]*model.TenantRole) {
	byName := map[string]*model.TenantRole{}
	for tenant, role := range changed {
		if byName[intake.RoleName(tenant)] = role; role == nil {
			w.tenants.forget(tenant)
		}
	}
	w.tenants.roles.want(byName)
	w.tenants.bindings.want(byName)
}

// forget drops what is known, and wanted, of a Tenant that has gone.
func (t *tenantWriter) forget(tenant string) {
	t.networks.drop(tenant)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, tenant)
}

// tenant keeps the status aside for the Writer, which must not write what is there already.
func (f *Feed) tenant(in *v1alpha1.Tenant) *model.Tenant {
	f.tenants.observe(in.Name, in, in.Status)
	return intake.Tenant(in)
}
