package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// counted are what the agents of two nodes have counted in the judged world.
func counted() []model.NodeVerdicts {
	row := func(network, policy, rule, verdict string, packets uint64, pods map[string]uint64) model.VerdictCount {
		return model.VerdictCount{Network: network, Policy: policy, Direction: "Ingress", Rule: rule, Verdict: verdict, Packets: packets, Pods: pods}
	}
	egress := row("red", nb.Isolation, "", "drop", 2, map[string]uint64{"red/web-2": 2})
	egress.Direction = "Egress"
	return []model.NodeVerdicts{
		{Node: "n1", Verdicts: []model.VerdictCount{
			row("blue", nb.OwnNode, "", "allow", 12, nil),
			row("red", "NetworkPolicy/red/db-from-web", "0", "allow", 0, nil),
			row("red", nb.Isolation, "", "drop", 7, map[string]uint64{"red/web-0": 7}),
			egress,
		}},
		{Node: "n2", Verdicts: []model.VerdictCount{
			row("red", "NetworkPolicy/red/db-from-web", "0", "allow", 1234, nil),
			row("red", "NetworkPolicy/red/db-from-web", nb.RuleIsolation, "drop", 3, map[string]uint64{"red/web-1": 3}),
			row("red", nb.Isolation, "", "drop", 0, nil),
			row("red", "ClusterNetworkPolicy/no-telnet", "0", "drop", 1, nil),
		}},
	}
}

func TestVerdictsGolden(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options verdictsOptions
		nodes   []model.NodeVerdicts
		unknown string
	}{
		"all":       {nodes: counted()},
		"network":   {nodes: counted(), options: verdictsOptions{network: "blue"}},
		"policy":    {nodes: counted(), options: verdictsOptions{policy: "red/db-from-web"}},
		"cluster":   {nodes: counted(), options: verdictsOptions{policy: "no-telnet"}},
		"drops":     {nodes: counted(), options: verdictsOptions{dropsOnly: true}},
		"none":      {nodes: counted(), options: verdictsOptions{network: "green"}},
		"unknown":   {nodes: counted(), unknown: "nobody answers"},
		"no-agents": {},
	} {
		for _, format := range []string{formatTable, formatJSON} {
			t.Run(name+"."+format, func(t *testing.T) {
				t.Parallel()
				v := Verdicts{Rows: verdictRows(test.nodes, test.options), Nodes: len(test.nodes), Unknown: test.unknown}
				if test.unknown == "" {
					v.explain(judgedWorld(t).objects)
				}
				var got bytes.Buffer
				if err := v.Print(&got, format); err != nil {
					t.Fatal(err)
				}
				golden(t, filepath.Join("testdata", "verdicts-"+name+"."+format), got.String())
			})
		}
	}
}

// runPolicy runs a command of the program as its user does.
func runPolicy(t *testing.T, args ...string) (status int, out string, err error) {
	t.Helper()
	var text bytes.Buffer
	cmd := Command("atoll")
	cmd.SetArgs(append([]string{"policy"}, args...))
	cmd.SetOut(&text)
	err = cmd.ExecuteContext(t.Context())
	return ExitStatus(err), text.String(), err
}

func TestVerdictsOfAgentsThatAnswer(t *testing.T) {
	t.Parallel()
	agent := func(node model.NodeVerdicts) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/verdicts" {
				http.NotFound(w, r)
				return
			}
			_ = json.NewEncoder(w).Encode(node)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "connect to OVN_Southbound: nobody there", http.StatusServiceUnavailable)
	}))
	t.Cleanup(broken.Close)
	nodes := counted()
	one, two := agent(nodes[0]), agent(nodes[1])

	status, out, err := runPolicy(t, "verdicts", "--agent", one+","+strings.TrimPrefix(two, "http://"), "--policy", "red/db-from-web", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"))
	if status != statusDone || !strings.Contains(out, "1234") || !strings.Contains(out, "Which policies isolate the pods is not known: ask the API server") {
		t.Errorf("status %d (%v)\n%s", status, err, out)
	}
	// What one agent says is printed, and that the other says nothing is an error.
	status, out, err = runPolicy(t, "verdicts", "--agent", two, "--agent", broken.URL, "--policy", "no-telnet")
	if status != statusFailed || !strings.Contains(out, "no-telnet") || !strings.Contains(err.Error(), "503 Service Unavailable: connect to OVN_Southbound: nobody there") {
		t.Errorf("status %d (%v)\n%s", status, err, out)
	}
}

func TestPolicyCommandsThatCannot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"verdicts", "-o", "yaml"}, "neither table nor json"},
		{[]string{"verdicts", "red"}, "unknown command"},
		{[]string{"verdicts", "--agent", "http://127.0.0.1:1"}, "ask agent"},
		{[]string{"verdicts", "--agent", "http://[::"}, "--agent"},
		{[]string{"verdicts", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"), "--timeout", "5s"}, "list pods"},
		{[]string{"verdicts", "--kubeconfig", "/nowhere/at/all"}, "read kubeconfig"},
		{[]string{"trace", "red/web-0"}, "accepts 2 arg(s)"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "http"}, "invalid argument"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "80", "-o", "yaml"}, "neither table nor json"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "80", "--nb-address", "unix:/nowhere/at/all", "--timeout", "1s"}, "connect to OVN_Northbound"},
	} {
		if status, _, err := runPolicy(t, test.args...); status != statusFailed || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: status %d, got %v, want an error with %q", test.args, status, err, test.want)
		}
	}
}
