package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// triedPolicy is a policy without a namespace.
const triedPolicy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db-from-web}
spec: {podSelector: {matchLabels: {app: db}}}
`

// triedAPI is an API server that answers with a status what would change, and refuses what is called refused.
func triedAPI(t *testing.T, status string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch path := r.Method + " " + r.URL.Path; {
		case strings.Contains(string(body), "refused"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"spec.podSelector: Invalid value","reason":"Invalid","code":422}`)
		case path == "POST /apis/networking.k8s.io/v1/namespaces/red/networkpolicies" && r.URL.Query().Get("dryRun") == "All":
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(body)
		case path == "POST /apis/inspect.atoll.dev/v1alpha1/namespaces/red/policytrials" &&
			strings.Contains(string(body), `"name":"db-from-web"`) && strings.Contains(string(body), `"since":"1h0m0s"`):
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"status":`+status+`}`)
		default:
			t.Errorf("%s was asked for: %s", path, body)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestPolicyTry runs the command against an API server: what is printed, and the status that it ends with.
func TestPolicyTry(t *testing.T) {
	t.Parallel()
	const changes = `{"changes":true,"verdict":"4 paths of 1 pair would be denied, 0 newly allowed","denied":4,"paths":[{
		"from":[{"name":"red/web-0 +11 (app=web)","kind":"pods"}],"to":[{"name":"red/db-0","kind":"pods"}],"ports":"any but tcp 5432",
		"before":{"allowed":true},"after":{"allowed":false,"deciders":["isolation of Ingress by NetworkPolicy/red/db-from-web"]}}]}`
	const flows = `{"since":"1h0m0s","seen":12,"stopped":1,"allowed":0,"unsampled":2,"unjudged":3,"status":{"nodes":2,"silent":[{"node":"n2","why":"away"}]},"changes":[{
		"flow":{"network":"red","from":{"address":"10.0.0.6","kind":"pod","name":"red/web-0"},"to":{"address":"10.0.1.5","kind":"pod","name":"red/db-0"},"protocol":"tcp","port":5432,"verdict":"allow",
			"minute":"2026-05-04T10:01:00Z","last":"2026-05-04T10:01:05.000000Z","connections":7},
		"before":{"allowed":true},"after":{"allowed":false,"deciders":["isolation of Ingress by NetworkPolicy/red/db-from-web"]}}]}`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(triedPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := filepath.Join(t.TempDir(), "refused.yaml")
	if err := os.WriteFile(refused, []byte(strings.Replace(triedPolicy, "app: db", "app: refused", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, status string
		args         []string
		ends         int
		said         string
	}{
		{"something", changes, []string{"-f", file}, 1, `FROM                      TO         PORT               BEFORE   AFTER   BY
red/web-0 +11 (app=web)   red/db-0   any but tcp 5432   allow    deny    isolation of Ingress by NetworkPolicy/red/db-from-web

4 paths of 1 pair would be denied, 0 newly allowed.
`},
		{"nothing", `{"verdict":"Nothing would change","paths":[]}`, []string{"-f", file}, 0, "Nothing would change.\n"},
		{
			"cut", `{"verdict":"Nothing would change","cut":"too much","paths":[]}`,
			[]string{"-f", file},
			2,
			"Nothing would change.\nNot all was compared: too much.\n",
		},
		{"flows", strings.Replace(changes, `"denied":4`, `"denied":4,"flows":`+flows, 1), []string{"-f", file}, 1, `   red/web-0   red/db-0   tcp 5432   7       allow   deny       isolation of Ingress by NetworkPolicy/red/db-from-web
`},
		{"flows' sum", strings.Replace(changes, `"denied":4`, `"denied":4,"flows":`+flows, 1), []string{"-f", file}, 1, `Of 12 flows of the last 1h it would have stopped 1, and newly allowed 0.
Pods that it selects and that no policy selects yet, so that nothing was seen at them: 2.
Not judged, since a pod has gone, is somebody else's, or many were counted as one: 3.
Of flows, not all is told. Missing are flows of node n2: away. Next: kubectl -n atoll-system get pods -o wide -l app.kubernetes.io/name=atoll-agent, and look at the log of those.
`},
		{
			"flows are not sampled", strings.Replace(changes, `"denied":4`,
				`"denied":4,"flows":{"since":"1h0m0s","problem":"flows are not sampled"}`, 1),
			[]string{"-f", file},
			1,
			"Of the flows of the last 1h nothing is known: flows are not sampled.\n",
		},
		{"no age", changes, []string{"-f", file, "--since", "-1h"}, 2, ""},
		{"yaml", changes, []string{"-f", file, "-o", "yaml"}, 1, "ports: any but tcp 5432"},
		{"refused", changes, []string{"-f", refused}, 2, ""},
		{"no policy", changes, nil, 2, ""},
		{"no format", changes, []string{"-f", file, "-o", "name"}, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"try", "-n", "red", "--kubeconfig", kubeconfig(t, triedAPI(t, c.status).URL)}, c.args...)
			status, out, err := runPolicy(t, args...)
			if status != c.ends || !strings.Contains(out, c.said) || c.said == "" && out != "" {
				t.Errorf("it ends with %d (%v), want %d, and says:\n%s", status, err, c.ends, out)
			}
			if c.name == "refused" && (err == nil || !strings.Contains(err.Error(), "spec.podSelector: Invalid value")) {
				t.Errorf("the API server's own words are not told: %v", err)
			}
		})
	}
}
