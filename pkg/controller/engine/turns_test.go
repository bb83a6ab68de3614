package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/plan"
)

// shared is a Network that several tenants share.
const shared = "shared"

// namedBy has namespaces' policies name a port group of the shared Network, which is made, and returns its owner and its row.
func (f *filling) namedBy(name string, namespaces ...string) (nb.Owner, nb.Ref) {
	row, owner := &nb.PortGroup{UUID: name}, nb.PortGroupOwner(shared, name)
	for _, namespace := range namespaces {
		f.graph.Use(owner, namespace, +1)
	}
	f.graph.Set(owner, nb.Facts{Rows: []nb.Row{row}})
	return owner, nb.RefOf(row)
}

// rules has a namespace want a policy with ACLs on a group of the shared Network.
func (f *filling) rules(kind nb.Kind, namespace, name string, group nb.Ref, n int) nb.Owner {
	var facts nb.Facts
	for i := range n {
		acl := &nb.ACL{UUID: fmt.Sprintf("%s/%s/%d", namespace, name, i)}
		facts.Rows = append(facts.Rows, acl)
		facts.Members = append(facts.Members, group.Holds(nb.ColumnACLs, acl.UUID))
	}
	owner := nb.PolicyOwner(kind, namespace, name, shared)
	f.graph.Set(owner, facts)
	return owner
}

// flood has a namespace change policies with 2n rows and elements.
func (f *filling) flood(namespace string, n int) {
	f.sets++
	name := fmt.Sprintf("%s-%d", namespace, f.sets)
	_, group := f.namedBy(name, namespace)
	for i := range n / 10 {
		f.rules(nb.KindNetworkPolicy, namespace, fmt.Sprintf("%s-%d", name, i), group, 10)
	}
}

// next fills a batch, and returns its owners.
func (f *filling) next() []nb.Owner {
	b := &batch{there: f.there, coming: plan.Coming{}}
	f.round.fill(b)
	var out []nb.Owner
	for _, u := range b.units {
		if !u.Part {
			out = append(out, u.Owner)
		}
		for _, row := range u.Inserts {
			f.there.rows[nb.RefOf(row)] = true
		}
	}
	return out
}

// together fills batches while busy changes things, until one has any of owners, and reports whether it has all, and how many batches
// that took.
func (f *filling) together(busy func(), owners ...nb.Owner) (all bool, rounds int) {
	for rounds = 1; rounds < 100; rounds++ {
		busy()
		taken := f.next()
		n := 0
		for _, owner := range owners {
			if slices.Contains(taken, owner) {
				n++
			}
		}
		if n > 0 {
			return n == len(owners), rounds
		}
	}
	return false, rounds
}

// In a Network that tenants share, a namespace's groups and access lists are written in one transaction, and soon, however much another
// namespace changes without a pause. So is what is of no namespace, in the same transaction: a policy of the cluster may take the place of
// theirs.
func TestNamespacesOfANetworkHaveTurns(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 300, 1000} {
		f := newFilling()
		f.flood("restless", n)
		var owners []nb.Owner
		for i := range 10 {
			namespace := fmt.Sprintf("calm-%d", i)
			owner, group := f.namedBy(namespace, namespace)
			owners = append(owners, owner)
			for j := range 4 {
				owners = append(owners, f.rules(nb.KindNetworkPolicy, namespace, fmt.Sprint(j), group, 2))
			}
		}
		owner, group := f.namedBy("everybody", "")
		owners = append(owners, owner, f.rules(nb.KindClusterNetworkPolicy, "", "deny", group, 5))
		if all, rounds := f.together(func() { f.flood("restless", n) }, owners...); !all || rounds > 2 {
			t.Errorf("%d changes of another namespace each round: after %d rounds a batch had some, and all of what others want: %v", n, rounds, all)
		}
	}
}

// Whoever changes thousands of rows has turns, too, and with them what the whole is made of comes to an end.
func TestWhoChangesMostHasTurns(t *testing.T) {
	t.Parallel()
	f := newFilling()
	f.flood("restless", 2000)
	for round := 0; ; round++ {
		for i := range 30 {
			f.flood(fmt.Sprintf("busy-%d", i), 10)
		}
		if round == 60 {
			t.Fatalf("a namespace of which nothing new comes is not done after %d rounds", round)
		}
		f.next()
		if !f.graph.JudgingAbout(nb.NetworkOwner(shared), "restless") {
			return
		}
	}
}

// A tenant has no more turns for having more namespaces.
func TestTenantsOfANetworkHaveTurns(t *testing.T) {
	t.Parallel()
	f := newFilling()
	tenants := map[string]string{}
	f.state = shares{tenants: tenants}
	flood := func() {
		for i := range 60 {
			namespace := fmt.Sprintf("restless-%d", i)
			tenants[namespace] = "restless"
			f.flood(namespace, 10)
		}
	}
	for range 10 {
		flood()
		f.next()
	}
	owner, group := f.namedBy("calm", "calm")
	policy := f.rules(nb.KindNetworkPolicy, "calm", "deny", group, 100)
	if all, rounds := f.together(flood, owner, policy); !all || rounds > 2 {
		t.Errorf("after %d rounds of another tenant's 60 namespaces a batch had some of what is wanted, and all: %v", rounds, all)
	}
	// Its namespaces are not divided.
	for i := range 3 {
		namespace := fmt.Sprintf("restless-%d", i)
		owner, group := f.namedBy("own of "+namespace, namespace)
		policy := f.rules(nb.KindNetworkPolicy, namespace, "own", group, 5)
		if all, rounds := f.together(func() {}, owner, policy); !all {
			t.Errorf("namespace %s was divided after %d rounds", namespace, rounds)
		}
	}
}

// A group that policies of two namespaces name comes with the first of them: an access list that names no group says nothing.
func TestAGroupComesWithWhoeverNamesIt(t *testing.T) {
	t.Parallel()
	f := newFilling()
	f.flood("restless", 1000)
	f.next()
	f.flood("restless", 1000)
	owner, group := f.namedBy("both", "restless", "calm")
	if all, rounds := f.together(func() { f.flood("restless", 1000) }, owner, f.rules(nb.KindNetworkPolicy, "calm", "deny", group, 2)); !all {
		t.Errorf("after %d rounds a batch had the group or the policy that names it, and not both", rounds)
	}
}

// Places of a namespace's pods in groups of others come with these groups, and go with them: however many these are, what the namespace's
// own policies change is not divided.
func TestGroupsOfOthersAreNotANamespacesChanges(t *testing.T) {
	t.Parallel()
	f := newFilling()
	own, group := f.namedBy("own", "calm")
	var others []nb.Ref
	for i := range 60 {
		_, ref := f.namedBy(fmt.Sprint("other-", i), "restless")
		others = append(others, ref)
	}
	f.pods("calm", 20, others...)
	check := func(when string, owners ...nb.Owner) {
		t.Helper()
		b := &batch{there: f.there, coming: plan.Coming{}}
		if chosen := f.chooseTurns(b); len(chosen.divided) > 0 && chosen.divided[turn{shared, "namespace calm", "calm"}] {
			t.Errorf("%s the namespace whose pods are in others' groups is divided", when)
		}
		if all, rounds := f.together(func() {}, owners...); !all || rounds > 2 {
			t.Errorf("%s, after %d rounds a batch had some of what is wanted, and all: %v", when, rounds, all)
		}
	}
	check("when they come", own, f.rules(nb.KindNetworkPolicy, "calm", "deny", group, 100))
	for f.graph.Pending() > 0 {
		f.next()
	}
	f.there.rows[group] = true
	for _, other := range others {
		f.there.rows[other] = true
		f.graph.Delete(nb.PortGroupOwner(shared, other.UUID))
		f.graph.Use(nb.PortGroupOwner(shared, other.UUID), "restless", -1)
	}
	f.pods("calm", 20)
	f.flood("restless", 1000)
	own, group = f.namedBy("own too", "calm")
	check("when they go", own, f.rules(nb.KindNetworkPolicy, "calm", "deny too", group, 100))
}

// pods has a namespace's pods, whose ports are there, want places in groups.
func (f *filling) pods(namespace string, n int, groups ...nb.Ref) {
	for i := range n {
		port := &nb.LogicalSwitchPort{UUID: fmt.Sprintf("%s/port-%d", namespace, i)}
		f.there.rows[nb.RefOf(port)] = true
		facts := nb.Facts{Rows: []nb.Row{port}}
		for _, group := range groups {
			facts.Members = append(facts.Members, group.Holds(nb.ColumnPorts, port.UUID))
		}
		f.graph.Set(nb.PodOwner(namespace, port.UUID), facts)
	}
}

// A new port waits for the policies of its own namespace, and not for those of others, nor for their groups of peers: these bring it when
// they come.
func TestAPortWaitsForItsNamespaceOnly(t *testing.T) {
	t.Parallel()
	f := newFilling()
	_, judged := f.namedBy("judged", "")
	f.next()
	f.there.rows[judged] = true
	var own nb.Owner
	f.flood("restless", 1000)
	_, others := f.namedBy("peers", "restless")
	newest := func() {
		f.flood("restless", 1000)
		_, others = f.namedBy(fmt.Sprint("peers-", f.sets), "restless")
	}
	for i, waits := range []bool{false, true} {
		newest()
		if waits {
			_, group := f.namedBy("own", "calm")
			own = f.rules(nb.KindNetworkPolicy, "calm", "deny", group, 10)
		}
		port := f.port(fmt.Sprint("port-", i), judged, others)
		rounds := 0
		for ; f.graph.Busy(port) && rounds < 20; rounds++ {
			// The next ones want the newest of its groups, too.
			newest()
			f.port(fmt.Sprint("port-", i), judged, others)
			if f.next(); waits && f.graph.Busy(own) && !f.graph.Busy(port) {
				t.Error("a new port came before a policy of its namespace")
			}
		}
		if rounds > 4 {
			t.Errorf("while another namespace changes policies and groups a new port was taken after %d rounds", rounds)
		}
	}
}

// A route waits for what is left out of its Network, whoever's it is.
func TestARouteWaitsForWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	f := newFilling()
	var policies []nb.Owner
	for i := range 4 {
		namespace := fmt.Sprint("calm-", i)
		_, group := f.namedBy(namespace, namespace)
		policies = append(policies, f.rules(nb.KindNetworkPolicy, namespace, "deny", group, 100))
	}
	route := nb.OfferOwner(shared, "way")
	f.graph.Set(route, nb.Facts{Rows: []nb.Row{&nb.StaticRoute{UUID: "route"}}})
	for range 10 {
		f.next()
		for _, policy := range policies {
			if f.graph.Busy(policy) && !f.graph.Busy(route) {
				t.Fatal("a route came before access lists of its Network")
			}
		}
	}
	if f.graph.Busy(route) {
		t.Error("a route did not come after the access lists of its Network")
	}
}

// A group that an earlier controller left goes last: access lists of its time may name it until they are changed.
func TestAnOrphanedGroupGoesLast(t *testing.T) {
	t.Parallel()
	f := newFilling()
	f.flood("restless", 1000)
	ref := nb.Ref{Table: nb.TablePortGroup, UUID: "left"}
	orphan := graph.Work{Owner: nb.OrphanOwner(ref), Refs: map[nb.Ref]struct{}{ref: {}}}
	f.graph.Return(orphan)
	for rounds := 0; f.graph.Busy(orphan.Owner); rounds++ {
		if rounds == 20 {
			t.Fatal("the group is not removed after 20 rounds")
		}
		f.next()
	}
	if f.graph.Judging() > 0 {
		t.Error("the group is removed before access lists are changed")
	}
}

// Who was left out comes first, although others change less. Among those who were left out as often what is of no namespace comes first.
func TestWhoWasLeftOutComesFirst(t *testing.T) {
	t.Parallel()
	f := newFilling()
	flood := func() {
		for i := range 40 {
			f.flood(fmt.Sprintf("small-%d-%d", f.sets, i), 10)
		}
	}
	flood()
	owner, group := f.namedBy("calm", "calm")
	if all, rounds := f.together(flood, owner, f.rules(nb.KindNetworkPolicy, "calm", "deny", group, 100)); !all || rounds > 6 {
		t.Errorf("after %d rounds a batch had some of what was left out, and all: %v", rounds, all)
	}
	f = newFilling()
	for i := range 4 {
		f.flood(fmt.Sprint("busy-", i), 100)
	}
	_, group = f.namedBy("everybody", "")
	if all, rounds := f.together(func() {}, f.rules(nb.KindClusterNetworkPolicy, "", "deny", group, 120)); !all || rounds > 1 {
		t.Errorf("a policy of the cluster was taken after %d rounds", rounds)
	}
}

// A new port waits for as long as what is of no namespace is left out, or its own namespace, or that is divided; and a route for as long
// as anything of its Network is left out.
func TestANewPortIsLeftOut(t *testing.T) {
	t.Parallel()
	cluster, calm, busy := turn{shared, everyones, ""}, turn{shared, "namespace calm", "calm"}, turn{shared, "namespace busy", "busy"}
	for name, c := range map[string]struct {
		turns turns
		waits bool
	}{
		"nothing":                {turns{}, false},
		"the cluster is":         {turns{left: map[turn]int{cluster: 1}}, true},
		"its namespace is":       {turns{left: map[turn]int{calm: 1}}, true},
		"its namespace in parts": {turns{divided: map[turn]bool{calm: true}}, true},
		"another one is":         {turns{left: map[turn]int{busy: 1}}, false},
		"another one in parts":   {turns{divided: map[turn]bool{busy: true}}, false},
	} {
		f := newFilling()
		_, judged := f.namedBy("judged", "")
		f.next()
		port := f.port("port", judged)
		w, _ := f.graph.Next()
		route := graph.Work{Owner: nb.OfferOwner(shared, "way")}
		c.turns.networks = map[string]bool{shared: len(c.turns.left) > 0}
		f.turns = c.turns
		if got := f.leftOut(&batch{there: f.there}, route); got != (len(c.turns.left) > 0) {
			t.Errorf("left out: %s: a route waits: %v", name, got)
		}
		if w.Owner != port || f.leftOut(&batch{there: f.there}, w) != c.waits {
			t.Errorf("left out: %s: a new port of %s waits: %v, want %v", name, w.Owner, !c.waits, c.waits)
		}
	}
}

// It comes before other work if it need not wait for that: for policies of its own namespace, and none of others; and for groups, but those
// that policies of other namespaces alone name.
func TestWhatANewPortWaitsFor(t *testing.T) {
	t.Parallel()
	for namespace, comes := range map[string]bool{"busy": true, "calm": false, "": false} {
		f := newFilling()
		_, judged := f.namedBy("judged", "")
		_, peers := f.namedBy("peers", "busy")
		f.next()
		f.there.rows[judged] = true
		delete(f.there.rows, peers)
		f.port("port", judged, peers)
		w, _ := f.graph.Next()
		f.rules(nb.KindNetworkPolicy, namespace, "deny", judged, 1)
		if got := f.comesFirst(&batch{there: f.there}, w); got != comes {
			t.Errorf("with a policy of namespace %q a port of calm comes first: %v, want %v", namespace, got, comes)
		}
	}
}

// Whoever changes more than a transaction takes, and had no room, has half of the next one.
func TestRoomIsReserved(t *testing.T) {
	t.Parallel()
	for left, want := range map[int]bool{0: false, 1: true} {
		w := waiting{whole: 500, sizes: map[turn]int{}, left: map[turn]int{}}
		large := turn{shared, "namespace large", "large"}
		w.add(large, 1000, left)
		for i := range 5 {
			w.add(turn{shared, fmt.Sprint("namespace ", i), fmt.Sprint(i)}, 100, 0)
		}
		if chosen := w.choose(); chosen.divided[large] != want || (len(chosen.left) == 3) != want {
			t.Errorf("left out %d times: %+v", left, chosen)
		}
	}
}

// Access lists that change count, too.
func TestChangedAccessListsCount(t *testing.T) {
	t.Parallel()
	f := newFilling()
	there := store{map[nb.Ref]nb.Row{}, map[nb.Member]bool{}}
	_, group := f.namedBy("busy", "busy")
	owner := f.rules(nb.KindNetworkPolicy, "busy", "deny", group, 600)
	facts, _ := f.graph.Facts(owner)
	for _, row := range facts.Rows {
		there.rows[nb.RefOf(row)] = &nb.ACL{UUID: row.ID(), Match: "another"}
	}
	if got := f.sizeOf(&batch{there: there}, graph.Work{Owner: owner, Refs: refsOf(facts)}, nil); got != 600 {
		t.Errorf("%d access lists change, want 600", got)
	}
	for _, row := range facts.Rows {
		there.rows[nb.RefOf(row)] = row
	}
	if got := f.sizeOf(&batch{there: there}, graph.Work{Owner: owner, Refs: refsOf(facts)}, nil); got != 0 {
		t.Errorf("%d access lists change, want none", got)
	}
}

// Places in a policies' group that goes do not count: it goes as a whole. Those in what others need until it goes do.
func TestPlacesInAGroupThatGoesDoNotCount(t *testing.T) {
	t.Parallel()
	for owner, want := range map[nb.Owner]int{nb.PortGroupOwner(shared, "group"): 0, nb.NetworkOwner(shared): 1} {
		f := newFilling()
		group := &nb.PortGroup{UUID: "group", ExternalIDs: map[string]string{nb.KeyOwner: owner.String()}}
		place := nb.RefOf(group).Holds(nb.ColumnPorts, "port")
		there := store{map[nb.Ref]nb.Row{nb.RefOf(group): group}, map[nb.Member]bool{place: true}}
		w := graph.Work{Owner: nb.PodOwner("calm", "pod"), Members: map[nb.Member]struct{}{place: {}}}
		if got := f.sizeOf(&batch{there: there}, w, map[nb.Ref]bool{}); got != want {
			t.Errorf("a place in a group of %s that goes counts %d, want %d", owner, got, want)
		}
	}
}

func refsOf(facts nb.Facts) map[nb.Ref]struct{} {
	out := map[nb.Ref]struct{}{}
	for _, row := range facts.Rows {
		out[nb.RefOf(row)] = struct{}{}
	}
	return out
}
