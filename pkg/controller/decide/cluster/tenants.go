package cluster

import (
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TakeTenants takes Tenants in; nil ones have gone.
func (c *Cluster) TakeTenants(changed map[string]*model.Tenant) {
	for _, name := range pass.Sorted(changed) {
		if delete(c.Tenants, name); changed[name] != nil {
			c.Tenants[name] = changed[name]
		}
		c.TenantChanged.Changed(name)
	}
}

// Share names what a namespace counts as where tenants share something: its tenant, or the namespace itself if it has none.
func (c *Cluster) Share(namespace string) string {
	if ns := c.Namespaces[namespace]; ns != nil && ns.Tenant() != "" {
		return "tenant " + ns.Tenant()
	}
	return "namespace " + namespace
}
