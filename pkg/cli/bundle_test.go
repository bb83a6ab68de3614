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

// TestBundleIsWritten: for this user alone, whatever is missing is said, and a file that is there stays unless it may be
// replaced. What is in it is package bundle's to show.
func TestBundleIsWritten(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"you may not","details":{"name":"x"}}`)
			return
		}
		_, _ = io.WriteString(w, `{"gitVersion":"v1.36.2"}`)
	}))
	t.Cleanup(server.Close)
	t.Chdir(t.TempDir())
	config := kubeconfig(t, server.URL)
	if status, out, problems := runAtoll(t, "", "bundle", "--kubeconfig", config); status != statusDone ||
		!strings.Contains(out, "missing: Networks (atoll networks): you may not\n") || problems != "" {
		t.Errorf("status %d: %s%s", status, out, problems)
	}
	if made, err := filepath.Glob("atoll-bundle-*.tar.gz"); err != nil || len(made) != 1 {
		t.Errorf("written are %v: %v", made, err)
	}
	const file = "problem.tar.gz"
	if err := os.WriteFile(file, []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		says   string
		mode   os.FileMode
		stays  bool
	}{
		{nil, statusFailed, "problem.tar.gz is there already. Next: another --file, or --force", 0o644, true},
		{
			[]string{"--force", "--kubeconfig", kubeconfig(t, "http://127.0.0.1:1")},
			statusFailed, "ask the API server at http://127.0.0.1:1",
			0o644, true,
		},
		{[]string{"--force"}, statusDone, "problem.tar.gz: 1 file", 0o600, false},
		{[]string{"--force", "-f", "nowhere/problem.tar.gz"}, statusFailed, "write nowhere/problem.tar.gz", 0o600, false},
		{[]string{"-f", "nowhere/problem.tar.gz"}, statusFailed, "write nowhere/problem.tar.gz", 0o600, false},
	} {
		status, out, problems := runAtoll(t, "",
			append([]string{"bundle", "--kubeconfig", config, "-f", file, "--databases=false"}, c.args...)...)
		found, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if status != c.status || !strings.Contains(out+problems, c.says) || found.Mode().Perm() != c.mode ||
			(string(text) == "another") != c.stays || err != nil {
			t.Errorf("%v: status %d: %s%s; mode %o: %v", c.args, status, out, problems, found.Mode(), err)
		}
	}
	if left, err := filepath.Glob(".atoll-*"); err != nil || len(left) > 0 {
		t.Errorf("left are %v: %v", left, err)
	}
}
