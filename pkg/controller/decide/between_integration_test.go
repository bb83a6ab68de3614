//go:build integration

package decide_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/tier"
)

// watcher sees the northbound database after each transaction.
type watcher struct {
	t    *testing.T
	conn net.Conn
	from *json.Decoder
	out  *json.Encoder

	mu   sync.Mutex
	rows map[string]map[string]watched
	// gone counts the rows that have gone, by table.
	gone map[string]int
}

// watched is what a watcher sees of a row.
type watched struct {
	name, match, action string
	ports, acls         map[string]bool
}

// message is a JSON-RPC request, notification or answer. (RFC 7047 section 4.)
type message struct {
	Method string            `json:"method,omitempty"`
	Params []json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage   `json:"result,omitempty"`
	Error  any               `json:"error"`
	ID     any               `json:"id"`
}

// updates are changes of rows, by table and UUID. (RFC 7047 section 4.1.6.)
type updates map[string]map[string]struct {
	New *struct {
		Name, Match, Action string
		Ports, ACLs         uuids
	}
}

// uuids is a set of UUIDs as JSON has it. (RFC 7047 section 5.1.)
type uuids map[string]bool

func (u *uuids) UnmarshalJSON(b []byte) error {
	var pair [2]json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil {
		return err
	}
	*u = uuids{}
	var one string
	if json.Unmarshal(pair[1], &one) == nil {
		(*u)[one] = true
		return nil
	}
	var all [][2]string
	if err := json.Unmarshal(pair[1], &all); err != nil {
		return err
	}
	for _, a := range all {
		(*u)[a[1]] = true
	}
	return nil
}

// watch calls look with what there is after each transaction, until the test ends. The server makes one notice of several
// transactions for a client that is slow to read.
func watch(t *testing.T, central *ovn.Central, look func(*watcher)) *watcher {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(central.NBAddress(), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{
		t: t, conn: conn, from: json.NewDecoder(conn), out: json.NewEncoder(conn), rows: map[string]map[string]watched{}, gone: map[string]int{},
	}
	request := `["OVN_Northbound","watch",{"Port_Group":{"columns":["name","ports","acls"]},"ACL":{"columns":["match","action"]},"Logical_Switch_Port":{"columns":["name"]}}]`
	var params []json.RawMessage
	if err := json.Unmarshal([]byte(request), &params); err != nil {
		t.Fatal(err)
	}
	if err := w.out.Encode(message{Method: "monitor", Params: params, ID: 1}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read(look)
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return w
}

func (w *watcher) read(look func(*watcher)) {
	for {
		var m message
		if w.from.Decode(&m) != nil {
			return
		}
		var changed updates
		switch {
		case m.Method == "echo":
			_ = w.out.Encode(message{Result: json.RawMessage("[]"), ID: m.ID})
			continue
		case m.Method == "update" && json.Unmarshal(m.Params[1], &changed) == nil, m.Method == "" && json.Unmarshal(m.Result, &changed) == nil:
		default:
			w.t.Errorf("the database says %+v", m)
			return
		}
		w.mu.Lock()
		for table, rows := range changed {
			if w.rows[table] == nil {
				w.rows[table] = map[string]watched{}
			}
			for uuid, row := range rows {
				if row.New == nil {
					delete(w.rows[table], uuid)
					w.gone[table]++
					continue
				}
				w.rows[table][uuid] = watched{row.New.Name, row.New.Match, row.New.Action, row.New.Ports, row.New.ACLs}
			}
		}
		look(w)
		w.mu.Unlock()
	}
}

// port is the UUID of the port with a name; empty when there is none.
func (w *watcher) port(name string) string {
	for uuid, row := range w.rows["Logical_Switch_Port"] {
		if row.name == name {
			return uuid
		}
	}
	return ""
}

// open reports whether nothing forbids what one port sends to another: no isolation, and no rule that denies.
func (w *watcher) open(from, to string) bool {
	for _, g := range w.rows["Port_Group"] {
		if !g.ports[to] {
			continue
		}
		for uuid := range g.acls {
			acl := w.rows["ACL"][uuid]
			if acl.action != "drop" {
				continue
			}
			_, peers, peered := strings.Cut(acl.match, "ip4.src == $")
			if !peered && !strings.Contains(acl.match, "ip6.src") {
				return false
			}
			name, _, _ := strings.Cut(peers, "_ip4")
			for _, peer := range w.rows["Port_Group"] {
				if peer.name == name && peer.ports[from] {
					return false
				}
			}
		}
	}
	return true
}

// gates are policies by which nothing that a stranger sends to web ever passes.
type gates struct {
	c    *cluster
	step int
}

func (g *gates) port() uint16 { g.step++; return uint16(9000 + g.step%1000) }

// allowing isolates the pods of red that are an app, all of them without one, but for a friend.
func (g *gates) allowing(name, app string) model.Policy {
	subject, peer := match.Pods{Namespace: "red"}, labelled("friend")
	if app != "" {
		subject.Labels = labelled(app).Labels
	}
	port := g.port()
	return model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: name}, UID: "uid-" + name, Tier: model.TierTenant,
		Subject:  subject,
		Isolates: [2]bool{true, false}, Rules: [2][]model.Rule{{{
			Verdict: model.Allow, Peers: []model.Peer{{Pods: &peer}}, Ports: []model.PolicyPort{{Protocol: model.UDP, First: port, Last: port}},
		}}},
	}
}

// cluster is a rule for those with a label, any without a value, about an app.
func (g *gates) cluster(name, app string, verdict model.Verdict, from string) model.Policy {
	peer, subject := labelled(from), labelled(app)
	if app == "" {
		subject = match.Pods{Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.Exists}}}}
	}
	return model.Policy{
		Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: name}, UID: "uid-" + name, Tier: model.TierAdmin, Priority: 10,
		Subject: subject, Rules: [2][]model.Rule{{{Verdict: verdict, AnyPort: true, Peers: []model.Peer{{Pods: &peer}}}}},
	}
}

func (g *gates) label(name, app string) {
	g.c.change(func() {
		p := *g.c.pods[model.PodKey{Namespace: "red", Name: name}]
		p.Labels = map[string]string{"app": app}
		g.c.pods[p.Key], g.c.changes.Pods[p.Key] = &p, &p
	})
}

// isRefused waits until a pod is told that the database refuses it. A busy machine may have told it before that its row comes late.
func (g *gates) isRefused(t *testing.T, name string) {
	t.Helper()
	eventually(t, model.ReasonDatabaseRefused, func() string {
		said := ""
		for _, e := range g.c.eventsOf(name) {
			if said = e.Reason; said == model.ReasonDatabaseRefused {
				break
			}
		}
		return said
	})
}

// round goes from policy to policy, with a pause after each step, and ends where it began.
func (g *gates) round(i int, pause func()) {
	app := fmt.Sprint("web", i%5)
	for _, step := range []func(){
		func() { g.c.setPolicy(g.allowing("one", "")) },
		func() { g.c.setPolicy(g.allowing("two", "web")) },
		func() { g.c.deletePolicy(g.allowing("one", "").Key) },
		func() { g.c.setPolicy(g.allowing("three", app)) },
		func() { g.label("web", app) },
		func() { g.c.setPolicy(g.cluster("deny", app, model.Deny, "stranger")) },
		func() { g.c.setPolicy(g.cluster("mark", app, model.Allow, "friend")) },
		func() { g.c.deletePolicy(g.allowing("two", "").Key) },
		func() { g.c.deletePolicy(g.allowing("three", "").Key) },
		func() { g.c.setPolicy(g.cluster("deny", "", model.Deny, "stranger")) },
		func() { g.c.setPolicy(g.cluster("mark", "", model.Allow, "friend")) },
		func() { g.label("web", "web") },
		func() { g.c.setPolicy(g.allowing("one", "web")) },
		func() { g.c.deletePolicy(g.cluster("deny", "", model.Deny, "").Key) },
		func() { g.c.deletePolicy(g.cluster("mark", "", model.Allow, "").Key) },
	} {
		step()
		pause()
	}
}

// guarded is a Network red with web, a friend and a stranger, whom a policy keeps from web.
func guarded(t *testing.T, central *ovn.Central) *gates {
	t.Helper()
	c := newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	c.setNamespace("red", map[string]string{model.LabelNetwork: "red"})
	c.setNetwork(network("red", "front", "10.0.0.0/16"))
	for _, name := range []string{"web", "friend", "stranger"} {
		p := pod("red", name, "")
		p.Labels = map[string]string{"app": name}
		c.setPod(p)
	}
	g := &gates{c: c}
	c.setPolicy(g.allowing("one", "web"))
	eventually(t, "red/friend red/front:router red/stranger red/web", func() string { return ports(t, central, "red/front") })
	return g
}

// TestNothingIsOpenBetweenTwoTransactions: what all policies forbid is forbidden by what the database holds after each
// transaction, while policies and labels change faster than they can be written, while somebody takes the pod's port away or puts it
// into groups of others, and while the database refuses some pods.
func TestNothingIsOpenBetweenTwoTransactions(t *testing.T) {
	central := ovn.Start(t, false)
	g := guarded(t, central)
	// Somebody else has the names of ports to come.
	nbctl(t, central, "ls-add", "theirs")
	const rounds, taken = 60, 6
	for i := range taken {
		nbctl(t, central, "lsp-add", "theirs", fmt.Sprint("red/taken-", i))
	}
	looks, holes := 0, 0
	w := watch(t, central, func(w *watcher) {
		looks++
		if from, to := w.port("red/stranger"), w.port("red/web"); from != "" && to != "" && w.open(from, to) {
			holes++
		}
	})
	uuid := nbctl(t, central, "get", "Logical_Switch_Port", "red/web", "_uuid")
	seed := tier.Seed(t)
	over := make(chan struct{})
	var hand sync.WaitGroup
	hand.Go(func() {
		random := rand.New(rand.NewPCG(seed, 0))
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(random.IntN(40)) * time.Millisecond):
			}
			do := []string{"--if-exists", "remove", "Logical_Switch", "red/front", "ports", uuid}
			if i%3 == 2 {
				list, err := central.NBCtl(t.Context(), "--bare", "--columns=_uuid", "list", "Port_Group")
				groups := strings.Fields(list)
				if err != nil || len(groups) == 0 {
					t.Log(err)
					continue
				}
				do = []string{"--if-exists", "add", "Port_Group", groups[random.IntN(len(groups))], "ports", uuid}
			}
			// The row may have gone by then.
			_, _ = central.NBCtl(t.Context(), do...)
		}
	})
	// A busy machine tells of many transactions at once, and lets the hand do little: then it takes more rounds to see something.
	seen := func() (transactions, gone int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return looks, w.gone["Logical_Switch_Port"]
	}
	enough := func() bool {
		transactions, gone := seen()
		return transactions >= rounds && gone > 0
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < rounds || i < 10*rounds && !enough(); i++ {
		if i < rounds && i%(rounds/taken) == 0 {
			p := pod("red", fmt.Sprint("taken-", i*taken/rounds), "")
			p.Labels = map[string]string{"app": "web"}
			g.c.setPod(p)
		}
		g.round(i, func() { <-time.After(time.Duration(random.IntN(8)) * time.Millisecond) })
	}
	close(over)
	hand.Wait()
	for i := range taken {
		g.isRefused(t, fmt.Sprint("red/taken-", i))
	}
	_, gone := seen()
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d transactions seen, %d rows of ports gone", looks, gone)
	if holes > 0 || looks < rounds || gone == 0 {
		t.Errorf("nothing forbade what all policies forbid after %d of %d transactions, with %d rows of ports gone", holes, looks, gone)
	}
}

// TestARefusedPodDividesNoPolicies: policies that come and go together do so although the database refuses a pod that comes with
// them.
func TestARefusedPodDividesNoPolicies(t *testing.T) {
	central := ovn.Start(t, false)
	g := guarded(t, central)
	nbctl(t, central, "ls-add", "theirs")
	holes := 0
	w := watch(t, central, func(w *watcher) {
		if w.open(w.port("red/stranger"), w.port("red/web")) {
			holes++
		}
	})
	const times = 10
	deny, one := g.cluster("deny", "web", model.Deny, "stranger"), g.allowing("one", "")
	for i := range 2 * times {
		name := fmt.Sprint("taken-", i)
		nbctl(t, central, "lsp-add", "theirs", "red/"+name)
		p := pod("red", name, "")
		p.Labels = map[string]string{"app": "web"}
		comes, goes := deny, one
		if i%2 == 1 {
			comes, goes = one, deny
		}
		g.c.change(func() {
			g.c.policies[comes.Key], g.c.changes.Policies[comes.Key] = &comes, &comes
			delete(g.c.policies, goes.Key)
			g.c.changes.Policies[goes.Key] = nil
			g.c.pods[p.Key], g.c.changes.Pods[p.Key] = &p, &p
		})
		eventually(t, "true false", func() string {
			acls := func(p model.Policy) bool {
				return nbctl(t, central, "--bare", "--columns=_uuid", "find", "ACL",
					"external_ids:atoll.dev/owner="+compile.PolicyOwner(p.Key, "red").String()) != ""
			}
			return fmt.Sprint(acls(comes), acls(goes))
		})
		g.isRefused(t, "red/"+name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if holes > 0 {
		t.Errorf("%d times nothing forbade what all policies forbid", holes)
	}
}

// TestManyPodsChangePoliciesTogether: policies that concern more pods than one transaction writes otherwise, while more of
// these pods come.
func TestManyPodsChangePoliciesTogether(t *testing.T) {
	central := ovn.Start(t, false)
	g := guarded(t, central)
	many := 0
	more := func(n int) {
		for range n {
			p := pod("red", fmt.Sprintf("web-%04d", many), "")
			p.Labels = map[string]string{"app": "web"}
			g.c.setPod(p)
			many++
		}
	}
	more(1500)
	all := func() {
		t.Helper()
		eventually(t, fmt.Sprint(many), func() string { return fmt.Sprint(strings.Count(ports(t, central, "red/front"), "red/web-")) })
	}
	all()
	looks, holes := 0, 0
	w := watch(t, central, func(w *watcher) {
		from := w.port("red/stranger")
		looks++
		for uuid, row := range w.rows["Logical_Switch_Port"] {
			if strings.HasPrefix(row.name, "red/web-") && w.open(from, uuid) {
				holes++
			}
		}
	})
	deny, one := g.cluster("deny", "web", model.Deny, "stranger"), g.allowing("one", "")
	for i := range 6 {
		comes, goes := deny, one
		if i%2 == 1 {
			comes, goes = one, deny
		}
		more(150)
		g.c.change(func() {
			g.c.policies[comes.Key], g.c.changes.Policies[comes.Key] = &comes, &comes
			delete(g.c.policies, goes.Key)
			g.c.changes.Policies[goes.Key] = nil
		})
		more(150)
		all()
		eventually(t, "", func() string {
			return nbctl(t, central, "--bare", "--columns=_uuid", "find", "ACL",
				"external_ids:atoll.dev/owner="+compile.PolicyOwner(goes.Key, "red").String())
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d transactions seen", looks)
	if holes > 0 || looks < 4 {
		t.Errorf("%d times nothing forbade what all policies forbid, in %d looks", holes, looks)
	}
}

// TestAStrayPlaceGoesAndNothingElse: a port in a group where it does not belong leaves it, and so does an ACL; neither is made
// anew, which would cut the pod off, or open it.
func TestAStrayPlaceGoesAndNothingElse(t *testing.T) {
	central := ovn.Start(t, false)
	g := guarded(t, central)
	g.c.setPolicy(g.cluster("deny", "web", model.Deny, "stranger"))
	find := func(args ...string) []string {
		return strings.Fields(nbctl(t, central, append([]string{"--bare", "--columns=_uuid", "find"}, args...)...))
	}
	eventually(t, "1", func() string { return fmt.Sprint(len(find("ACL", "action=drop", "tier=1"))) })
	w := watch(t, central, func(*watcher) {})
	port, acl := find("Logical_Switch_Port", "name=red/web")[0], find("ACL", "action=drop", "tier=1")[0]
	// The friend's group, in which there is neither.
	friend := find("Port_Group", "ports="+find("Logical_Switch_Port", "name=red/friend")[0])[0]
	before := nbctl(t, central, "--columns=ports,acls", "list", "Port_Group")
	for _, place := range [][]string{{"ports", port}, {"acls", acl}} {
		nbctl(t, central, "add", "Port_Group", friend, place[0], place[1])
		eventually(t, before, func() string { return nbctl(t, central, "--columns=ports,acls", "list", "Port_Group") })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.gone) > 0 {
		t.Errorf("rows went: %v", w.gone)
	}
}
