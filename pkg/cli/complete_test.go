package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNamesAreCompleted: completion offers the names of Networks, namespaces and pods that begin with the typed text. It offers
// nothing when the API does not answer.
func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	// A tenant's admin may not list namespaces; completion offers the namespaces of the admin's Networks.
	var mayList atomic.Bool
	answers := map[string]string{
		"/apis/inspect.atoll.dev/v1alpha1/networks":            `{"items":[{"metadata":{"name":"red"},"status":{"tenant":"acme"}},{"metadata":{"name":"blue"},"status":{"tenant":"acme"}}]}`,
		"/apis/inspect.atoll.dev/v1alpha1/networks/red":        `{"status":{"detail":{"namespaces":["red","red-ci"]}}}`,
		"/apis/inspect.atoll.dev/v1alpha1/networks/blue":       `{"status":{"detail":{"namespaces":["blue"]}}}`,
		"/apis/inspect.atoll.dev/v1alpha1/namespaces/red/pods": `{"items":[{"metadata":{"namespace":"red","name":"web-0"}},{"metadata":{"namespace":"red","name":"db-0"}}]}`,
		"/api/v1/nodes":      `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}}]}`,
		"/api/v1/namespaces": `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"default"}},{"metadata":{"name":"red"}}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !there || r.URL.Path == "/api/v1/namespaces" && !mayList.Load() {
			w.WriteHeader(http.StatusForbidden)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + server.URL +
		`"}}],"users":[{"name":"u","user":{}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args    string
		mayList bool
		want    string
	}{
		{"network ", true, "red blue"},
		{"network b", true, "blue"},
		{"network red ", true, ""},
		{"ipam r", true, "red"},
		{"ipam check r", true, "red"},
		{"topology ", true, "red blue"},
		{"pod ", true, "default/ red/"},
		{"pod ", false, "blue/ red/ red-ci/"},
		{"pod red/w", true, "red/web-0"},
		{"pod umbrella/", true, ""},
		{"explain red/web-0 red/", true, "red/web-0 red/db-0"},
		{"explain red/web-0 red/db-0 --network ", true, "red blue"},
		{"matrix red b", true, "blue"},
		{"matrix --tenant ", true, "acme"},
		{"pods -n ", true, "default red"},
		{"pods --namespace red", false, "red red-ci"},
		{"vsctl --node ", true, "n1 n2"},
		{"ofctl --write --node n", true, "n1 n2"},
		{"ofctl --pod red/w", true, "red/web-0"},
		{"appctl -t ovn-controller --node n2", true, "n2"},
		{"appctl --pod red/d", true, "red/db-0"},
	} {
		mayList.Store(c.mayList)
		words := strings.Split(c.args, " ")
		for kubeconfig, want := range map[string]string{kubeconfig: c.want, kubeconfig + "-of-nobody": ""} {
			var out bytes.Buffer
			cmd := Command("atoll")
			cmd.SetOut(&out)
			cmd.SetErr(&bytes.Buffer{})
			cmd.SetArgs(append([]string{"__complete", words[0], "--kubeconfig", kubeconfig}, words[1:]...))
			if words[0] == "ipam" && words[1] == "check" {
				cmd.SetArgs(append([]string{"__complete", "ipam", "check", "--kubeconfig", kubeconfig}, words[2:]...))
			}
			if err := cmd.ExecuteContext(t.Context()); err != nil {
				t.Errorf("atoll %s: %v", c.args, err)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			if have := strings.Join(lines[:len(lines)-1], " "); have != want || lines[len(lines)-1] != ":4" {
				t.Errorf("atoll %s: a shell is told %q, want %q and no files", c.args, lines, want)
			}
		}
	}
}
