package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// flowsNow is when the tests' pages are looked at.
var flowsNow = time.Date(2026, 5, 4, 10, 5, 30, 0, time.UTC)

// podEnd is a pod of a Network that has the name of its namespace.
func podEnd(name, address string) api.FlowEnd {
	network, _, _ := strings.Cut(name, "/")
	return api.FlowEnd{Address: address, Kind: api.FlowPod, Name: name, Network: network}
}

// judged is a flow that a policy decided about at To, some minutes before now.
func judged(now time.Time, minutes int, from, to api.FlowEnd, verdict, policy string, n uint64) api.Flow {
	last := now.Add(-time.Duration(minutes) * time.Minute)
	return api.Flow{
		Network: to.Network, From: from, To: to, Protocol: "tcp", Port: 80, Verdict: verdict, Policy: policy, Rule: "0", Direction: "Ingress",
		Node:   "n2",
		Minute: meta.NewTime(last.Truncate(time.Minute)), Last: meta.NewMicroTime(last), Connections: n, Packets: n, Bytes: 60 * n,
	}
}

// sampleFlows are flows between the pods of the sample: now, and others twenty minutes ago. Who reaches another Network's pod is
// judged at both ends.
func sampleFlows(now time.Time) (out []api.Flow) {
	const fromWeb = "NetworkPolicy/red/db-from-web"
	web, db, friend, locked := podEnd("red/web-0", "10.0.0.2"), podEnd("red/db-0", "10.0.1.2"), podEnd("red/friend",
		"10.0.0.4"), podEnd("red/locked", "10.0.0.3")
	for minutes := range 4 {
		f := judged(now, minutes, web, db, verdictAllow, fromWeb, 15)
		f.Port = 5432
		out = append(out, f)
	}
	out = append(out, judged(now, 1, friend, locked, verdictDrop, "isolation", 9))
	// Of a face: at blue's pod, and at red's.
	egress := judged(now, 2, podEnd("blue/web-0", "10.0.0.2"), podEnd("red/web-0", "100.64.0.0"), verdictAllow, "NetworkPolicy/blue/out", 500)
	egress.Network, egress.Direction = "blue", "Egress"
	ingress := judged(now, 2, podEnd("blue/web-0", "100.64.1.0"), podEnd("red/web-0", "10.0.0.2"), verdictAllow, "NetworkPolicy/red/friends",
		450)
	refused := ingress
	refused.Verdict, refused.Policy, refused.Connections = verdictReject, "ClusterNetworkPolicy/quota", 50
	outside := judged(now, 0, api.FlowEnd{Address: "203.0.113.9", Kind: api.FlowOutside}, web, verdictDrop, "isolation", 3)
	outside.Protocol, outside.Port = "icmp", 0
	service := judged(now, 3, podEnd("red/web-1", "10.0.0.5"),
		api.FlowEnd{Address: "10.96.0.1", Kind: api.FlowService, Name: "default/kubernetes"}, verdictAllow, "NetworkPolicy/red/api", 7)
	service.Network, service.Direction, service.Port = "red", "Egress", 443
	stranger := judged(now, 1, api.FlowEnd{Address: "10.0.0.77"}, podEnd("blue/db-0", "10.0.1.2"), verdictDrop, "isolation", 2)
	return append(out, egress, ingress, refused, outside, service, stranger,
		judged(now, 20, podEnd("red/same", "10.0.0.10"), db, verdictDrop, "NetworkPolicy/red/lock", 40))
}

func (s *site) overlay(query string) (o overlay) {
	s.t.Helper()
	status, text := s.get("/graph/flows?" + query)
	if status != http.StatusOK {
		s.t.Fatalf("%s: status %d: %s", query, status, text)
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		s.t.Fatal(err)
	}
	return o
}

// strokes are the edges of flows in words.
func (o overlay) strokes() (out []string) {
	for _, e := range o.Edges {
		out = append(out, strings.ReplaceAll(e.From+" -> "+e.To+": "+strings.ReplaceAll(e.Label, "\n", " ")+" "+e.State, "network/", ""))
	}
	slices.Sort(out)
	return out
}

// TestFlowsOnTheMap: edges between Networks, and between pods where these are shown, have rate, verdict and policy; of the window
// that is asked for. What both ends have let through is one connection, and an address means something in its Network alone.
func TestFlowsOnTheMap(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.flows = sampleFlows(flowsNow)
	s := newSite(t, c)
	for query, want := range map[string][]string{
		"": {
			"blue -> red: 1.7/s allowed NetworkPolicy/blue/out and 1 more good", "blue -> red: 11/min dropped ClusterNetworkPolicy/quota bad",
			"end/others -> blue: 0.4/min dropped isolation bad",
			"end/outside -> red: 0.7/min dropped isolation bad", "red -> end/Services: 1.6/min allowed NetworkPolicy/red/api good",
			"red -> red: 13/min allowed NetworkPolicy/red/db-from-web good", "red -> red: 2.0/min dropped isolation bad",
		},
		"open=red": {
			"blue -> red/router/red: 1.7/s allowed NetworkPolicy/blue/out and 1 more good",
			"blue -> red/router/red: 11/min dropped ClusterNetworkPolicy/quota bad", "end/others -> blue: 0.4/min dropped isolation bad",
			"end/outside -> red/router/red: 0.7/min dropped isolation bad",
			"red/router/red -> end/Services: 1.6/min allowed NetworkPolicy/red/api good",
			"red/router/red -> red/router/red: 13/min allowed NetworkPolicy/red/db-from-web good",
			"red/router/red -> red/router/red: 2.0/min dropped isolation bad",
		},
		"open=red&pods=red": {
			"blue -> red/pod/red/web-0: 1.7/s allowed NetworkPolicy/blue/out and 1 more good",
			"blue -> red/pod/red/web-0: 11/min dropped ClusterNetworkPolicy/quota bad", "end/others -> blue: 0.4/min dropped isolation bad",
			"end/outside -> red/pod/red/web-0: 0.7/min dropped isolation bad",
			"red/pod/red/friend -> red/pod/red/locked: 2.0/min dropped isolation bad",
			"red/pod/red/web-0 -> red/pod/red/db-0: 13/min allowed NetworkPolicy/red/db-from-web good",
			"red/pod/red/web-1 -> end/Services: 1.6/min allowed NetworkPolicy/red/api good",
		},
		"at=2026-05-04T09:48:00Z": {"red -> red: 8.0/min dropped NetworkPolicy/red/lock bad"},
		"minutes=-19":             {"red -> red: 8.0/min dropped NetworkPolicy/red/lock bad"},
		"minutes=-10":             nil,
	} {
		o := s.overlay(query)
		if got := o.strokes(); !slices.Equal(got, want) {
			t.Errorf("%q: %s\nwant %s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		p := s.graph(query)
		for _, n := range o.Nodes {
			for _, other := range p.Nodes {
				if n.Y-n.H/2 < other.Y+other.H/2 {
					t.Errorf("%q: %s lies on %s", query, n.ID, other.ID)
				}
			}
		}
		for _, e := range o.Edges {
			for _, end := range []string{e.From, e.To} {
				if p.node(end) == nil && !slices.ContainsFunc(o.Nodes, func(n node) bool { return n.ID == end }) {
					t.Errorf("%q: %s has an end that is nowhere: %s", query, e.ID, end)
				}
			}
		}
	}
	o := s.overlay("open=red&pods=red")
	if o.Words != "10:01 to now" || o.Said != "10:01 to now: 517 connections allowed, 64 dropped" || o.Why != "" || o.Ends != "" {
		t.Errorf("it says %q, %q, %q", o.Words, o.Said, o.Why)
	}
	if i := slices.IndexFunc(o.Edges, func(e edge) bool { return strings.Contains(e.To, "locked") }); i < 0 ||
		o.Edges[i].Says != "from pod red/friend to pod red/locked: 2.0/min dropped by isolation" {
		t.Errorf("of what is dropped a screen reader says %+v", o.Edges)
	}
	if o := s.overlay("minutes=-19"); o.Words != "09:41 to 09:46, 19 minutes ago" || o.Ends != "2026-05-04T09:46:00Z" {
		t.Errorf("the past is %+v", o)
	}
}

// TestTheSameAddressInTwoNetworks: flows of two Networks between the same addresses are two lines, and what is not known to be in
// a Network is in none.
func TestTheSameAddressInTwoNetworks(t *testing.T) {
	t.Parallel()
	c := sample(t)
	for _, network := range []string{"red", "blue"} {
		named := judged(flowsNow, 1, podEnd(network+"/web-0", "10.0.0.2"), podEnd(network+"/db-0", "10.0.1.2"), verdictAllow,
			"NetworkPolicy/"+network+"/p", 9)
		lone := judged(flowsNow, 1, api.FlowEnd{Address: "10.0.0.99"}, podEnd(network+"/db-0", "10.0.1.2"), verdictDrop, "isolation", 9)
		// An API that does not say where a peer's pod is.
		old := judged(flowsNow, 1, api.FlowEnd{Address: "100.64.0.1", Kind: api.FlowPod, Name: "acme-web/shop"},
			podEnd(network+"/db-0", "10.0.1.2"), verdictAllow, "NetworkPolicy/"+network+"/p", 9)
		old.To.Network = ""
		c.flows = append(c.flows, named, lone, old)
	}
	want := []string{
		"blue -> blue: 2.0/min allowed NetworkPolicy/blue/p good", "end/others -> blue: 2.0/min allowed NetworkPolicy/blue/p good",
		"end/others -> blue: 2.0/min dropped isolation bad",
		"end/others -> red: 2.0/min allowed NetworkPolicy/red/p good", "end/others -> red: 2.0/min dropped isolation bad",
		"red -> red: 2.0/min allowed NetworkPolicy/red/p good",
	}
	s := newSite(t, c)
	if got := s.overlay("").strokes(); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	// What nobody knows by name is asked about by its address, in its Network.
	for _, network := range []string{"red", "blue"} {
		text := s.says("/line?from=others&to=Network+"+network+"&verdict=dropped", "From others to Network "+network+", dropped",
			"10.0.0.99 "+network+"/db-0")
		if !strings.Contains(text, "/explain?from=10.0.0.99&amp;network="+network+"&amp;port=80&amp;protocol=tcp&amp;to="+network+"%2Fdb-0") {
			t.Errorf("it does not ask in Network %s: %s", network, words(text))
		}
	}
}

// TestPassIsNoVerdict: who leaves it to other policies has not decided, if these have; where nothing else did, it went through.
func TestPassIsNoVerdict(t *testing.T) {
	t.Parallel()
	a, b := podEnd("red/web-0", "10.0.0.2"), podEnd("red/db-0", "10.0.1.2")
	for what, c := range map[string]struct {
		flows            []api.Flow
		allowed, dropped uint64
	}{
		"passed alone": {[]api.Flow{judged(flowsNow, 0, a, b, verdictPass, "p", 4)}, 4, 0},
		"then dropped": {
			[]api.Flow{judged(flowsNow, 0, a, b, verdictPass, "p", 4), judged(flowsNow, 0, a, b, verdictDrop, "q", 4)}, 0, 4,
		},
		"then allowed": {
			[]api.Flow{judged(flowsNow, 0, a, b, verdictPass, "p", 4), judged(flowsNow, 0, a, b, verdictAllow, "q", 4)}, 4, 0,
		},
		"by what nobody knows": {[]api.Flow{judged(flowsNow, 0, a, b, "", "", 4)}, 0, 0},
		"before another policy": {
			[]api.Flow{judged(flowsNow, 0, a, b, verdictAllow, "p", 4), judged(flowsNow, 0, a, b, verdictReject, "q", 3)}, 4, 3,
		},
	} {
		all := talksOf(c.flows)
		if len(all) != 1 || all[0].connections(false) != c.allowed || all[0].connections(true) != c.dropped {
			t.Errorf("%s: %+v", what, all)
		}
	}
}

// TestFlowsInWords: the table has what the map has, and each flow as `atoll flows -o wide` prints it.
func TestFlowsInWords(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.flows, c.flowStatus = sampleFlows(flowsNow), api.FlowStatus{Nodes: 2, Silent: []api.SilentNode{{Node: "n3", Why: "connection refused"}}}
	s := newSite(t, c)
	text := s.says("/flows", "10:01 to now", "not all is told. Missing are flows of node n3: connection refused",
		"Network red Network red allowed 13/min 60 NetworkPolicy/red/db-from-web Explain",
		"Network blue Network red dropped 11/min 50 ClusterNetworkPolicy/quota Explain", "outside Network red dropped 0.7/min 3 isolation",
		"red/web-0 10.0.0.2 red/db-0 10.0.1.2 tcp 5432 allow NetworkPolicy/red/db-from-web 13/min 60 10:05:30 red Ingress 0 n2 60 3600",
		"blue/web-0 100.64.1.0 red/web-0 10.0.0.2 tcp 80 reject ClusterNetworkPolicy/quota 11/min 50 10:03:30 red",
		"outside 203.0.113.9 red/web-0 10.0.0.2 icmp drop isolation", "red/web-1 10.0.0.5 svc/default/kubernetes 10.96.0.1 tcp 443 allow")
	if !strings.Contains(text, `href="/explain?from=red%2Ffriend&amp;port=80&amp;protocol=tcp&amp;to=red%2Flocked"`) {
		t.Error("a flow does not lead to how its way is explained")
	}
	if !strings.Contains(text, `href="/flows?at=2026-05-04T10%3A01%3A00Z"`) {
		t.Error("there is no way to what was before")
	}
	s.says("/flows?at=2026-05-04T09:46:00Z", "09:41 to 09:46, 19 minutes ago",
		"red/same 10.0.0.10 red/db-0 10.0.1.2 tcp 80 drop NetworkPolicy/red/lock 8.0/min 40")
	s.says("/flows?minutes=-19&minutes=", "09:41 to 09:46, 19 minutes ago")
	if text := s.says("/flows?network=blue", "Flows of Network blue", "blue/web-0"); strings.Contains(text, "red/locked") {
		t.Error("of blue's flows red's own are told")
	}
	s.says("/flows?at=2026-05-04T09:30:00Z", "No flow that you may see in these minutes")
	s.says("/network/red", "Flows")
}

// TestFlowsThatNobodyTells: where no node answers, neither the page nor the map says that there is no flow.
func TestFlowsThatNobodyTells(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.flowStatus = api.FlowStatus{Silent: []api.SilentNode{{Node: "n1", Why: "OVN's southbound database was not asked"}}}
	s := newSite(t, c)
	status, text := s.get("/flows")
	s.has("/flows", text, "nothing is known", "Next: kubectl -n atoll-system get pods")
	if status != http.StatusBadGateway || strings.Contains(text, "No flow") {
		t.Errorf("the page says %d: %s", status, words(text))
	}
	if o := s.overlay(""); len(o.Edges) > 0 || !strings.Contains(o.Why, "nothing is known") {
		t.Errorf("the map says %+v", o)
	}
}

// TestALineIsExplained: who opens a line of the map reads its flows, and how the first of them goes.
func TestALineIsExplained(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.flows = sampleFlows(flowsNow)
	s := newSite(t, c)
	for _, query := range []string{"", "open=red&pods=red"} {
		o := s.overlay(query)
		for _, e := range o.Edges {
			text := s.says(e.Link, "Explain")
			if strings.Contains(e.Link, "from=others") || strings.Contains(e.Link, "from=outside") && query != "" {
				continue
			}
			if !strings.Contains(text, `id="verdict"`) || !strings.Contains(text, "<tr><td>") {
				t.Errorf("%s does not explain: %s", e.Link, words(text))
			}
		}
		i := slices.IndexFunc(o.Edges, func(e edge) bool {
			return e.State == "bad" && strings.Contains(e.To, "red") && strings.Contains(e.From, "red")
		})
		text := s.says(o.Edges[i].Link, "dropped", "red/friend 10.0.0.4 red/locked 10.0.0.3 tcp 80 drop isolation",
			"From red/friend to red/locked, as it is now", "Stopped: red/friend to red/locked", "STOP")
		if !strings.Contains(text, `value="red/friend"`) || !strings.Contains(text, `value="80"`) {
			t.Error("the form does not have the ends")
		}
	}
	c.explain = nil
	for query, want := range map[string]string{
		"": "name both ends", "from=a&to=b": "and its verdict", "from=a&to=b&verdict=x": "and its verdict",
		"from=a&to=b&verdict=dropped&at=soon": "write a time",
	} {
		status, text := s.get("/line?" + query)
		if status != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, status)
		}
		s.has(query, text, want)
	}
}

// TestWithoutFlows: who may not see any is told so in words, on the map and in the table; and so is that nothing is sampled.
func TestWithoutFlows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    error
		status int
		want   string
	}{
		{
			apierrors.NewForbidden(schema.GroupResource{Group: api.GroupName, Resource: "flows"},
				"", errors.New(`User "jo" cannot list resource "flows"`)), http.StatusForbidden, "you may not see any here",
		},
		{
			apierrors.NewConflict(schema.GroupResource{Group: api.GroupName, Resource: "flows"},
				"", errors.New("flows are not sampled. Next: kubectl patch")), http.StatusConflict, "flows are not sampled. Next: kubectl patch",
		},
		{errors.New("nobody answers"), http.StatusBadGateway, "nobody answers"},
	} {
		source := sample(t)
		source.flows, source.refused = sampleFlows(flowsNow), c.why
		s := newSite(t, source)
		for _, path := range []string{"/flows", "/line?from=Network+red&to=Network+red&verdict=allowed"} {
			status, text := s.get(path)
			if status != c.status || strings.Contains(text, "db-from-web") {
				t.Errorf("%s: status %d, want %d", path, status, c.status)
			}
			s.has(path, text, c.want)
		}
		if o := s.overlay(""); len(o.Edges)+len(o.Nodes) != 0 || !strings.Contains(o.Why, c.want) || !strings.Contains(o.Said, c.want) {
			t.Errorf("the map says %+v", o)
		}
	}
}

// TestWindows: a window is of whole minutes of the hour that is kept.
func TestWindows(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"": "10:01 to now", "minutes=0": "10:01 to now", "minutes=-1": "09:59 to 10:04, 1 minute ago",
		"minutes=-55": "09:05 to 09:10, 55 minutes ago", "minutes=-9999999999999": "09:05 to 09:10, 55 minutes ago",
		"minutes=-900": "09:05 to 09:10, 55 minutes ago",
		"minutes=3":    "number", "minutes=x": "number", "at=2026-05-04T10:05:00Z": "10:00 to 10:05", "at=2026-05-04T10:05:59Z": "10:01 to now",
		"at=2026-05-04T12:04:00%2B02:00": "09:59 to 10:04, 1 minute ago",
		"at=2026-05-04T11:00:00Z":        "10:01 to now", "at=2000-01-01T00:00:00Z": "09:05 to 09:10, 55 minutes ago", "at=10:05": "write a time",
	} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		w, err := windowAt(q, flowsNow)
		if got := fmt.Sprint(w.words(time.UTC), " ", err); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if err == nil && (w.Live != strings.Contains(want, "now") || w.Ends.Sub(w.Begins) > span || w.Ends.Sub(w.Begins) < span-time.Minute) {
			t.Errorf("%s: %+v", query, w)
		}
	}
	for n, want := range map[uint64]string{
		0: "0.0/min", 1: "0.2/min", 50: "10/min", 299: "60/min", 300: "1.0/s", 3000: "10/s", 300_000: "1000/s",
	} {
		if got := (window{Begins: flowsNow.Add(-span), Ends: flowsNow}).rate(n); got != want {
			t.Errorf("%d in five minutes are %s, want %s", n, got, want)
		}
	}
}

// TestAWindowIsAskedForOnce: map and table of a window are one answer, for a while; few are held, and they are asked for by their ages.
func TestAWindowIsAskedForOnce(t *testing.T) {
	t.Parallel()
	c := sample(t)
	c.flows = sampleFlows(flowsNow)
	s := newSite(t, c)
	now := flowsNow
	s.server.now = func() time.Time { return now }
	asks := func(path string, want int) {
		t.Helper()
		before := c.questions()
		s.says(path)
		if n := c.questions() - before; n != want {
			t.Errorf("%s asks %d times, want %d", path, n, want)
		}
	}
	asks("/flows", 1)
	asks("/flows", 0)
	asks("/flows?minutes=-19", 1)
	asks("/flows?minutes=-19", 0)
	if q := c.asked[1]; q.Since != 25*time.Minute+30*time.Second || q.Until != 18*time.Minute+30*time.Second || q.Follow {
		t.Errorf("the past is asked for by %+v", q)
	}
	now = now.Add(freshFor + time.Second)
	asks("/flows", 1)
	asks("/flows?minutes=-19", 0)
	for minutes := range 10 {
		asks(fmt.Sprintf("/flows?minutes=-%d", 20+minutes), 1)
	}
	if n := len(s.server.flows.held); n != maxWindows {
		t.Errorf("%d windows are held", n)
	}
	now = now.Add(heldFor + time.Second)
	asks("/flows", 1)
	if n := len(s.server.flows.held); n != 1 {
		t.Errorf("%d windows are held that are old", n)
	}
}

// crowd are as many flows as an answer has, of all of a thousand Networks: within, and to another.
func crowd(networks []api.Network) func(now time.Time) []api.Flow {
	return func(now time.Time) (out []api.Flow) {
		for i := range 16_384 {
			network, other := networks[i%1000].Name, networks[i*7%1000].Name
			verdict := []string{verdictAllow, verdictAllow, verdictDrop}[i%3]
			if i%2 == 0 {
				other = network
			}
			f := judged(now, i%5, podEnd(other+"/web-0", "10.0.0.2"), podEnd(network+"/web-1", "10.0.0.3"), verdict, "NetworkPolicy/"+network+"/web",
				uint64(i%40))
			f.Port = uint16(i)
			out = append(out, f)
		}
		return out
	}
}

// TestFlowsOfAThousandNetworks: of as many flows as an answer has, what the page gets is bounded, and so are the lines of the map.
func TestFlowsOfAThousandNetworks(t *testing.T) {
	t.Parallel()
	c := thousand()
	c.flows = crowd(c.networks)(flowsNow)
	s := newSite(t, c)
	for path, most := range map[string]int{"/graph/flows?": 400_000, "/graph/flows?all=1": 400_000, "/flows?": 800_000} {
		if _, text := s.get(path); len(text) > most {
			t.Errorf("%s has %d bytes, want at most %d", path, len(text), most)
		}
	}
	if o := s.overlay("all=1"); len(o.Edges) != maxStrokes || !strings.Contains(o.Said, "the map has the first 400 of") {
		t.Errorf("the map has %d lines, and says %s", len(o.Edges), o.Said)
	}
	s.says("/flows", "500 flows, and ", " more (atoll flows -o json has all)")
}
