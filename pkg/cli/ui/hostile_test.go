package ui

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
)

// hostileWords are texts that an attacker may put into names and reasons to inject HTML into the page.
var hostileWords = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, `' hx-on:click='alert(1)`, "\x1b[2J",
}

// hostile returns a cluster in which every text is the given word.
func hostile(word string) *cluster {
	n := api.Network{Status: api.NetworkStatus{
		Type: "vpc", Tenant: word, Phase: word, Reason: word, Message: word, Isolation: word,
		Peers:  []api.Peer{{Network: word, Direction: word, Mode: word, State: word, Message: word}},
		Ranges: []api.Range{{Subnet: word, CIDR: word, Gateway: word}},
		Detail: &api.NetworkDetail{
			Namespaces: []string{word}, Policies: []string{"NetworkPolicy/red/" + word}, Gateways: []string{word}, Problem: word,
			Rows:  []api.Row{{Table: word, Name: word}},
			Nodes: []api.NodePods{{Node: word}}, Services: []api.Addressed{{Name: word, Addresses: []string{word}}},
		},
	}}
	n.Name = "red"
	top := api.Topology{Status: api.TopologyStatus{
		Type: "vpc", Tenant: word, Phase: word, Router: word, Subnets: []api.TopologySubnet{
			{Name: word, Switch: word, CIDRs: []string{word}, Gateways: []string{word}, Nodes: []api.NodePods{{Node: word}}},
		},
		Gateways: []api.Addressed{{Name: word, Addresses: []string{word}}}, Offers: []api.TopologyOffer{{Tenant: word, Mode: word}},
		Peers: n.Status.Peers, ServiceCIDRs: []string{word},
	}}
	top.Name = "red"
	p := api.Pod{Status: api.PodStatus{
		Network: "red", Subnet: word, Addresses: []string{word}, Faces: []string{word}, MAC: word, Node: word, Verdict: word,
		Layers: []api.Layer{{Name: word, State: api.LayerMissing, What: word, Next: word}}, Policies: []string{word}, Services: []string{word},
	}}
	p.Namespace, p.Name = "red", "web"
	odd := p
	odd.Name = word
	i := api.IPAM{
		Status: api.IPAMStatus{
			Tenant: word, Pools: []api.AddressPool{{Use: "Subnet", Name: word, CIDR: "10.0.0.0/24"}},
			Holders: []api.Holder{{Address: "10.0.0.2", Kind: "Pod", Name: "red/" + word, Node: word}},
		},
	}
	i.Name = "red"
	c := api.Cluster{
		Status: api.ClusterStatus{
			Source: word, Problems: []api.Problem{{Object: word, Message: word, Next: word}}, Nodes: []api.Node{{Name: word, Agent: word}},
		},
	}
	hop := explain.Hop{Layer: explain.Layer(word), Node: word, Network: word, What: word, Next: word}
	flow := api.Flow{
		Network: "red", From: api.FlowEnd{Address: word, Kind: api.FlowPod, Name: "red/" + word, Network: word},
		To:       api.FlowEnd{Address: word, Kind: api.FlowPod, Name: "red/web", Network: "red"},
		Protocol: "tcp", Port: 80, Verdict: word, Policy: "NetworkPolicy/red/" + word, Rule: word, Direction: "Ingress", Node: word,
		Minute: meta.NewTime(flowsNow.Truncate(time.Minute)), Last: meta.NewMicroTime(flowsNow), Connections: 1,
	}
	allowed, dropped := flow, flow
	allowed.Verdict, dropped.Verdict = verdictAllow, verdictDrop
	dropped.From.Network = "red"
	return &cluster{
		flows: []api.Flow{flow, allowed, dropped}, flowStatus: api.FlowStatus{Silent: []api.SilentNode{{Node: word, Why: word}}},
		networks: []api.Network{n}, topologies: []api.Topology{top}, ipams: []api.IPAM{i}, pods: []api.Pod{p, odd}, status: c, note: word,
		explain: func(api.ExplanationSpec) (explain.Explanation, error) {
			return explain.Explanation{
				From: word, To: word, Protocol: "tcp", Sources: word, Ways: []explain.Way{
					{Dialled: word, To: word, SeenAs: word, There: []explain.Hop{hop}, Back: []explain.Hop{hop}}, {},
				},
				Drift: []drift.Difference{{Kind: drift.Kind(word), Object: word, Column: word, Want: word, Have: word}},
			}, nil
		},
	}
}

// pages returns a path of every kind of page.
func pages() []string {
	return []string{
		"/", "/networks", "/networks?tenant=x", "/network/red", "/network/red/pods", "/network/red/addresses",
		"/pod/red/web", "/status", "/search?q=red", "/search?q=10.0.0.2",
		"/explain?from=red/web&to=red/db&port=80", "/explain?from=red/web", "/peering?from=red&to=red", "/flows", "/flows?network=red",
		"/line?from=Network+red&to=Network+red&verdict=dropped", "/line?from=others&from=Network+red&to=Network+red&verdict=dropped",
	}
}

// TestWordsOfOthersStayWords: the page shows the names that a tenant chose as text, never as HTML. The control is that the page
// shows them at all.
func TestWordsOfOthersStayWords(t *testing.T) {
	t.Parallel()
	for _, word := range hostileWords {
		s := newSite(t, hostile(word))
		for _, path := range pages() {
			status, text := s.get(path)
			if status != http.StatusOK {
				t.Errorf("%s: status %d", path, status)
			}
			for _, raw := range []string{"<script>alert", "<img src=x", " hx-on:click='", `href="javascript:`, `href=javascript:`, "\x1b"} {
				if strings.Contains(text, raw) {
					t.Errorf("%s has %q of %q", path, raw, word)
				}
			}
			if strings.Count(text, "<script") != strings.Count(text, `<script src="/static/`) {
				t.Errorf("%s has a script of its own", path)
			}
			if read := words(strings.NewReplacer("&lt;", "(", "&gt;", ")").Replace(text)); !strings.Contains(read, "alert(1)") &&
				!strings.Contains(read, "?[2J") {
				t.Errorf("%s does not show %q at all", path, word)
			}
		}
		// Values in the page's address are shown as text, too.
		for _, path := range []string{
			"/search?q=", "/flows?network=", "/line?verdict=dropped&to=Network+red&from=", "/line?from=a&to=b&verdict=", "/flows?at=",
			"/graph/flows?at=", "/explain?from=", "/explain?to=red/a&port=1&from=", "/network/", "/pod/red/",
		} {
			escaped := path +
				strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22", " ", "%20", "'", "%27", "/", "%2F", "\x1b", "%1B").Replace(word)
			if _, text := s.get(escaped); strings.Contains(text, "<script>alert") || strings.Contains(text, "<img src=x") ||
				strings.Contains(text, " hx-on:click='") {
				t.Errorf("%s has it raw", escaped)
			}
		}
		_, text := s.get("/graph/flows?open=red&pods=red")
		var o overlay
		if err := json.Unmarshal([]byte(text), &o); err != nil || strings.ContainsAny(text, "<>\x1b") || len(o.Edges) != 2 {
			t.Errorf("the flows are %s: %v", text, err)
		}
		for _, e := range o.Edges {
			if !strings.HasPrefix(e.Link, "/line?") || strings.ContainsAny(e.Label+e.Says, "\x1b") {
				t.Errorf("the flows have %+v", e)
			}
		}
		_, text = s.get("/graph?open=red&pods=red")
		var p picture
		if err := json.Unmarshal([]byte(text), &p); err != nil || strings.ContainsAny(text, "<>") {
			t.Errorf("the map is %s: %v", text, err)
		}
		for _, n := range p.Nodes {
			// Links lead to the page itself.
			if n.Link != "" && !strings.HasPrefix(n.Link, "/") || strings.HasPrefix(n.Link, "//") || strings.Contains(n.Label, "\x1b") {
				t.Errorf("the map has %+v", n)
			}
		}
	}
}
