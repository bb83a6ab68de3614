package ui

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
)

// cells are what a table of the command line has, as it prints it; names of columns and rules are left out.
func cells(t *testing.T, file string) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	apart := regexp.MustCompile(` {2,}`)
	for line := range strings.Lines(string(text)) {
		for _, cell := range apart.Split(strings.TrimLeft(strings.TrimRight(line, "\n"), "│├└─ "), -1) {
			if cell = strings.TrimSpace(cell); cell != "" && cell != "-" && cell != strings.ToUpper(cell) {
				out = append(out, cell)
			}
		}
	}
	return out
}

// TestThePageSaysWhatTheCommandLineSays: each word and value of the golden tables is on the page about the same.
func TestThePageSaysWhatTheCommandLineSays(t *testing.T) {
	t.Parallel()
	network, topology, ipam := golden[api.Network](t, "inspect-network-red"), golden[api.Topology](t,
		"inspect-topology-red"), golden[api.IPAM](t, "inspect-ipam-red")
	for name, page := range map[string]struct {
		source *cluster
		path   string
	}{
		"network-red.wide":  {&cluster{networks: []api.Network{network}, topologies: []api.Topology{topology}}, "/network/red"},
		"topology-red.wide": {&cluster{networks: []api.Network{network}, topologies: []api.Topology{topology}}, "/network/red"},
		"networks-two.wide": {&cluster{networks: golden[api.NetworkList](t, "inspect-networks-two").Items}, "/networks"},
		"pods-red.wide": {
			&cluster{networks: []api.Network{network}, pods: golden[api.PodList](t, "inspect-pods-red").Items}, "/network/red/pods",
		},
		"pod-well.table":       {&cluster{pods: []api.Pod{golden[api.Pod](t, "inspect-pod-well")}}, "/pod/red/web-0"},
		"pod-refused.table":    {&cluster{pods: []api.Pod{golden[api.Pod](t, "inspect-pod-refused")}}, "/pod/red/web-0"},
		"pod-no-binding.table": {&cluster{pods: []api.Pod{golden[api.Pod](t, "inspect-pod-no-binding")}}, "/pod/red/web-0"},
		"ipam-red.wide":        {&cluster{ipams: []api.IPAM{ipam}}, "/network/red/addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, page.source)
			s.says(page.path, cells(t, "inspect-"+name)...)
		})
	}
}

// TestExplanationsAreThoseOfTheCommandLine: the page has the verdict and each step, in both directions, of each golden explanation.
func TestExplanationsAreThoseOfTheCommandLine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "testdata", "explain-*.json"))
	if err != nil || len(files) < 9 {
		t.Fatalf("%d golden files: %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := golden[explain.Explanation](t, name)
			var asked api.ExplanationSpec
			s := newSite(t, &cluster{explain: func(q api.ExplanationSpec) (explain.Explanation, error) { asked = q; return e, nil }})
			var want []string
			for _, w := range e.Ways {
				for _, hop := range append(w.There, w.Back...) {
					want = append(want, string(hop.Layer), hop.What, hop.Network, hop.Node)
					if !hop.OK {
						want = append(want, "STOP", "Next: "+hop.Next)
					}
				}
			}
			want = append(want, e.Verdict(), e.Sources)
			for _, d := range e.Drift {
				want = append(want, d.Owner.String(), d.Object, string(d.Kind))
			}
			s.says("/explain?from=red/web-0&to=red/db-0&port=80&protocol=tcp", want...)
			if (asked != api.ExplanationSpec{From: "red/web-0", To: "red/db-0", Port: 80, Protocol: "tcp"}) {
				t.Errorf("it asked %+v", asked)
			}
		})
	}
}

// TestWhatIsAskedWrongly: what the command line refuses, the page refuses with the same words, and asks nobody.
func TestWhatIsAskedWrongly(t *testing.T) {
	t.Parallel()
	s := newSite(t, &cluster{explain: func(api.ExplanationSpec) (explain.Explanation, error) {
		t.Error("somebody was asked")
		return explain.Explanation{}, nil
	}})
	for query, want := range map[string]string{
		"from=red/web-0&to=red/db-0":                                "name the port that is dialled by tcp",
		"from=red/web-0&to=red/web-0&port=1":                        "both ends are the same",
		"from=red/web-0&to=" + "a%20b" + "&port=80":                 "is none of NAMESPACE/POD",
		"from=red/web-0&to=red/db-0&port=70000":                     "write a number from 1 to 65535",
		"from=red/web-0&to=red/db-0&port=80&protocol=gre":           "is none of tcp, udp, sctp and icmp",
		"from=svc/red/web&to=red/db-0&port=80":                      "begins no connections",
		"from=red/web-0&port=80&to=" + strings.Repeat("a", 300):     "more than 253 characters",
		"from=red/web-0&to=red/db-0&port=80&protocol=tcp&network=a": "neither end is an address",
	} {
		status, text := s.get("/explain?" + query)
		if status != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, status)
		}
		s.has(query, text, want)
	}
	if status, _ := s.get("/explain?from=red/web-0"); status != http.StatusOK {
		t.Errorf("one end alone: status %d", status)
	}
}

// TestWithoutTheAPI: where nobody answers, the page says so, and what Kubernetes tells of the pods.
func TestWithoutTheAPI(t *testing.T) {
	t.Parallel()
	lost := golden[api.Pod](t, "inspect-pod-refused")
	s := newSite(t, &cluster{explain: func(api.ExplanationSpec) (explain.Explanation, error) {
		return explain.Explanation{}, &client.UnexplainedError{Note: "the cluster has no API inspect.atoll.dev", Seen: []api.Pod{lost}}
	}})
	status, text := s.get("/explain?from=red/web-0&to=red/db-0&port=80")
	if status != http.StatusBadGateway {
		t.Errorf("status %d", status)
	}
	s.has("explain", text, "the cluster has no API inspect.atoll.dev", "The way itself cannot be told", lost.Status.Verdict)
	s = newSite(t, &cluster{note: "what follows is what Kubernetes tells"})
	s.says("/networks", "what follows is what Kubernetes tells")
}
