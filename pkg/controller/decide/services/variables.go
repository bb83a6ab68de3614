package services

import (
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// ovn-northd computes everything anew when a node gets a variable or loses one. So nodes keep a variable for some time after the
// last Service that needed it, and a tenant brings few new ones in that time: its Services wait for more.
const (
	keepVariables     = 10 * time.Minute
	maxNewVariables   = 32
	variablesTogether = time.Minute
)

// variables are those that nodes have without need, and those that are new.
type variables struct {
	now time.Time
	// kept are variables that no Service needs any more, and until when nodes have them; zero: from before this controller knew the time.
	kept map[compile.Variable]time.Time
	// fresh are the variables that a tenant has brought, and when. waiting are the Services that wait for some, by tenant.
	fresh   map[string]map[compile.Variable]time.Time
	waiting pass.Index[string, model.ServiceKey]
	tenants map[model.ServiceKey]string
	// begun: the first Services have been compiled. What they need is in the database already, or goes there at once.
	begun bool
}

func newVariables() variables {
	return variables{
		kept: map[compile.Variable]time.Time{}, fresh: map[string]map[compile.Variable]time.Time{},
		waiting: pass.Index[string, model.ServiceKey]{}, tenants: map[model.ServiceKey]string{},
	}
}

// want notes which variables a Service of a tenant needs, and returns those that it has to wait for.
func (p *places) want(key model.ServiceKey, tenant string, wanted []compile.Variable) map[compile.Variable]struct{} {
	waiting := map[compile.Variable]struct{}{}
	var granted []compile.Variable
	for _, v := range wanted {
		if _, kept := p.kept[v]; kept || p.needed[v] > 0 || !p.begun || p.bring(tenant, v) {
			granted = append(granted, v)
		} else {
			waiting[v] = struct{}{}
		}
	}
	p.note(key, granted)
	p.waiting.Drop(p.tenants[key], key)
	if delete(p.tenants, key); len(waiting) > 0 {
		p.tenants[key] = tenant
		p.waiting.Add(tenant, key)
	}
	return waiting
}

// bring counts a new variable for a tenant, and reports false if that has brought too many.
func (p *places) bring(tenant string, v compile.Variable) bool {
	if p.full(tenant) {
		return false
	}
	if p.fresh[tenant] == nil {
		p.fresh[tenant] = map[compile.Variable]time.Time{}
	}
	p.fresh[tenant][v] = p.now
	return true
}

// full reports whether a tenant has brought as many variables as may be new.
func (p *places) full(tenant string) bool {
	for v, at := range p.fresh[tenant] {
		if !p.now.Before(at.Add(keepVariables)) {
			delete(p.fresh[tenant], v)
		}
	}
	if len(p.fresh[tenant]) == 0 {
		delete(p.fresh, tenant)
	}
	return len(p.fresh[tenant]) >= maxNewVariables
}

// keep has nodes keep a variable that nobody needs any more. Those of a minute go together.
func (p *places) keep(v compile.Variable) {
	p.kept[v] = p.now.Add(keepVariables + variablesTogether).Truncate(variablesTogether)
}

// adopt keeps the variables that nodes have in the database.
func (p *places) adopt(rows []nb.Row) {
	for _, row := range rows {
		node, is := row.(*nb.ChassisVariables)
		if owner, ok := nb.ParseOwner(row.Owned()[nb.KeyOwner]); !is || !ok || owner != nb.PlaceOwner(node.Chassis) {
			continue
		}
		for _, pair := range nb.Members(row, nb.ColumnVariables) {
			p.kept[compile.VariableOf(node.Chassis, pair)] = time.Time{}
			p.stale = true
		}
	}
}

// Connected takes in the variables that nodes have, before anything is decided.
func (s *Stage) Connected(rows func(nb.Table) []nb.Row) {
	if !s.places.begun {
		s.places.adopt(rows(nb.TableChassisVariables))
	}
}

// Turn moves time on: variables go that nobody has needed for some time, and Services get those that they waited for.
func (s *Stage) Turn(now time.Time) {
	p := s.places
	s.places.now = now
	for v, until := range p.kept {
		switch {
		case until.IsZero():
			s.places.keep(v)
		case !now.Before(until):
			delete(p.kept, v)
			s.places.stale = true
		}
	}
	for tenant, services := range p.waiting {
		if !s.places.full(tenant) {
			s.rows.MarkAll(services)
		}
	}
}

// Next is when something of that happens by itself; zero: never.
func (s *Stage) Next() (due time.Time) {
	for _, until := range s.places.kept {
		due = pass.Earlier(due, until)
	}
	for tenant := range s.places.waiting {
		for _, at := range s.places.fresh[tenant] {
			due = pass.Earlier(due, at.Add(keepVariables))
		}
	}
	return due
}

// warnOfWaiting tells a Service's owner, once while it does, that a Service waits for variables.
func (s *Stage) warnOfWaiting(service *model.Service, waits bool) {
	what := "its clients reach any endpoint there meanwhile, whatever their place"
	if service.Local {
		what = "nobody is led there meanwhile"
	}
	s.warnOnce(s.awaiting, service, waits, model.Problemf(model.ReasonPortsWait,
		"its endpoints go by the client's place, and some of its port numbers, or of its addresses of IPv6, are new to that: "+
			"its namespace's tenant has had %d such in 10 minutes, and the next ones wait until these are older; %s", maxNewVariables, what))
}
