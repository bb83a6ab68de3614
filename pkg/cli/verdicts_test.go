package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

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
	count := func(policy, rule, verdict string, packets uint64, pods map[string]uint64) model.VerdictCount {
		return model.VerdictCount{
			Network: "red", Policy: policy, Direction: "Ingress", Rule: rule, Verdict: verdict, Packets: packets, Pods: pods,
		}
	}
	one := agent(model.NodeVerdicts{Node: "n1", Verdicts: []model.VerdictCount{count("NetworkPolicy/red/db-from-web", "0", "allow", 0, nil)}})
	two := agent(model.NodeVerdicts{Node: "n2", Verdicts: []model.VerdictCount{
		count("NetworkPolicy/red/db-from-web", "0", "allow", 1234, nil),
		count("NetworkPolicy/red/db-from-web", nb.RuleIsolation, "drop", 3, map[string]uint64{"red/web-1": 3}),
		count("ClusterNetworkPolicy/no-telnet", "0", "drop", 1, nil),
		{Policy: nb.Guard, Direction: "Egress", Verdict: "drop", Packets: 77},
	}})

	status, out, err := runPolicy(t, "verdicts", "--agent", one+","+strings.TrimPrefix(two, "http://"), "--policy",
		"red/db-from-web", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"))
	if status != statusDone || !strings.Contains(out, "1234") ||
		!strings.Contains(out, "Which policies isolate the pods is not known: ask the API server") {
		t.Errorf("status %d (%v)\n%s", status, err, out)
	}
	// The guard's count is of all Networks.
	for _, network := range []string{"", "red", "blue"} {
		_, out, _ = runPolicy(t, "verdicts", "--agent", two, "--network", network, "--drops", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"))
		if !strings.Contains(out, nb.Guard) || strings.Contains(out, "no-telnet") == (network == "blue") {
			t.Errorf("network %q: not the guard's count and those of that Network alone\n%s", network, out)
		}
	}
	// What one agent says is printed, and then that the other says nothing.
	const refused = "503 Service Unavailable: connect to OVN_Southbound: nobody there"
	status, out, problems, err := runProgram(t.Context(), "policy", "verdicts", "--agent", two, "--agent", broken.URL, "--policy", "no-telnet")
	if status != statusDifferences || !strings.Contains(out, "no-telnet") || !strings.Contains(problems, refused) ||
		!strings.Contains(problems, "Next: ") {
		t.Errorf("status %d (%v)\n%s%s", status, err, out, problems)
	}
	// Where none answers nothing is printed: a table without rows would say that nothing was decided.
	status, out, err = runPolicy(t, "verdicts", "--agent", broken.URL)
	if status != statusFailed || out != "" || !strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), "Next: ") {
		t.Errorf("status %d (%v)\n%s", status, err, out)
	}
}

// TestVerdictsByAToken: agents are shown a token of the ServiceAccount that is for them, for ten minutes, and nothing of the user's own.
func TestVerdictsByAToken(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var asked authenticationv1.TokenRequest
		_, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, &asked)
		if r.URL.Path != "/api/v1/namespaces/atoll-system/serviceaccounts/atoll-verdicts-reader/token" || err != nil ||
			*asked.Spec.ExpirationSeconds != 600 {
			http.Error(w, r.URL.Path, http.StatusNotFound)
			return
		}
		asked.Kind, asked.APIVersion, asked.Status.Token = "TokenRequest", "authentication.k8s.io/v1", "readers"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(asked)
	}))
	t.Cleanup(api.Close)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer readers" {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(model.NodeVerdicts{Node: "n1"})
	}))
	t.Cleanup(agent.Close)
	if status, out, err := runPolicy(t, "verdicts", "--agent", agent.URL, "--kubeconfig", kubeconfig(t, api.URL)); status != statusDone {
		t.Errorf("status %d (%v)\n%s", status, err, out)
	}
	status, _, err := runPolicy(t, "verdicts", "--agent", agent.URL, "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1"))
	if status != statusFailed || !strings.Contains(err.Error(), "create a token of ServiceAccount atoll-system/atoll-verdicts-reader") {
		t.Errorf("without a token: status %d, %v", status, err)
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
		{[]string{"trace", "red/web-0", "red/web-1"}, "--port: name the port"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "1", "--protocol", "ICMP"}, "icmp has no ports"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "1", "--protocol", "gre"}, `--protocol: "gre"`},
		{[]string{"trace", "web-0", "red/web-1", "--port", "1"}, `"web-0" is neither NAMESPACE/POD`},
		{[]string{"trace", "red/web-0", "web-1", "--port", "1"}, `"web-1" is neither NAMESPACE/POD`},
		{[]string{"trace", "red/web-0", "red/web-0", "--port", "1"}, "never leaves it"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "http"}, "invalid argument"},
		{[]string{"trace", "red/web-0", "red/web-1", "--port", "80", "-o", "yaml"}, "neither table nor json"},
		{
			[]string{"trace", "red/web-0", "red/web-1", "--port", "80", "--nb-address", "unix:/nowhere/at/all", "--timeout", "1s"},
			"connect to OVN_Northbound",
		},
	} {
		if status, _, err := runPolicy(t, test.args...); status != statusFailed || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: status %d, got %v, want an error with %q", test.args, status, err, test.want)
		}
	}
}
