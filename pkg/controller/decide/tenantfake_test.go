package decide_test

import (
	"fmt"
	"maps"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// tenancy is what the fake API server holds of Tenants, and what is written of them.
type tenancy struct {
	objects  map[string]*model.Tenant
	statuses map[string]model.TenantStatus
	roles    map[string]model.TenantRole
	made     int
}

func newTenancy() tenancy {
	return tenancy{objects: map[string]*model.Tenant{}, statuses: map[string]model.TenantStatus{}, roles: map[string]model.TenantRole{}}
}

func (c *cluster) setTenant(t model.Tenant) {
	c.change(func() { c.tenants.objects[t.Name] = &t; c.changes.Tenants[t.Name] = &t })
}

// endTenant deletes a Tenant, which stays for as long as it has its finalizer.
func (c *cluster) endTenant(name string) {
	c.change(func() {
		if t := c.tenants.objects[name]; t != nil {
			gone := *t
			gone.Deleting = true
			if c.tenants.objects[name], c.changes.Tenants[name] = &gone, &gone; !t.Finalized {
				delete(c.tenants.objects, name)
				c.changes.Tenants[name] = nil
			}
		}
	})
}

func (c *cluster) WriteTenantStatus(name, uid string, s model.TenantStatus) {
	c.mu.Lock()
	t := c.tenants.objects[name]
	if t != nil && t.UID == uid {
		c.tenants.statuses[name] = s
	}
	c.mu.Unlock()
	if t != nil && t.UID == uid && t.Isolated != overall(s.Isolation) {
		updated := *t
		updated.Isolated = overall(s.Isolation)
		c.setTenant(updated)
	}
}

func (c *cluster) WriteTenantFinalizer(name, uid string, present bool) {
	c.change(func() {
		t := c.tenants.objects[name]
		if t == nil || t.UID != uid || present && t.Deleting {
			return
		}
		if !present && t.Deleting {
			delete(c.tenants.objects, name)
			c.changes.Tenants[name] = nil
			return
		}
		updated := *t
		updated.Finalized = present
		c.tenants.objects[name], c.changes.Tenants[name] = &updated, &updated
	})
}

func (c *cluster) MakeNetwork(want model.DefaultNetwork) {
	c.change(func() {
		if c.networks[want.Tenant] != nil {
			return
		}
		c.patches++
		c.tenants.made++
		n := tenantNetwork(want.Tenant, want.Tenant, "s", "10.0.0.0/29")
		n.UID, n.TenantUID, n.Created, n.Generation = fmt.Sprintf("uid-%s-for-it-%d", want.Tenant, c.tenants.made), want.TenantUID, time.Unix(2,
			0), 1
		c.networks[n.Name], c.changes.Networks[n.Name] = &n, &n
	})
}

func (c *cluster) DeleteNetwork(name, uid string) {
	c.change(func() {
		n := c.networks[name]
		if n == nil || n.UID != uid || n.Deleting {
			return
		}
		c.patches++
		gone := *n
		gone.Deleting = true
		if c.networks[name], c.changes.Networks[name] = &gone, &gone; !n.Finalized {
			delete(c.networks, name)
			c.changes.Networks[name] = nil
		}
	})
}

func (c *cluster) WriteTenantRoles(changed map[string]*model.TenantRole) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, role := range changed {
		if delete(c.tenants.roles, name); role != nil {
			c.tenants.roles[name] = *role
		}
	}
}

// tenantStatuses are of the Tenants that are there.
func (c *cluster) tenantStatuses() map[string]model.TenantStatus {
	out := map[string]model.TenantStatus{}
	for name := range c.tenants.objects {
		out[name] = c.tenants.statuses[name]
	}
	return out
}

// cloned are the same Tenants, of which nobody has said anything.
func (t tenancy) cloned() tenancy {
	out := newTenancy()
	maps.Copy(out.objects, t.objects)
	return out
}
