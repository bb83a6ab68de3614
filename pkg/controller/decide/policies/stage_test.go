package policies_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/controller/decide/policies"
	"github.com/atoll-net/atoll/pkg/controller/decide/services"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// world is the Network red with pods, and no Services.
type world struct {
	network model.Network
	// others are other Networks, by name, and peers those that have to do with one, in each direction.
	others      map[string]*model.Network
	peers       map[string][2][]string
	pods        map[model.PodKey]*model.Pod
	attachments map[model.PodKey]*model.Attachment
	events      []string
}

func (w *world) Served(name string) (*model.Network, compile.Layout) {
	n := w.others[name]
	if name == w.network.Name {
		n = &w.network
	}
	if n == nil {
		return nil, compile.Layout{}
	}
	return n, compile.Layout{Name: name, UID: n.UID, Subnets: []compile.SubnetLayout{{
		Name: "front", Ranges: []compile.Range{{CIDR: netip.MustParsePrefix("10.0.0.0/24")}},
	}}}
}

func (w *world) Holders(network string) map[model.PodKey]struct{} {
	out := map[model.PodKey]struct{}{}
	for key, a := range w.attachments {
		if a.Network == network {
			out[key] = struct{}{}
		}
	}
	return out
}

func (w *world) Peers(name string, d model.Direction) []string    { return w.peers[name][d] }
func (*world) Joined(string) []string                             { return nil }
func (w *world) Pod(key model.PodKey) *model.Pod                  { return w.pods[key] }
func (w *world) Attachment(key model.PodKey) *model.Attachment    { return w.attachments[key] }
func (*world) Service(model.ServiceKey) *model.Service            { return nil }
func (*world) Slices(model.ServiceKey) []*model.Slice             { return nil }
func (*world) Answers(model.ServiceKey, string) []services.Answer { return nil }
func (w *world) Event(_ model.ObjectRef, p model.Problem) {
	w.events = append(w.events, p.Message)
}

// bench is a stage, step by step.
type bench struct {
	*world
	*policies.Stage
	t       testing.TB
	graph   *graph.Graph
	cluster *cluster.Cluster
	ports   *pass.Topic[model.PodKey]
	served  *pass.Topic[string]
	// told are the pods whose groups may be others, judging the Networks where judging begins or ends.
	told    map[model.PodKey]struct{}
	judging []string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	order := pass.NewOrder("cluster", "policies")
	stage := order.Stage("policies")
	w := &world{
		network: model.Network{Name: "red", UID: "red-uid", Type: model.VPC}, others: map[string]*model.Network{},
		peers: map[string][2][]string{},
		pods:  map[model.PodKey]*model.Pod{}, attachments: map[model.PodKey]*model.Attachment{},
	}
	b := &bench{
		world: w, t: t, graph: graph.New(), cluster: cluster.New(cluster.Settings{}, order.Stage("cluster")),
		ports: pass.NewTopic[model.PodKey](order.Stage("cluster")), told: map[model.PodKey]struct{}{},
	}
	networks := func() *pass.Topic[string] { return pass.NewTopic[string](order.Stage("cluster")) }
	b.served = networks()
	b.Stage = policies.New(b.cluster, policies.World{
		Networks: w, Pods: w, Services: w, Sink: w, PortChanged: b.ports, ServedChanged: b.served, AnswersChanged: networks(),
		SeenChanged: networks(),
	}, b.graph, stage)
	b.GroupsChanged.Follow(stage, func(key model.PodKey) { b.told[key] = struct{}{} })
	b.JudgingChanged.Follow(stage, func(name string) { b.judging = append(b.judging, name) })
	b.cluster.TakeNamespaces(map[string]*model.Namespace{"team": {Name: "team"}})
	return b
}

// attach gives a pod its port, in red.
func (b *bench) attach(name, address string, labels map[string]string) model.PodKey {
	return b.attachTo("red", name, address, labels)
}

func (b *bench) attachTo(network, name, address string, labels map[string]string) model.PodKey {
	key := model.PodKey{Namespace: "team", Name: name}
	b.pods[key] = &model.Pod{Key: key, UID: name, Labels: labels}
	b.attachments[key] = &model.Attachment{
		PodUID: name, Network: network, NetworkUID: network + "-uid", Subnet: "front", Addresses: []netip.Prefix{
			netip.MustParsePrefix(address + "/24"),
		},
	}
	b.cluster.PodsIn.Add(key.Namespace, key)
	b.ports.Changed(key)
	return key
}

// rows counts the wanted rows of a table.
func (b *bench) rows(table nb.Table) int {
	n := 0
	for _, ref := range b.graph.Refs() {
		if ref.Table == table {
			n++
		}
	}
	return n
}

// commit does the work that waits, as the database would.
func (b *bench) commit() {
	var done []nb.Owner
	for work, more := b.graph.Next(); more; work, more = b.graph.Next() {
		done = append(done, work.Owner)
	}
	for _, owner := range done {
		if owner.Kind == nb.KindNetworkPolicy {
			b.Committed(owner)
		}
	}
}

func (b *bench) wantTold(when string, keys ...model.PodKey) {
	b.t.Helper()
	var got []model.PodKey
	for key := range b.told {
		got = append(got, key)
	}
	slices.SortFunc(got, model.PodKey.Compare)
	if diff := cmp.Diff(keys, got); diff != "" {
		b.t.Errorf("%s: told of (-want +got):\n%s", when, diff)
	}
	clear(b.told)
}

func app(name string) match.Pods {
	return match.Pods{
		Namespace: "team", Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{name}}}},
	}
}

// isolated lets pods of an application receive from those of another only.
func isolated(subject, peer string) *model.Policy {
	from := app(peer)
	return &model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "team", Name: "p"}, UID: "p", Tier: model.TierTenant,
		Subject: app(subject), Isolates: [2]bool{true, false},
		Rules: [2][]model.Rule{{{Verdict: model.Allow, AnyPort: true, Peers: []model.Peer{{Pods: &from}}}}, nil},
	}
}

func (b *bench) decide(p *model.Policy) {
	key := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "team", Name: "p"}
	b.Decide(map[model.PolicyKey]*model.Policy{key: p})
}

// TestGroupsComeBeforeACLsAndGoAfterThem: between the steps others have ports join and leave.
func TestGroupsComeBeforeACLsAndGoAfterThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db, web := b.attach("db", "10.0.0.2", map[string]string{"app": "db"}), b.attach("web", "10.0.0.3", map[string]string{"app": "web"})
	b.attach("other", "10.0.0.4", nil)
	owner := nb.PolicyOwner(nb.KindNetworkPolicy, "team", "p", "red")

	b.decide(isolated("db", "web"))
	b.wantTold("a new policy", db, web)
	if _, written := b.graph.Facts(owner); written {
		t.Error("ACLs are written before ports have joined the groups that they name")
	}
	if groups := b.rows(nb.TablePortGroup); groups != 4 {
		t.Errorf("%d port groups, want 4: two selectors, isolation, and who is judged", groups)
	}
	if n := len(b.GroupsOf(db, *b.attachments[db])); n != 3 {
		t.Errorf("db is in %d groups, want 3", n)
	}
	if n := len(b.GroupsOf(web, *b.attachments[web])); n != 1 {
		t.Errorf("web is in %d groups, want 1", n)
	}
	b.Write()
	b.commit()
	if facts, _ := b.graph.Facts(owner); len(facts.Rows) != 1 {
		t.Errorf("%d ACLs, want 1", len(facts.Rows))
	}
	if !b.Judges(&b.network) || !slices.Equal(b.judging, []string{"red"}) {
		t.Errorf("judging is told of in %v", b.judging)
	}

	b.decide(nil)
	b.Write()
	if groups := b.rows(nb.TablePortGroup); groups != 4 {
		t.Errorf("%d port groups, want 4 until the ACLs have left the database", groups)
	}
	clear(b.told)
	b.commit()
	b.wantTold("the ACLs have gone", db, web)
	if groups := b.rows(nb.TablePortGroup); groups != 0 || b.Judges(&b.network) || len(b.GroupsOf(db, *b.attachments[db])) != 0 {
		t.Errorf("%d port groups are left", groups)
	}
}

// TestGroupsSayWhoNamesThem: namespaces with policies that name a port group do while their ACLs may be in the database. The groups of
// isolated and of judged pods are everybody's.
func TestGroupsSayWhoNamesThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	users := func() map[string][]string {
		out := map[string][]string{}
		for _, ref := range b.graph.Refs() {
			if row, _ := b.graph.Row(ref); ref.Table == nb.TablePortGroup {
				owner, _ := b.graph.Owner(ref)
				out[row.Owned()[nb.KeySelector]] = b.graph.Users(owner)
			}
		}
		return out
	}
	named, everybodys := []string{"team"}, []string(nil)
	want := map[string][]string{app("db").String(): named, app("web").String(): named, "isolated Ingress": everybodys, "judged": everybodys}
	b.decide(isolated("db", "web"))
	b.Write()
	b.commit()
	if diff := cmp.Diff(want, users()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.decide(isolated("db", "other"))
	b.Write()
	if want[app("other").String()] = named; !cmp.Equal(want, users()) {
		t.Errorf("before the new ACLs are in the database (-want +got):\n%s", cmp.Diff(want, users()))
	}
	b.commit()
	layout := compile.Layout{Name: "red", UID: "red-uid"}
	if former := b.graph.Users(compile.GroupOwner(layout, compile.PodsGroup(app("web")))); len(former) > 0 {
		t.Errorf("namespaces %v name a group that has gone", former)
	}
	if delete(want, app("web").String()); !cmp.Equal(want, users()) {
		t.Errorf("when the new ACLs are in the database (-want +got):\n%s", cmp.Diff(want, users()))
	}
}

// TestAPolicyHasRowsWhileItSelectsAPod in a Network.
func TestAPolicyHasRowsWhileItSelectsAPod(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := nb.PolicyOwner(nb.KindNetworkPolicy, "team", "p", "red")
	b.decide(isolated("db", "web"))
	b.Write()
	if _, written := b.graph.Facts(owner); written {
		t.Error("a policy without pods has rows")
	}
	db := b.attach("db", "10.0.0.2", map[string]string{"app": "db"})
	b.Decide(nil)
	b.Write()
	if _, written := b.graph.Facts(owner); !written {
		t.Error("a policy with a pod has no rows")
	}
	b.wantTold("a pod", db)
	delete(b.attachments, db)
	b.ports.Changed(db)
	b.Decide(nil)
	b.Write()
	b.commit()
	if owners := b.graph.Owners(); owners != 0 {
		t.Errorf("%d owners have rows, and there is no pod", owners)
	}
}

// TestProblemsAreTold: of a policy that changes, once; and what the database refuses.
func TestProblemsAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := isolated("db", "web")
	p.Problems = []model.Problem{{Reason: "R", Message: "unclear"}}
	same := *p
	b.decide(p)
	b.decide(&same)
	b.Refused(nb.PolicyOwner(nb.KindNetworkPolicy, "team", "p", "red"), model.Problem{Message: "refused"})
	b.decide(nil)
	b.Refused(nb.PolicyOwner(nb.KindNetworkPolicy, "team", "p", "red"), model.Problem{Message: "of one that has gone"})
	if diff := cmp.Diff([]string{"unclear", "refused"}, b.events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
