package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/cli/install"
)

func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{ErrDifferences, 1},
		{fmt.Errorf("check: %w", ErrDifferences), 1},
		{errors.New("no database"), 2},
		{fmt.Errorf("x: %w", install.ErrHanging), 1},
		{fmt.Errorf("x: %w", install.ErrRefused), 1},
		{ErrPaths, 1},
	} {
		if got := ExitStatus(test.err); got != test.want {
			t.Errorf("%v gives %d, want %d", test.err, got, test.want)
		}
	}
}

// TestCheckThatCannotCheck wants an error that says why, and never a report. Scripts have more.
func TestCheckThatCannotCheck(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"check", "--kubeconfig", kubeconfig(t, silent.URL), "--timeout", "200ms", "--settle", "0s"}, "deadline exceeded"},
		{[]string{"check", "--kubeconfig", "/nowhere/at/all"}, "read kubeconfig"},
		{[]string{"check", "-o", "yaml"}, "neither table nor json"},
		{[]string{"install", "--kubeconfig", "/nowhere/at/all"}, "read kubeconfig"},
		{[]string{"install", "-o", "yaml", "--dry-run"}, "exclude each other"},
		{[]string{"install", "--pod-cidrs", "10.0.0.1/8"}, "--pod-cidrs"},
		{[]string{"install", "--dns-addresses", "ten"}, "--dns-addresses"},
		{[]string{"connectivity", "test", "-o", "yaml"}, "neither table nor json"},
		{[]string{"check", "everything"}, "unknown command"},
		{
			[]string{"policy", "trace", "red/a", "red/b", "--port", "80", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1")},
			"ask the API server at http://127.0.0.1:1",
		},
	} {
		var out bytes.Buffer
		cmd := Command("atoll")
		cmd.SetArgs(test.args)
		cmd.SetOut(&out)
		err := cmd.ExecuteContext(t.Context())
		if ExitStatus(err) != statusFailed || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
			t.Errorf("%v: got %v and output %q, want an error with %q", test.args, err, out.String(), test.want)
		}
	}
}

// kubeconfig is a file that names an API server.
func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],` +
		`"clusters":[{"name":"c","cluster":{"server":"` + server + `"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEachCommandIsInAGroup: of those that cobra makes, none is.
func TestEachCommandIsInAGroup(t *testing.T) {
	t.Parallel()
	root := Command("atoll")
	for _, c := range root.Commands() {
		if c.GroupID == "" && c.Name() != "completion" {
			t.Errorf("%s is in no group", c.Name())
		}
	}
	if len(root.Commands()) < 25 {
		t.Errorf("there are %d commands", len(root.Commands()))
	}
}
