package attach

import (
	"fmt"

	"github.com/atoll-net/atoll/pkg/decide/pass"
	"github.com/atoll-net/atoll/pkg/model"
)

// quotas know, of each tenant, the pods of his namespaces that hold an address, and those that hold none and are refused.
type quotas struct {
	holding, refused pass.Index[string, model.PodKey]
}

// HeldBy counts the pods of a tenant's namespaces that hold an address, in whichever Network.
func (s *Stage) HeldBy(tenant string) int { return len(s.quotas.holding[tenant]) }

// full reports whether a tenant has as many pods as he may have.
func (s *Stage) full(tenant string) bool {
	t := s.Cluster.Tenants[tenant]
	return t != nil && t.Pods.Full(int64(len(s.quotas.holding[tenant])))
}

// overQuota says that one more pod of a namespace is more than its tenant may have; nil when it is not.
func (s *Stage) overQuota(ns model.Namespace) *model.Problem {
	if !s.full(ns.Tenant()) {
		return nil
	}
	return &model.Problem{
		Reason: model.ReasonQuotaExceeded,
		Message: fmt.Sprintf("Tenant %q may have %d pods that hold an address (spec.quotas.pods), and has them: the pod gets its port when another goes, or when the quota is raised",
			ns.Tenant(), s.Cluster.Tenants[ns.Tenant()].Pods.Hard),
	}
}

// tally counts a pod after it was decided about; nil: it has gone. When its tenant begins to have as many pods as he may have, or has room
// again, those are looked at again that are refused.
func (s *Stage) tally(p *pod, gone bool) {
	tenant, holds := "", !gone && p.held() != nil
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
	if !holds {
		tenant = ""
	}
	if tenant == p.heldOf {
		return
	}
	for _, of := range []string{p.heldOf, tenant} {
		if of == "" {
			continue
		}
		before := s.full(of)
		if of == tenant {
			s.quotas.holding.Add(of, p.Key)
		} else {
			s.quotas.holding.Drop(of, p.Key)
		}
		if before != s.full(of) {
			s.queue.MarkAll(s.quotas.refused[of])
		}
		s.HeldChanged.Changed(of)
	}
	p.heldOf = tenant
}
