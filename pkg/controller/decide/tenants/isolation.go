package tenants

import (
	"cmp"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/isolation"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// isolation judges a Tenant with these Networks; nil while one of them is not judged, or the default one, where its namespaces
// are at home, is not there. It counts where its namespaces are at home, and where its pods are, which choose among all Networks
// that admit them.
func (s *Stage) isolation(t *model.Tenant, own []string) *model.Isolation {
	if s.Networks.Model(t.Name) == nil {
		return nil
	}
	var walls []isolation.Walls
	for _, name := range own {
		walls = append(walls, isolation.Walls{Network: name, Isolation: s.Networks.Isolation(name)})
	}
	elsewhere := slices.Collect(s.Pods.NetworksOf(t.Name))
	for name := range s.spaces[t.Name] {
		elsewhere = append(elsewhere, s.Cluster.Namespaces[name].Home())
	}
	elsewhere = slices.DeleteFunc(elsewhere, func(name string) bool { return slices.Contains(own, name) })
	slices.Sort(elsewhere)
	return isolation.OfTenant(walls, slices.Compact(elsewhere))
}

// tellIsolation makes an Event for a Tenant's owner when the verdict differs from the last one that they were told, by this
// controller or by an earlier one. It returns the verdict that they know now.
func (s *Stage) tellIsolation(t *model.Tenant, now *model.Isolation) model.Hardness {
	before := t.Isolated
	if told := s.told[t.Name]; told.uid == t.UID {
		before = cmp.Or(told.isolated, before)
	}
	if p := isolation.Changed(before, now); p != nil {
		s.Sink.Event(t.Ref(), *p)
	}
	if now == nil {
		return before
	}
	return now.Overall
}
