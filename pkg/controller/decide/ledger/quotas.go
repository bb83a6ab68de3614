package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Quotas rank what tenants have of one kind of objects, and say which of them are beyond a tenant's quota.
//
//	Enter, Leave, Tenants --> Turned, Counts, Beyond
//
// The older come before the younger, and nothing else counts: so the answer follows from the objects alone, and is the same after a
// restart. Who is in no tenant's namespace is in no rank.
type Quotas[K objectKey] struct {
	// Turned tells of objects that come to be beyond a quota, or are not any more, or are beyond another one than before. Counts tells
	// of tenants who have more objects, or fewer.
	Turned *pass.Topic[K]
	Counts *pass.Topic[string]

	resource string
	cluster  *cluster.Cluster
	// entered are the objects that are in a rank.
	entered map[K]ranked[K]
	// ranks are in their order, by tenant. bounds are the quotas by which they were last judged.
	ranks  map[string][]ranked[K]
	bounds map[string]model.Quota
}

// objectKey names an object of a namespace.
type objectKey interface {
	comparable
	fmt.Stringer
}

// ranked is an object in the rank of a tenant.
type ranked[K objectKey] struct {
	key     K
	tenant  string
	created time.Time
}

func (r ranked[K]) compare(other ranked[K]) int {
	if older := r.created.Compare(other.created); older != 0 {
		return older
	}
	return strings.Compare(r.key.String(), other.key.String())
}

// NewQuotas makes empty ranks of a resource, as spec.quotas names it, whose quota bound finds. They change in a stage.
func NewQuotas[K objectKey](resource string, c *cluster.Cluster, bound func(*model.Tenant) model.Quota, stage pass.Stage) *Quotas[K] {
	q := &Quotas[K]{
		Turned: pass.NewTopic[K](stage), Counts: pass.NewTopic[string](stage), resource: resource, cluster: c,
		entered: map[K]ranked[K]{}, ranks: map[string][]ranked[K]{}, bounds: map[string]model.Quota{},
	}
	c.TenantChanged.Follow(stage, func(tenant string) {
		var now model.Quota
		if t := c.Tenants[tenant]; t != nil {
			now = bound(t)
		}
		q.setBound(tenant, now)
	})
	return q
}

// Enter says that an object is there, in a namespace.
func (q *Quotas[K]) Enter(key K, namespace string, created time.Time) {
	now := ranked[K]{key: key, created: created}
	if ns := q.cluster.Namespaces[namespace]; ns != nil {
		now.tenant = ns.Tenant()
	}
	if old := q.entered[key]; old.tenant == now.tenant && (now.tenant == "" || old.created.Equal(created)) {
		return
	}
	q.Leave(key)
	if now.tenant == "" {
		return
	}
	at, _ := slices.BinarySearchFunc(q.ranks[now.tenant], now, ranked[K].compare)
	rank := slices.Insert(q.ranks[now.tenant], at, now)
	q.entered[key], q.ranks[now.tenant] = now, rank
	if last := q.within(now.tenant, rank); at < last && last < len(rank) {
		q.Turned.Changed(rank[last].key)
	}
	q.Counts.Changed(now.tenant)
}

// Leave says that an object is not there, or does not count.
func (q *Quotas[K]) Leave(key K) {
	old, is := q.entered[key]
	if !is {
		return
	}
	delete(q.entered, key)
	at, _ := slices.BinarySearchFunc(q.ranks[old.tenant], old, ranked[K].compare)
	last := q.within(old.tenant, q.ranks[old.tenant])
	rank := slices.Delete(q.ranks[old.tenant], at, at+1)
	if q.ranks[old.tenant] = rank; len(rank) == 0 {
		delete(q.ranks, old.tenant)
	}
	if at < last && last <= len(rank) {
		q.Turned.Changed(rank[last-1].key)
	}
	q.Counts.Changed(old.tenant)
}

// setBound stores a tenant's quota, and marks the objects that it concerns. Objects that stay beyond it get a message with its size.
func (q *Quotas[K]) setBound(tenant string, now model.Quota) {
	if q.bounds[tenant] == now {
		return
	}
	rank := q.ranks[tenant]
	first := q.within(tenant, rank)
	if delete(q.bounds, tenant); now.Bounded {
		q.bounds[tenant] = now
	}
	for _, r := range rank[min(first, q.within(tenant, rank)):] {
		q.Turned.Changed(r.key)
	}
}

// within returns how many objects of a tenant's rank are within the tenant's quota.
func (q *Quotas[K]) within(tenant string, rank []ranked[K]) int {
	if b := q.bounds[tenant]; b.Full(int64(len(rank))) {
		return int(b.Hard)
	}
	return len(rank)
}

// Beyond says that an object is beyond its tenant's quota; nil when it is not. It is asked when all that are there have been entered.
func (q *Quotas[K]) Beyond(key K) *model.Problem {
	r, is := q.entered[key]
	if !is || !q.bounds[r.tenant].Bounded {
		return nil
	}
	rank := q.ranks[r.tenant]
	if at, _ := slices.BinarySearchFunc(rank, r, ranked[K].compare); at < q.within(r.tenant, rank) {
		return nil
	}
	return new(model.Problemf(model.ReasonQuotaExceeded,
		"it is not served: Tenant %q may have %d (spec.quotas.%s), and the older come before the younger; delete an older one of their "+
			"%s, or ask for a higher quota",
		r.tenant, q.bounds[r.tenant].Hard, q.resource, q.resource))
}

// Count returns how many objects a tenant has, including those beyond the tenant's quota.
func (q *Quotas[K]) Count(tenant string) int { return len(q.ranks[tenant]) }
