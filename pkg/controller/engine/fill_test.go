package engine

import (
	"fmt"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// holding is a database that holds rows, and nothing in their sets.
type holding struct {
	plan.Actual
	rows map[nb.Ref]bool
}

func (h holding) Has(ref nb.Ref) bool { return h.rows[ref] }

// shares says whose namespaces are: a tenant's, or no tenant's.
type shares struct {
	Decider
	tenants map[string]string
}

func (s shares) Share(namespace string) string {
	if tenant := s.tenants[namespace]; tenant != "" {
		return "tenant " + tenant
	}
	return "namespace " + namespace
}

// filling is a round that fills batches of 100 rows and elements.
type filling struct {
	*round
	there holding
	sets  int
}

func newFilling(held ...nb.Ref) *filling {
	f := &filling{there: holding{Actual: &ovsdb.Session{}, rows: map[nb.Ref]bool{}}}
	f.round = &round{
		Engine: &Engine{cfg: Config{MaxBatch: 100}, graph: graph.New(), state: shares{}, retry: newRetries(), graves: graves{}},
		drift:  newDrift(),
	}
	for _, ref := range held {
		f.there.rows[ref] = true
	}
	f.graph.Set(nb.PortGroupOwner("calm", isolated.UUID), nb.Facts{Rows: []nb.Row{&nb.PortGroup{UUID: isolated.UUID}}})
	f.graph.Next()
	return f
}

// fill has somebody make a set with elements, which is a container, and fills a batch.
func (f *filling) fill(elements int) *batch {
	f.sets++
	row := &nb.AddressSet{UUID: fmt.Sprintf("set-%d", f.sets)}
	facts := nb.Facts{Rows: []nb.Row{row}}
	for i := range elements {
		address := fmt.Sprintf("10.0.%d.%d", i/250, i%250)
		facts.Members = append(facts.Members, nb.Member{Set: nb.Set{Row: nb.RefOf(row), Column: "addresses"}, Value: address})
	}
	return f.after(nb.PortGroupOwner("restless", row.UUID), facts)
}

// balance has somebody make load balancers, which are containers, too, and decide nothing, and fills a batch.
func (f *filling) balance(rows int) *batch {
	f.sets++
	var facts nb.Facts
	for i := range rows {
		facts.Rows = append(facts.Rows, &nb.LoadBalancer{UUID: fmt.Sprintf("balancer-%d-%d", f.sets, i)})
	}
	return f.after(nb.ServiceOwner("restless", fmt.Sprint(f.sets)), facts)
}

func (f *filling) after(owner nb.Owner, facts nb.Facts) *batch {
	f.graph.Set(owner, facts)
	b := &batch{there: f.there, coming: plan.Coming{}}
	f.round.fill(b)
	return b
}

// port has a pod want a port, with a place in each of the groups.
func (f *filling) port(name string, groups ...nb.Ref) nb.Owner {
	facts := nb.Facts{Rows: []nb.Row{&nb.LogicalSwitchPort{UUID: name}}}
	for _, group := range groups {
		facts.Members = append(facts.Members, nb.Member{Set: nb.Set{Row: group, Column: nb.ColumnPorts}, Value: name})
	}
	owner := nb.PodOwner("calm", name)
	f.graph.Set(owner, facts)
	return owner
}

var isolated = nb.Ref{Table: nb.TablePortGroup, UUID: "isolated"}

// However much somebody changes without a pause, what others want is in the second batch.
func TestNobodyIsPutOffForLong(t *testing.T) {
	t.Parallel()
	for _, elements := range []int{50, 99, 150, 600} {
		for name, groups := range map[string][]nb.Ref{"free": nil, "grouped": {isolated}} {
			f := newFilling(isolated)
			f.fill(elements)
			owner, rounds := f.port("port", groups...), 0
			for ; f.graph.Busy(owner) && rounds < 100; rounds++ {
				f.fill(elements)
			}
			if rounds > 2 {
				t.Errorf("%d elements of somebody else in each round: a %s port was taken after %d rounds", elements, name, rounds)
			}
		}
	}
}

// A route is not put off for long either.
func TestARouteIsNotPutOffForLong(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*filling){
		"access lists": func(f *filling) { f.fill(600) }, "load balancers": func(f *filling) { f.balance(150) },
	} {
		f := newFilling()
		change(f)
		owner, rounds := nb.OfferOwner("calm", "way"), 0
		f.graph.Set(owner, nb.Facts{Rows: []nb.Row{&nb.StaticRoute{UUID: "route"}}})
		for ; f.graph.Busy(owner) && rounds < 100; rounds++ {
			change(f)
		}
		if rounds > 2 {
			t.Errorf("while somebody else changes %s a route was taken after %d rounds", what, rounds)
		}
	}
}

// It waits for what is pending of its Network and decides what passes.
func TestARouteWaitsForTheAccessListsOfItsNetwork(t *testing.T) {
	t.Parallel()
	f := newFilling()
	f.fill(600)
	owner := nb.OfferOwner("calm", "way")
	_, policy := f.policy("calm")
	f.graph.Set(owner, nb.Facts{Rows: []nb.Row{&nb.StaticRoute{UUID: "route"}}})
	for range 4 {
		if f.fill(600); f.graph.Busy(policy) && !f.graph.Busy(owner) {
			t.Error("a route was taken before a policy of its Network")
		}
	}
	if f.graph.Busy(owner) {
		t.Error("a route was not taken after the policy")
	}
}

// Who waits is served in the order in which they came, and all of them.
func TestManyThatWaitAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	f := newFilling()
	var want, got []nb.Owner
	for i := range 500 {
		want = append(want, f.port(fmt.Sprintf("port-%03d", i)))
	}
	for range 20 {
		for _, u := range f.fill(150).units {
			if u.Owner.Kind == nb.KindPod {
				got = append(got, u.Owner)
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d of %d ports were taken, in the order\n%v", len(got), len(want), got)
	}
}

// A port waits for a policy's group that is to be made: without it nothing would isolate the port.
func TestAPortWaitsForItsGroups(t *testing.T) {
	t.Parallel()
	f := newFilling()
	owner := f.port("port", isolated)
	for range 3 {
		if f.fill(150); !f.graph.Busy(owner) {
			t.Fatal("a port was taken before its group was there")
		}
	}
	f.there.rows[isolated] = true
	if f.fill(150); f.graph.Busy(owner) {
		t.Error("a port was not taken when its group was there")
	}
}

// policy has a Network want a policy: a group, which is a container, and an access list on it.
func (f *filling) policy(network string) (group, policy nb.Owner) {
	row, acl := &nb.PortGroup{UUID: "group of " + network}, &nb.ACL{UUID: "acl of " + network}
	group, policy = nb.PortGroupOwner(network, "selected"), nb.PolicyOwner(nb.KindNetworkPolicy, network, "deny", network)
	f.graph.Set(group, nb.Facts{Rows: []nb.Row{row}})
	hangs := nb.Member{Set: nb.Set{Row: nb.RefOf(row), Column: nb.ColumnACLs}, Value: acl.UUID}
	f.graph.Set(policy, nb.Facts{Rows: []nb.Row{acl}, Members: []nb.Member{hangs}})
	return group, policy
}

// A Network's groups and access lists are written in one transaction and soon, whatever is changed in other Networks: between a group and
// its access lists, pods could be open.
func TestPoliciesOfANetworkAreWrittenTogether(t *testing.T) {
	t.Parallel()
	for _, elements := range []int{50, 300, 600} {
		f := newFilling()
		f.fill(elements)
		group, policy := f.policy("calm")
		taken := map[nb.Owner]int{}
		for i := range 4 {
			for _, u := range f.fill(elements).units {
				taken[u.Owner] = i + 1
			}
		}
		if taken[group] == 0 || taken[group] != taken[policy] {
			t.Errorf("%d elements of somebody else in each round: the group was written in round %d, and its access list in round %d",
				elements, taken[group], taken[policy])
		}
		if left := f.graph.Pending(); left > 2 {
			t.Errorf("%d elements of somebody else in each round: %d owners wait after 6 rounds", elements, left)
		}
	}
}

// Many Networks whose policies change at once have their turns. The one that changes most does not come again before all others, although
// it changes containers.
func TestNetworksHaveTurns(t *testing.T) {
	t.Parallel()
	f := newFilling()
	first := map[string]int{}
	for i := range 30 {
		network := fmt.Sprintf("calm-%02d", i)
		f.graph.Set(nb.PolicyOwner(nb.KindNetworkPolicy, network, "deny", network), nb.Facts{Rows: []nb.Row{&nb.ACL{UUID: network}}})
	}
	for round := range 8 {
		for _, u := range f.fill(600).units {
			if network, _ := u.Owner.Network(); u.Owner.Kind == nb.KindNetworkPolicy && first[network] == 0 {
				first[network] = round + 1
			}
		}
	}
	if len(first) != 30 {
		t.Errorf("%d of 30 Networks had their policies written: %v", len(first), first)
	}
}

// A port waits for access lists and groups of its Network that are pending: with the old access lists and the new groups it could be open
// where neither the old policies nor the new ones are. So does a port that changes its groups.
func TestAPortWaitsForThePoliciesOfItsNetwork(t *testing.T) {
	t.Parallel()
	for name, there := range map[string]bool{"new": false, "of other groups": true} {
		f := newFilling(isolated)
		f.there.rows[nb.Ref{Table: nb.TableLogicalSwitchPort, UUID: "port"}] = there
		f.fill(600)
		_, policy := f.policy("calm")
		owner := f.port("port", isolated)
		for range 4 {
			f.fill(600)
			if f.graph.Busy(policy) && !f.graph.Busy(owner) {
				t.Errorf("a port %s was taken before a policy of its Network", name)
			}
		}
		if f.graph.Busy(owner) {
			t.Errorf("a port %s was not taken after the policy", name)
		}
	}
}
