package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

func (s *site) graph(query string) (p picture) {
	s.t.Helper()
	status, text := s.get("/graph?" + query)
	if status != http.StatusOK {
		s.t.Fatalf("status %d: %s", status, text)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (p picture) node(id string) *node {
	for i := range p.Nodes {
		if p.Nodes[i].ID == id {
			return &p.Nodes[i]
		}
	}
	return nil
}

// TestTheMap: Networks are islands in their tenants, peerings have directions, and an open Network shows what it is made of, and
// its pods when they are asked for.
func TestTheMap(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(t))
	shut := s.graph("")
	var reaches []string
	for _, e := range shut.Edges {
		arrow := " -> "
		if e.Both {
			arrow = " <-> "
		}
		reaches = append(reaches, strings.ReplaceAll(e.From+arrow+e.To, "network/", "")+" "+e.Label+" "+e.State)
	}
	slices.Sort(reaches)
	want := []string{"acme-ci <-> acme-web ByFace good", "blue -> red ByFace good", "green -> red Routed, Refused bad"}
	if !slices.Equal(reaches, want) {
		t.Errorf("reaches are %q", reaches)
	}
	if n := shut.node("network/red"); n == nil || n.Kind != "network" || n.Label != "red\nvpc, Ready\n6 pods" || n.Link != "/network/red" ||
		n.Parent != "tenant/" {
		t.Errorf("red is %+v", n)
	}
	if n := shut.node("network/acme-ci"); n == nil || n.Parent != "tenant/acme" {
		t.Errorf("acme-ci is %+v", n)
	}
	kinds := func(p picture) map[string]int {
		out := map[string]int{}
		for _, n := range p.Nodes {
			out[n.Kind]++
		}
		return out
	}
	if have, want := fmt.Sprint(kinds(shut)), "map[network:6 tenant:3]"; have != want {
		t.Errorf("folded it has %s, want %s", have, want)
	}
	if have, want := fmt.Sprint(kinds(s.graph("open=red"))),
		"map[gateway:1 island:1 network:5 policy:1 router:1 services:1 subnet:2 tenant:3]"; have != want {
		t.Errorf("red open it has %s, want %s", have, want)
	}
	pods := s.graph("open=red&pods=red")
	if have, want := fmt.Sprint(kinds(pods)),
		"map[gateway:1 island:1 network:5 pod:6 policy:1 router:1 services:1 subnet:2 tenant:3]"; have != want {
		t.Errorf("with pods it has %s, want %s", have, want)
	}
	if n := pods.node("network/red/pod/red/locked"); n == nil || n.Link != "/pod/red/locked" ||
		!slices.ContainsFunc(pods.Edges, func(e edge) bool { return e.From == "network/red/subnet/front" && e.To == n.ID }) {
		t.Errorf("the pod is %+v", n)
	}
	if again := s.graph("open=red&pods=red"); fmt.Sprint(again) != fmt.Sprint(pods) {
		t.Error("the same cluster looks otherwise the second time")
	}
	if p := s.graph("open=nowhere&pods=nowhere"); len(p.Open) != 0 {
		t.Errorf("it opens %q", p.Open)
	}
	if n := len(s.graph("open=" + strings.Repeat("red&open=", 50) + "blue").Open); n != 1 {
		t.Errorf("it opens %d of more than it may", n)
	}
}

// TestNothingOnTheMapLiesOnAnything: boxes are beside one another, or the one is inside the other.
func TestNothingOnTheMapLiesOnAnything(t *testing.T) {
	t.Parallel()
	many := thousand()
	crowd := sample(t)
	for i := range 100 {
		p := api.Pod{Status: api.PodStatus{Network: "red", Subnet: "front", Addresses: []string{"10.0.0.9"}}}
		p.Namespace, p.Name = "red", fmt.Sprintf("crowd-%d", i)
		crowd.pods = append(crowd.pods, p)
		crowd.networks[0].Status.Detail.Policies = append(crowd.networks[0].Status.Detail.Policies, fmt.Sprintf("NetworkPolicy/red/p%d", i))
	}
	for what, p := range map[string]picture{
		"sample": newSite(t, sample(t)).graph("open=red&open=blue&pods=red"), "crowd": newSite(t, crowd).graph("open=red&pods=red"),
		"thousand": newSite(t, many).graph("open=network-007"), "each of a thousand": newSite(t, many).graph("all=1"),
	} {
		around := map[string]string{}
		for _, n := range p.Nodes {
			around[n.ID] = n.Parent
		}
		within := func(n node, id string) bool {
			for parent := n.Parent; parent != ""; parent = around[parent] {
				if parent == id {
					return true
				}
			}
			return false
		}
		for i, a := range p.Nodes {
			if a.Parent != "" && p.node(a.Parent) == nil {
				t.Errorf("%s: %s is in %s, which is not there", what, a.ID, a.Parent)
			}
			for _, b := range p.Nodes[i+1:] {
				apart := max(a.X-b.X, b.X-a.X) >= (a.W+b.W)/2 || max(a.Y-b.Y, b.Y-a.Y) >= (a.H+b.H)/2
				if !apart && !within(a, b.ID) && !within(b, a.ID) {
					t.Fatalf("%s: %+v lies on %+v", what, a, b)
				}
			}
		}
		for _, e := range p.Edges {
			if p.node(e.From) == nil || p.node(e.To) == nil {
				t.Errorf("%s: an edge has no ends: %+v", what, e)
			}
		}
	}
}

// TestTheGraphOfAThousandNetworks: they are folded, and the page is made in a tenth of a second.
func TestTheGraphOfAThousandNetworks(t *testing.T) {
	t.Parallel()
	s := newSite(t, thousand())
	for path, most := range map[string]struct {
		bytes int
		took  time.Duration
	}{
		"/": {100_000, time.Second}, "/graph?": {50_000, time.Second}, "/graph?all=1": {600_000, time.Second},
		"/networks": {1_500_000, 2 * time.Second},
	} {
		best, size := time.Hour, 0
		for range 3 {
			began := time.Now()
			_, text := s.get(path)
			best, size = min(best, time.Since(began)), len(text)
		}
		t.Logf("%s: %d bytes in %s", path, size, best.Round(100*time.Microsecond))
		if size > most.bytes || best > most.took {
			t.Errorf("%s has %d bytes, and took %s", path, size, best)
		}
	}
	if n := len(s.graph("").Nodes); n > 120 {
		t.Errorf("folded there are %d boxes", n)
	}
	if n := len(s.graph("all=1").Nodes); n != 1020 {
		t.Errorf("unfolded there are %d boxes", n)
	}
	s.says("/", "1000 Networks, 20 tenants, 2000 pods", "50 Networks without peers", "50 Networks with -> network-000 (ByFace)")
}

func BenchmarkAThousandNetworks(b *testing.B) {
	s := newSite(b, thousand())
	for _, path := range []string{"/", "/graph", "/graph?all=1", "/networks"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				_, text := s.get(path)
				b.SetBytes(int64(len(text)))
			}
		})
	}
}

// TestTheListSaysWhatTheMapShows: each box and each arrow of the map is in the list beside it, in words.
func TestTheListSaysWhatTheMapShows(t *testing.T) {
	t.Parallel()
	s := newSite(t, sample(t))
	s.says("/", "blue vpc, Ready , 3 pods -> red ByFace: these pods reach its", "<- blue ByFace: its pods reach these",
		"? green Routed: serves, Refused", "tenant acme : 2 Networks, 3 pods")
	text := s.says("/network/red", "switch red/front", "router red", "Gateway red/edge: 10.9.0.11", "NetworkPolicy/red/lock",
		"Services of 10.9.0.0/24")
	if !strings.Contains(text, `href="/peering?from=blue&amp;to=red"`) {
		t.Error("a peering does not lead to where it is explained")
	}
	s.says("/peering?from=blue&to=red", "From Network blue to Network red", "Uses ByFace Active",
		"Serves ByFace Active", "explain blue/web-0 to red/web-0, icmp")
	s.says("/peering?from=green&to=red", "Refused", "overlaps")
}
