package inspectapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// flowWorld is a cluster with the Networks acme and umbrella, of the same addresses, on nodes n1 and n2, and what their agents keep.
type flowWorld struct {
	*world
	flower *flower
	held   snapshot.Held
	// settings are the cluster's.
	settings config.Settings

	mu sync.Mutex
	// kept are the flows of each agent. leaky agents send all flows, whatever they are asked. down are agents that do not answer.
	kept  map[string][]model.Flow
	leaky bool
	down  map[string]error
	// comes are new flows that an agent sends to followers.
	comes chan model.Flow
	// again are earlier flows that an agent repeats for a follower that continues.
	again []model.Flow
	asked []nodeapi.FlowsQuestion
}

// hour is when the Networks were made.
var hour = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

func newFlowWorld(t *testing.T) *flowWorld {
	t.Helper()
	w := &flowWorld{
		world: newWorld(t), held: snapshot.Held{Objects: model.NewChanges(), Default: "default"}, down: map[string]error{},
		comes: make(chan model.Flow),
	}
	w.held.Status = func(string, string) (atoll.NetworkStatus, bool) {
		return atoll.NetworkStatus{Subnets: []atoll.SubnetStatus{{Name: "a", CIDR: "10.0.0.0/24", Gateway: "10.0.0.1"}}}, true
	}
	client := fake.NewClientset()
	for _, name := range []string{"n1", "n2"} {
		node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: name}}
		if err := client.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"acme", "umbrella"} {
		w.held.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
		w.held.Objects.Networks[name] = &model.Network{Name: name, UID: "uid-" + name, Type: model.VPC, Created: hour}
		if err := client.Tracker().Add(
			&core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name, UID: "uid-of-namespace", CreationTimestamp: meta.NewTime(hour)}}); err != nil {
			t.Fatal(err)
		}
		for i, pod := range []string{"web", "db"} {
			key := model.PodKey{Namespace: name, Name: pod}
			w.held.Objects.Pods[key] = &model.Pod{Key: key, UID: "uid-" + key.String(), Node: "n1", Created: hour, Assigned: []model.Attachment{{
				Interface: model.DefaultInterface, Network: name, NetworkUID: "uid-" + name, Subnet: "a",
				Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(5 + i)}), 24)},
				Faces:     []netip.Addr{netip.AddrFrom4([4]byte{100, 64, 0, byte(len(w.held.Objects.Pods) + 1)})},
			}}}
		}
	}
	w.kept = map[string][]model.Flow{
		"n1": {w.flow("acme", 2, "drop"), w.flow("umbrella", 3, "allow"), w.flow("acme", 5, "allow"), w.flow("umbrella", 6, "drop")},
		"n2": {w.flow("acme", 4, "allow")},
	}
	var err error
	if w.settings, err = config.Parse(config.Defaults()); err != nil {
		t.Fatal(err)
	}
	w.settings.Flows.On = true
	from := snapshot.Sources{
		Client: client, Held: func() (snapshot.Held, error) { return w.held, nil },
		Settings: func() (config.Settings, error) { w.mu.Lock(); defer w.mu.Unlock(); return w.settings, nil },
	}
	w.flower = newFlower(w.handler, sources{from}, w.tell)
	w.flower.bounds.again, w.flower.bounds.second, w.flower.bounds.beat = 50*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond
	served := httptest.NewUnstartedServer(
		w.handler.root(map[string]http.Handler{flowsPattern: w.flower, flowsNamePattern: w.flower, podFlowsPattern: w.flower}))
	served.TLS, served.EnableHTTP2 = w.TLS, true
	served.StartTLS()
	t.Cleanup(served.Close)
	w.URL = served.URL
	return w
}

// flow goes from db to web, some minutes after the Networks were made.
func (*flowWorld) flow(network string, minutes int, verdict string) model.Flow {
	then := hour.Add(time.Duration(minutes) * time.Minute)
	return model.Flow{
		Network: network, Direction: "Ingress", Policy: "NetworkPolicy/" + network + "/friends", Rule: "0", Verdict: verdict,
		Pod:    network + "/web",
		Source: netip.MustParseAddr("10.0.0.6"), Destination: netip.MustParseAddr("10.0.0.5"), Protocol: "tcp", Port: 80, Minute: then,
		Last: then, Connections: 1, Packets: 1, Bytes: 60,
	}
}

// tell is a FlowAgents.
func (w *flowWorld) tell(ctx context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error {
	w.mu.Lock()
	w.asked = append(w.asked, q)
	kept, leaky, down := slices.Clone(w.kept[on.Name]), w.leaky, w.down[on.Name]
	w.mu.Unlock()
	if err := q.Check(); err != nil {
		return err
	}
	if q.Flows.Again > 0 {
		kept = w.again
	}
	for _, f := range kept {
		if leaky || q.Flows.Asks(f) && (q.Flows.Since != time.Nanosecond || q.Flows.Again > 0) {
			if err := each(f); err != nil {
				return err
			}
		}
	}
	if down != nil || !q.Flows.Follow {
		return down
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case f := <-w.comes:
			if err := each(f); err != nil {
				return err
			}
		}
	}
}

// told is an answer, in short: MINUTE NETWORK VERDICT FROM TO of each flow, and how whole it is.
func told(t *testing.T, text string) (flows []string, end *api.FlowStatus) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l api.FlowLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if l.Flow != nil {
			name := func(e api.FlowEnd) string { return strings.TrimSpace(e.Kind + " " + e.Name) }
			flows = append(flows,
				fmt.Sprintf("%d %s %s %s>%s", l.Flow.Last.Minute(), l.Flow.Network, l.Flow.Verdict, name(l.Flow.From), name(l.Flow.To)))
		}
		end = l.End
	}
	return flows, end
}

// TestWhoIsToldOfFlows: RBAC decides before anything is looked up. A tenant's admin sees only flows of the tenant's own Network, even
// though another Network uses the same addresses, and cannot ask for another's flows. The control is an agent that sends all flows,
// and a user who may see them.
func TestWhoIsToldOfFlows(t *testing.T) {
	t.Parallel()
	acme := []string{"2 acme drop pod acme/db>pod acme/web", "4 acme allow pod acme/db>pod acme/web", "5 acme allow pod acme/db>pod acme/web"}
	umbrella := []string{"3 umbrella allow pod umbrella/db>pod umbrella/web", "6 umbrella drop pod umbrella/db>pod umbrella/web"}
	both := []string{acme[0], umbrella[0], acme[1], acme[2], umbrella[1]}
	for _, c := range []struct {
		user, path string
		status     int
		want       []string
		says       string
	}{
		{"jo", "/flows/acme", 200, acme, ""},
		{"jo", "/flows", 200, acme, ""},
		{"jo", "/flows?network=acme", 200, acme, ""},
		{"jo", "/flows/acme?drops=true", 200, acme[:1], ""},
		{"jo", "/flows/acme?pod=acme/db", 200, acme, ""},
		{"jo", "/flows/acme?pod=umbrella/web", 200, nil, ""},
		{"jo", "/flows/acme?namespace=umbrella", 200, nil, ""},
		{"jo", "/flows/acme?namespace=nobodys", 200, nil, ""},
		{"jo", "/flows/acme?network=umbrella", 200, acme, ""},
		{"jo", "/namespaces/acme/podflows", 200, acme, ""},
		{"jo", "/namespaces/acme/podflows?network=umbrella", 200, acme, ""},
		{"operator", "/flows", 200, both, ""},
		{"operator", "/flows/umbrella", 200, umbrella, ""},
		{"operator", "/flows?namespace=umbrella", 200, umbrella, ""},
		{"jo", "/flows/umbrella", 403, nil, `User "jo" cannot get resource "flows"`},
		{"jo", "/flows/nobodys", 403, nil, `User "jo" cannot get resource "flows"`},
		{"jo", "/flows?network=umbrella", 403, nil, `User "jo" cannot get resource "flows"`},
		{"jo", "/flows?network=acme&network=umbrella", 403, nil, `User "jo" cannot get resource "flows"`},
		{"jo", "/flows?watch=true&network=umbrella", 403, nil, `User "jo" cannot get resource "flows"`},
		{
			"jo", "/namespaces/umbrella/podflows", 403, nil,
			`cannot list resource "podflows" in API group "inspect.atoll.dev" in the namespace "umbrella"`,
		},
		{"viewer", "/flows", 403, nil, `cannot list resource "flows"`},
		{"viewer", "/flows?watch=true", 403, nil, `cannot watch resource "flows"`},
		{"", "/flows", 401, nil, "nobody says who asks"},
		{"operator", "/flows/nobodys", 400, nil, "Network nobodys does not exist"},
		{"jo", "/flows/acme?watch=true", 400, nil, "flows?watch=true&network=acme"},
		{"jo", "/flows/acme?since=soon", 400, nil, "no duration"},
		{"jo", "/flows/acme?until=soon", 400, nil, "no duration"},
		{"jo", "/flows?watch=true&until=5m", 400, nil, "does not end in the past"},
		{"jo", "/flows/acme?pod=web", 400, nil, "NAMESPACE/NAME"},
		{"jo", "/flows/acme?network=", 400, nil, "name at most"},
	} {
		for _, leaky := range []bool{false, true} {
			w := newFlowWorld(t)
			w.leaky = leaky
			status, text := w.ask(t, w.client, c.user, c.path)
			if status != c.status || !strings.Contains(text, c.says) || status != 200 && len(w.asked) > 0 {
				t.Errorf("%s asks for %s: %d %s; %d agents are asked", c.user, c.path, status, text, len(w.asked))
				continue
			}
			if status != 200 {
				continue
			}
			got, end := told(t, text)
			if !slices.Equal(got, c.want) || end == nil || !end.Whole() || end.Nodes != 2 {
				t.Errorf("%s asks for %s (agents tell everything: %t): %q, %+v; want %q", c.user, c.path, leaky, got, end, c.want)
			}
		}
	}
}

// TestOthersOfTheSameName: for a Network or a namespace that was deleted and created anew, no user sees earlier flows.
func TestOthersOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.held.Objects.Networks["acme"].Created = hour.Add(3 * time.Minute)
	for _, path := range []string{"/flows/acme", "/flows"} {
		if got, _ := told(t, second(w.ask(t, w.client, "jo", path))); len(got) != 2 || got[0] != "4 acme allow pod acme/db>pod acme/web" {
			t.Errorf("of %s is told %q", path, got)
		}
	}
}

func second(_ int, text string) string { return text }

// TestWhatIsMissingIsSaid: a node that does not answer is named to users who see its pods, and only counted for others. If there are
// too many flows, the answer says so and has the newest. There is an own answer for "nothing is sampled".
func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.down["n1"], w.down["n2"] = errors.New("open vSwitch takes no samples"), errors.New("connection refused")
	got, end := told(t, second(w.ask(t, w.client, "jo", "/flows/acme")))
	if len(got) != 3 || end.Nodes != 0 || len(end.Silent) != 1 || end.Silent[0].Node != "n1" ||
		end.Silent[0].Why != "open vSwitch takes no samples" || end.Others != 1 {
		t.Errorf("jo is told %q, %+v", got, end)
	}
	if _, end = told(t, second(w.ask(t, w.client, "operator", "/flows/acme"))); len(end.Silent) != 2 || end.Others != 0 {
		t.Errorf("the operator is told %+v", end)
	}
	clear(w.down)
	w.flower.bounds.told = 2
	if got, end = told(t, second(w.ask(t, w.client, "operator", "/flows"))); !end.Cut || len(got) != 2 ||
		!strings.HasPrefix(got[1], "6 umbrella") {
		t.Errorf("of too much is told %q, %+v", got, end)
	}
	w.flower.bounds.told, w.flower.bounds.gather = 100, 50*time.Millisecond
	w.flower.agents = func(ctx context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error {
		if on.Name == "n2" {
			<-ctx.Done()
			return ctx.Err()
		}
		return w.tell(ctx, on, q, each)
	}
	if got, end = told(t, second(w.ask(t, w.client, "operator", "/flows/acme"))); len(got) != 2 || end.Nodes != 1 || len(end.Silent) != 1 ||
		!strings.Contains(end.Silent[0].Why, "it took more than 50ms") {
		t.Errorf("while one node is slow: %q, %+v", got, end)
	}
	for name, c := range map[string]struct {
		flows config.Flows
		path  string
		code  int
		says  string
	}{
		"off": {
			config.Flows{},
			"/flows/acme",
			409, `flows.sampling of the AtollConfig is Off. Next, for who administers the cluster: kubectl patch atollconfig cluster`,
		},
		"of others": {
			config.Flows{On: true, Networks: []string{"umbrella"}}, "/flows/acme", 409, "flows of Network acme are not sampled",
		},
		"of others' pods": {
			config.Flows{On: true, Networks: []string{"umbrella"}}, "/namespaces/acme/podflows", 409, "flows of Network acme are not sampled",
		},
		"the control":       {config.Flows{On: true, Networks: []string{"acme"}}, "/flows/acme", 200, `"end"`},
		"off, of the whole": {config.Flows{}, "/flows", 409, "is Off"},
	} {
		w.settings.Flows = c.flows
		if code, text := w.ask(t, w.client, "jo", c.path); code != c.code || !strings.Contains(text, c.says) ||
			strings.Contains(text, "umbrella") {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

// follow starts to follow, and returns a function that waits for a line.
func (w *flowWorld) follow(t *testing.T, user, network string) (next func(func(api.FlowLine) bool) api.FlowLine, lines *bufio.Scanner) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		w.URL+"/apis/inspect.atoll.dev/v1alpha1/flows?watch=true&network="+network, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Remote-User", user)
	answer, err := w.client.Do(request)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %+v", err, answer)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines = bufio.NewScanner(answer.Body)
	next = func(wanted func(api.FlowLine) bool) api.FlowLine {
		t.Helper()
		for {
			if !lines.Scan() {
				t.Fatalf("it ends: %v", lines.Err())
			}
			var l api.FlowLine
			if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			if wanted(l) {
				return l
			}
		}
	}
	next(func(l api.FlowLine) bool { return l == api.FlowLine{} })
	return next, lines
}

// TestFlowsAreFollowed: a follower receives new flows of the follower's own Network, until the right is revoked.
func TestFlowsAreFollowed(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	next, lines := w.follow(t, "jo", "acme")
	// The agent also sends a flow of another Network. It is dropped: the first flow that arrives is of jo's Network.
	w.comes <- w.flow("umbrella", 8, "drop")
	w.comes <- w.flow("acme", 9, "drop")
	l := next(func(l api.FlowLine) bool { return l.Flow != nil })
	if l.Flow.Network != "acme" || l.Flow.To.Name != "acme/web" || l.Flow.From.Name != "acme/db" || l.Flow.Node != "n1" {
		t.Errorf("he is told of %+v", l.Flow)
	}
	w.mu.Lock()
	for _, q := range w.asked {
		if len(q.Flows.Networks) != 1 || q.Flows.Networks[0] != "acme" || q.All {
			t.Errorf("an agent is asked %+v", q)
		}
	}
	// When jo loses the right, the stream ends with the reason.
	w.mu.Unlock()
	jo := "jo"
	w.revoked.Store(&jo)
	w.forget()
	if l = next(func(l api.FlowLine) bool { return l.Error != "" }); !strings.Contains(l.Error, "cannot watch resource") {
		t.Errorf("it ends with %q", l.Error)
	}
	if lines.Scan() {
		t.Errorf("and then comes %s", lines.Text())
	}
}

// TestFollowersAreToldOfNodes: a lost node is reported once, and again when it is back. A Network that was deleted and created anew
// is another Network.
func TestFollowersAreToldOfNodes(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.down["n1"] = errors.New("connection refused")
	next, _ := w.follow(t, "jo", "acme")
	if l := next(func(l api.FlowLine) bool { return l.Silent != nil }); *l.Silent != (api.SilentNode{Node: "n1", Why: "connection refused"}) {
		t.Errorf("he is told %+v", l.Silent)
	}
	w.mu.Lock()
	clear(w.down)
	w.mu.Unlock()
	w.comes <- w.flow("acme", 9, "drop")
	if l := next(func(l api.FlowLine) bool { return l.Silent != nil || l.Flow != nil }); l.Silent == nil ||
		*l.Silent != (api.SilentNode{Node: "n1"}) {
		t.Errorf("when it is back he is told %+v", l)
	}
	if l := next(func(l api.FlowLine) bool { return l.Flow != nil }); l.Flow.Network != "acme" {
		t.Errorf("then %+v", l.Flow)
	}
	w.mu.Lock()
	w.settings.Flows.On = false
	w.mu.Unlock()
	if l := next(func(l api.FlowLine) bool { return l.Error != "" }); !strings.Contains(l.Error, "is Off") {
		t.Errorf("when sampling is ended he is told %+v", l)
	}
}

// TestFollowersAreRenewed: after the longest time, a follower is told to ask again, and then gets the flows of the gap from the
// agents. If an agent ends first, the follower does not notice: flows that the agent repeats arrive once.
func TestFollowersAreRenewed(t *testing.T) {
	t.Parallel()
	w := newFlowWorld(t)
	w.flower.bounds.lasts = 200 * time.Millisecond
	next, lines := w.follow(t, "jo", "acme")
	if l := next(func(l api.FlowLine) bool { return l.Renew || l.Error != "" }); !l.Renew || !strings.Contains(l.Error, "ask again") {
		t.Errorf("it ends with %+v", l)
	}
	if lines.Scan() {
		t.Errorf("and then comes %s", lines.Text())
	}
	w = newFlowWorld(t)
	w.again = []model.Flow{w.flow("acme", 8, "drop")}
	next, _ = w.follow(t, "jo", "acme&again=3s")
	if l := next(func(l api.FlowLine) bool { return l.Flow != nil }); l.Flow.Last.Minute() != 8 {
		t.Errorf("again is told %+v", l.Flow)
	}
	w.mu.Lock()
	if q := w.asked[len(w.asked)-1]; q.Flows.Again != 3*time.Second || q.User != "jo" || q.Account.Share == "" {
		t.Errorf("an agent is asked %+v", q)
	}
	w.mu.Unlock()
	for _, bad := range []string{
		"/flows?watch=true&network=acme&again=31s", "/flows?network=acme&again=3s", "/flows?watch=true&network=acme&again=soon",
	} {
		if status, text := w.ask(t, w.client, "jo", bad); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
	// An agent that ends.
	ending := newFlowWorld(t)
	ending.again = []model.Flow{ending.flow("acme", 8, "drop"), ending.flow("acme", 9, "drop")}
	ending.flower.bounds.beat = time.Nanosecond
	asks := 0
	ending.flower.agents = func(ctx context.Context, on snapshot.AgentNode, q nodeapi.FlowsQuestion, each func(model.Flow) error) error {
		if asks++; asks == 1 {
			return each(ending.flow("acme", 8, "drop"))
		}
		return ending.tell(ctx, on, q, each)
	}
	next, _ = ending.follow(t, "jo", "acme")
	for _, want := range []int{8, 9} {
		if l := next(func(l api.FlowLine) bool { return l.Flow != nil || l.Silent != nil }); l.Flow == nil || l.Flow.Last.Minute() != want {
			t.Errorf("told is %+v, want minute %d", l, want)
		}
	}
}
