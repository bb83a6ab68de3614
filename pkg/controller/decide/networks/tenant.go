package networks

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// OfTenant are the names of the Networks that belong to a tenant, sorted.
func (s *Stage) OfTenant(tenant string) []string { return pass.Sorted(s.byTenant[tenant]) }

// Model is a Network as its owner wrote it; nil when there is none of that name.
func (s *Stage) Model(name string) *model.Network {
	if n := s.Get(name); n != nil {
		return n.Model
	}
	return nil
}

// Conditions are those that were last reported of a Network; none while nothing was. The caller does not change them.
func (s *Stage) Conditions(name string) []model.Condition {
	if n := s.Get(name); n != nil {
		return n.reported
	}
	return nil
}

// indexTenant enters whose Network one is now, and has those planned anew whose place in a quota may be another.
func (s *Stage) indexTenant(replan map[string]struct{}, n *Network, m *model.Network) {
	before, now := tenantOf(n.Model), tenantOf(m)
	if before != "" && before != now {
		s.byTenant.Drop(before, n.Name)
	}
	if now != "" {
		s.byTenant.Add(now, n.Name)
	}
	for _, tenant := range []string{before, now} {
		if t := s.Cluster.Tenants[tenant]; t != nil && t.Networks.Bounded {
			maps.Copy(replan, s.byTenant[tenant])
		}
	}
}

func tenantOf(m *model.Network) string {
	if m == nil {
		return ""
	}
	return m.Tenant
}

// tenantChanged has a Tenant's Networks planned anew if its quota is another.
func (s *Stage) tenantChanged(tenant string) {
	var quota model.Quota
	if t := s.Cluster.Tenants[tenant]; t != nil {
		quota = t.Networks
	}
	if s.quotas[tenant] == quota {
		return
	}
	if delete(s.quotas, tenant); quota.Bounded {
		s.quotas[tenant] = quota
	}
	maps.Copy(s.requoted, s.byTenant[tenant])
}

// overQuota returns a problem when a Network is one more than its tenant may have. A tenant's default Network comes before its
// others, and the older before the younger. The cluster's default Network belongs to no tenant.
func (s *Stage) overQuota(n *Network) *model.Problem {
	t := s.Cluster.Tenants[n.Model.Tenant]
	if t == nil || !t.Networks.Bounded || n.Default {
		return nil
	}
	before := int64(0)
	for name := range s.byTenant[t.Name] {
		if other := s.networks[name]; !other.Default && comesBefore(other.Model, n.Model) {
			before++
		}
	}
	if !t.Networks.Full(before) {
		return nil
	}
	return new(model.Problemf(model.ReasonQuotaExceeded,
		"nothing of this Network is served: Tenant %q may have %s (spec.quotas.networks), and has others that come before it; "+
			"delete one of them or ask for more",
		t.Name, model.Count(int(t.Networks.Hard), "Network")))
}

// comesBefore orders the Networks of one tenant.
func comesBefore(a, b *model.Network) bool {
	later := func(m *model.Network) int {
		if m.Name == m.Tenant {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(later(a), later(b)), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name)) < 0
}

// noteReported keeps what a Network says of itself, and tells those who repeat it.
func (s *Stage) noteReported(n *Network, status model.NetworkStatus) {
	var said []model.Condition
	for _, c := range status.Conditions {
		if c.Type == model.ConditionReady || c.Type == model.ConditionDNSReady {
			said = append(said, c)
		}
	}
	s.tellIsolation(n, status.Isolation)
	if outward := s.isolation(n).towardsTenants(); !slices.Equal(said, n.reported) || !reflect.DeepEqual(outward, n.outward) {
		n.reported, n.outward = said, outward
		s.Reported.Changed(n.Name)
	}
}
