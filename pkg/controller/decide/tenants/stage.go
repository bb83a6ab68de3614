package tenants

import (
	"iter"
	"reflect"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// World is what Tenants look at, and where decisions go.
type World struct {
	Cluster  *cluster.Cluster
	Networks Networks
	Pods     Pods
	// Services and Gateways count those of their namespaces.
	Services, Gateways Counter
	Sink               Sink
	// NetworkChanged tells of Networks that came, changed or went, NetworkReported of those that say otherwise whether they are ready, and
	// PodsChanged of tenants who have more pods, or fewer.
	NetworkChanged, NetworkReported, PodsChanged *pass.Topic[string]
	// ServicesChanged and GatewaysChanged tell of tenants who have more, or fewer.
	ServicesChanged, GatewaysChanged *pass.Topic[string]
}

// Networks are those that may be Tenants'.
type Networks interface {
	// OfTenant are the names of those that belong to a tenant, sorted.
	OfTenant(tenant string) []string
	// Model is one as its owner wrote it; nil when there is none of that name.
	Model(name string) *model.Network
	// Conditions are ConditionReady and ConditionDNSReady as they were last reported.
	Conditions(name string) []model.Condition
	// Isolation is how it was last reported to be isolated from other tenants; nil while that is not known.
	Isolation(name string) *model.Isolation
}

// Pods are those of Tenants' namespaces.
type Pods interface {
	// HeldBy counts those that hold an address.
	HeldBy(tenant string) int
	// NetworksOf are the Networks in which they hold one, in no order.
	NetworksOf(tenant string) iter.Seq[string]
}

// Counter counts what a tenant has of one kind.
type Counter interface{ Count(tenant string) int }

// Sink takes what is decided. A kube.Writer is one.
type Sink interface {
	WriteTenantStatus(name, uid string, status model.TenantStatus)
	WriteTenantFinalizer(name, uid string, present bool)
	Event(about model.ObjectRef, p model.Problem)
	// MakeNetwork makes a Tenant's default Network, unless there is one of its name.
	MakeNetwork(want model.DefaultNetwork)
	// DeleteNetwork deletes the Network with that UID.
	DeleteNetwork(name, uid string)
	// WriteTenantRoles keeps the roles of Tenants' admins, by the names of the Tenants; nil takes one away. After the first call, those that
	// no call named are wanted no more.
	WriteTenantRoles(changed map[string]*model.TenantRole)
}

// Stage decides about Tenants.
type Stage struct {
	World
	queue *pass.Queue[string]
	// spaces are the namespaces of each tenant, and tenantOf the tenant of each, and of each Network.
	spaces          pass.Index[string, string]
	tenantOf        map[string]string
	tenantOfNetwork map[string]string
	// told is what was last reported, and roles what was last wanted.
	told  map[string]told
	roles map[string]model.TenantRole
	// began: the sink knows that roles of which it was not told are wanted no more.
	began bool
}

// told is what was reported of the Tenant with a UID.
type told struct {
	uid    string
	status model.TenantStatus
	// isolated is the verdict of which its owner has heard.
	isolated model.Hardness
}

// New makes a stage without Tenants.
func New(w World, stage pass.Stage) *Stage {
	s := &Stage{
		World: w, queue: pass.NewQueue[string](stage), spaces: pass.Index[string, string]{}, tenantOf: map[string]string{},
		tenantOfNetwork: map[string]string{}, told: map[string]told{}, roles: map[string]model.TenantRole{},
	}
	w.Cluster.TenantChanged.Follow(stage, s.queue.Mark)
	w.Cluster.NamespaceChanged.Follow(stage, s.namespaceChanged)
	w.NetworkChanged.Follow(stage, s.networkChanged)
	w.NetworkReported.Follow(stage, func(name string) { s.queue.Mark(s.tenantOfNetwork[name]) })
	for _, counted := range []*pass.Topic[string]{w.PodsChanged, w.ServicesChanged, w.GatewaysChanged} {
		counted.Follow(stage, s.queue.Mark)
	}
	return s
}

// namespaceChanged enters whose namespace one is now.
func (s *Stage) namespaceChanged(name string) {
	before, now := s.tenantOf[name], ""
	if ns := s.Cluster.Namespaces[name]; ns != nil {
		now = ns.Tenant()
	}
	if s.queue.Mark(now); before == now {
		return
	}
	if delete(s.tenantOf, name); before != "" {
		s.spaces.Drop(before, name)
		s.queue.Mark(before)
	}
	if now != "" {
		s.tenantOf[name] = now
		s.spaces.Add(now, name)
	}
}

// networkChanged queues the Tenant that owned a Network, the one that owns it now, and the one with the Network's name.
func (s *Stage) networkChanged(name string) {
	s.queue.Mark(s.tenantOfNetwork[name])
	if m := s.Networks.Model(name); m != nil {
		s.tenantOfNetwork[name] = m.Tenant
	} else {
		delete(s.tenantOfNetwork, name)
	}
	s.queue.Mark(s.tenantOfNetwork[name])
	s.queue.Mark(name)
}

// Report decides about each Tenant of which something has changed. What it does to objects it does when all of them are known.
func (s *Stage) Report() {
	if s.began && s.queue.Len() == 0 {
		return
	}
	changed := map[string]*model.TenantRole{}
	for _, name := range pass.Sorted(s.queue.Take()) {
		t := s.Cluster.Tenants[name]
		if t == nil {
			if _, had := s.roles[name]; had {
				changed[name] = nil
			}
			delete(s.told, name)
			delete(s.roles, name)
			continue
		}
		own := s.Networks.OfTenant(name)
		s.bringAbout(t, own)
		if status := s.status(t, own); s.told[name].uid != t.UID || !reflect.DeepEqual(s.told[name].status, status) {
			s.told[name] = told{t.UID, status, s.tellIsolation(t, status.Isolation)}
			s.Sink.WriteTenantStatus(name, t.UID, status)
		}
		role := model.TenantRole{Tenant: name, TenantUID: t.UID, Networks: own, Admins: t.Admins}
		if had, is := s.roles[name]; !is || !reflect.DeepEqual(had, role) {
			changed[name], s.roles[name] = &role, role
		}
	}
	if len(changed) > 0 || !s.began {
		s.began = true
		s.Sink.WriteTenantRoles(changed)
	}
}

// bringAbout makes the default Network of a Tenant that stays. Of one that goes it deletes that one, if it was made for it, and lets the
// Tenant go when none is left.
func (s *Stage) bringAbout(t *model.Tenant, own []string) {
	home := s.Networks.Model(t.Name)
	switch {
	case !t.Deleting:
		if !t.Finalized {
			s.Sink.WriteTenantFinalizer(t.Name, t.UID, true)
		}
		if home == nil {
			want := model.DefaultNetwork{Tenant: t.Name, TenantUID: t.UID, Template: t.Template, Fallback: t.Fallback}
			if want.Template == "" {
				want.Template = s.Cluster.TenantNetwork
			}
			s.Sink.MakeNetwork(want)
		}
	case len(own) == 0:
		if t.Finalized {
			s.Sink.WriteTenantFinalizer(t.Name, t.UID, false)
		}
	case home != nil && home.Tenant == t.Name && home.TenantUID == t.UID && !home.Deleting:
		s.Sink.DeleteNetwork(home.Name, home.UID)
	}
}
