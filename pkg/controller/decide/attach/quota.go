package attach

import (
	"iter"
	"maps"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// quotas holds the pods of each tenant's namespaces: those that hold an address, and those without one that are refused.
type quotas struct {
	holding pass.Index[lodging, model.PodKey]
	refused pass.Index[string, model.PodKey]
	// inside are the Networks of the addresses.
	inside pass.Index[string, string]
}

// lodging is where pods of a tenant's namespaces hold addresses.
type lodging struct{ tenant, network string }

// HeldBy counts the pods of a tenant's namespaces that hold an address, in whichever Network.
func (s *Stage) HeldBy(tenant string) (n int) {
	for network := range s.quotas.inside[tenant] {
		n += len(s.quotas.holding[lodging{tenant, network}])
	}
	return n
}

// NetworksOf are the Networks in which they hold one, in no order.
func (s *Stage) NetworksOf(tenant string) iter.Seq[string] { return maps.Keys(s.quotas.inside[tenant]) }

// full reports whether a tenant has as many pods as its quota allows.
func (s *Stage) full(tenant string) bool {
	t := s.Cluster.Tenants[tenant]
	return t != nil && t.Pods.Full(int64(s.HeldBy(tenant)))
}

// overQuota says that one more pod of a namespace is more than its tenant may have; nil when it is not.
func (s *Stage) overQuota(ns model.Namespace) *model.Problem {
	if !s.full(ns.Tenant()) {
		return nil
	}
	return new(model.Problemf(model.ReasonQuotaExceeded,
		"Tenant %q may have %d pods that hold an address (spec.quotas.pods), and has them: the pod gets its port when another "+
			"goes, or when the quota is raised",
		ns.Tenant(), s.Cluster.Tenants[ns.Tenant()].Pods.Hard))
}

// tally updates the counts after a decision about a pod; gone means that the pod was deleted. When the pod's tenant reaches its
// quota, or has room again, tally queues the tenant's refused pods.
func (s *Stage) tally(p *pod, gone bool) {
	tenant, held := "", p.held()
	holds := !gone && held != nil
	if ns := s.Cluster.Namespaces[p.Key.Namespace]; ns != nil {
		tenant = ns.Tenant()
	}
	if p.refusedOf != "" {
		s.quotas.refused.Drop(p.refusedOf, p.Key)
		p.refusedOf = ""
	}
	if !gone && !holds && p.problem != nil && tenant != "" {
		s.quotas.refused.Add(tenant, p.Key)
		p.refusedOf = tenant
	}
	var now lodging
	if holds && tenant != "" {
		now = lodging{tenant, held.Network}
	}
	if now == p.heldOf {
		return
	}
	for _, of := range []lodging{p.heldOf, now} {
		if of.tenant == "" {
			continue
		}
		before := s.full(of.tenant)
		if of == now {
			s.quotas.holding.Add(of, p.Key)
			s.quotas.inside.Add(of.tenant, of.network)
		} else if s.quotas.holding.Drop(of, p.Key); s.quotas.holding[of] == nil {
			s.quotas.inside.Drop(of.tenant, of.network)
		}
		if before != s.full(of.tenant) {
			s.queue.MarkAll(s.quotas.refused[of.tenant])
		}
		s.HeldChanged.Changed(of.tenant)
	}
	p.heldOf = now
}
