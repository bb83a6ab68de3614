package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/net/websocket"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

func TestSplitFlags(t *testing.T) {
	t.Parallel()
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	known.Bool("write", false, "")
	known.String("kubeconfig", "", "")
	known.StringP("output", "o", "", "")
	for _, c := range []struct{ args, own, rest string }{
		{"show red", "", "show red"},
		{"--write ls-add x", "--write", "ls-add x"},
		{"--write=true ls-add x", "--write=true", "ls-add x"},
		{"--kubeconfig k --columns=name list ACL", "--kubeconfig k", "--columns=name list ACL"},
		{"--kubeconfig=k --write -- --if-exists lsp-del x", "--kubeconfig=k --write", "--if-exists lsp-del x"},
		// What comes later is the program's.
		{"set ACL x --write", "", "set ACL x --write"},
		{"--columns=name --kubeconfig k", "", "--columns=name --kubeconfig k"},
		{"--help", "", "--help"},
		{"--write", "--write", ""},
		{"--kubeconfig", "", "--kubeconfig"},
		{"-o json dump-flows br-int", "-o json", "dump-flows br-int"},
		{"-o=json -O OpenFlow13 dump-flows br-int", "-o=json", "-O OpenFlow13 dump-flows br-int"},
		{"-h", "", "-h"},
		{"", "", ""},
	} {
		own, rest := splitFlags(strings.Fields(c.args), known)
		if strings.Join(own, " ") != c.own || strings.Join(rest, " ") != c.rest {
			t.Errorf("%s: %q and %q", c.args, own, rest)
		}
	}
}

func TestWithoutOVN(t *testing.T) {
	t.Parallel()
	have := withoutOVN([]string{
		"PATH=/bin", "OVN_NB_DB=tcp:1.2.3.4:6641", "OVN_NB_DAEMON=/run/x", "OVN_SB_DB=", "OVN_SB_DAEMON=y", "OVN_NBCTL_OPTIONS=--no-wait",
	})
	if want := []string{"PATH=/bin", "OVN_NBCTL_OPTIONS=--no-wait"}; !slices.Equal(have, want) {
		t.Errorf("%v, want %v", have, want)
	}
}

// front answers as the API server does: with a Status, or a connection that gives back what it is sent; asked is the last
// request's path with its query.
type front struct {
	*httptest.Server
	asked string
}

func newFront(t *testing.T, code int, reason, message string) *front {
	t.Helper()
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked = r.URL.RequestURI()
		if code != 0 && reason == "" {
			http.Error(w, message, code)
			return
		}
		if code != 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"`+reason+`","message":"`+message+`","code":`+strconv.Itoa(code)+`}`)
			return
		}
		websocket.Server{Handshake: func(
			c *websocket.Config, _ *http.Request,
		) error {
			c.Protocol = []string{api.ProxyProtocol}
			return nil
		}, Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			_, _ = io.Copy(ws, ws)
		}}.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// program is a script in a directory that is PATH alone.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

func runAtoll(t *testing.T, in string, args ...string) (status int, out, problems string) {
	t.Helper()
	var text, trouble bytes.Buffer
	cmd := Command("atoll")
	cmd.SetIn(strings.NewReader(in))
	cmd.SetOut(&text)
	cmd.SetErr(&trouble)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	if err != nil && !HasSaid(err) {
		trouble.WriteString("atoll: " + err.Error())
	}
	return ExitStatus(err), text.String(), trouble.String()
}

// TestNbctlRunsTheProgram: with its arguments, a socket of this user alone that is gone afterwards, and its own exit status.
func TestNbctlRunsTheProgram(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("OVN_NB_DAEMON", "/run/elsewhere")
	program(t, "ovn-nbctl", `
for a in "$@"; do echo "arg $a"; done
db=${1#--db=unix:}
[ -S "$db" ] && echo "a socket"
/usr/bin/stat -c %a "$db" "${db%/*}"
echo "daemon $OVN_NB_DAEMON."
/bin/cat
echo "it says why" >&2
exit 5
`)
	f := newFront(t, 0, "", "")
	status, out, problems := runAtoll(t, "from standard input\n", "nbctl", "--write", "--kubeconfig", kubeconfig(t, f.URL), "--columns=name",
		"list", "ACL")
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "atoll-*"))
	if status != 5 || problems != "it says why\n" || err != nil || len(left) > 0 {
		t.Errorf("status %d, %s; left is %v: %v", status, problems, left, err)
	}
	for _, want := range []string{"arg --columns=name\narg list\narg ACL\na socket\n600\n700\ndaemon .\nfrom standard input\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it prints %s, want %s", out, want)
		}
	}
	if f.asked != "/apis/inspect.atoll.dev/v1alpha1/databases/northbound/proxy?write=true" {
		t.Errorf("asked was %s", f.asked)
	}
	program(t, "ovn-sbctl", "kill -9 $$")
	if status, _, _ := runAtoll(t, "", "sbctl", "--kubeconfig", kubeconfig(t, f.URL),
		"show"); status != 128+9 || f.asked != "/apis/inspect.atoll.dev/v1alpha1/databases/southbound/proxy" {
		t.Errorf("a program that is killed: status %d; asked was %s", status, f.asked)
	}
}

// TestDatabasesThatCannotBeReached: what it says when it could not run the program names what to do, and the program is not run.
func TestDatabasesThatCannotBeReached(t *testing.T) {
	program(t, "ovn-nbctl", "echo it runs")
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	const of = `databases.inspect.atoll.dev \"northbound\" is forbidden`
	var told strings.Builder
	for _, c := range []struct {
		name, server string
		args         []string
	}{
		{"the program is missing", newFront(t, 0, "", "").URL, []string{"sbctl", "K", "show"}},
		{"nobody listens", gone.URL, []string{"nbctl", "K", "show"}},
		{"RBAC says no", newFront(t, 403, "Forbidden", of).URL, []string{"nbctl", "K", "show"}},
		{"RBAC says no to writing", newFront(t, 403, "Forbidden", of).URL, []string{"nbctl", "--write", "K", "ls-add", "x"}},
		{"RBAC says no to check", newFront(t, 403, "Forbidden", of).URL, []string{"policy", "trace", "K", "red/a", "red/b", "--port", "80"}},
		{"nobody is known", newFront(t, 401, "Unauthorized", "Unauthorized").URL, []string{"nbctl", "K", "show"}},
		{"no controller answers", newFront(t, 503, "ServiceUnavailable", "error trying to reach service").URL, []string{"nbctl", "K", "show"}},
		{"nobody serves the API", newFront(t, 503, "", "service unavailable").URL, []string{"nbctl", "K", "show"}},
		{"nobody leads", newFront(t, 503, "ServiceUnavailable", "no server leads OVN_Northbound").URL, []string{"nbctl", "K", "show"}},
		{
			"the API is not there", newFront(t, 404, "NotFound", "the server could not find the requested resource").URL,
			[]string{"nbctl", "K", "show"},
		},
		{
			"there are too many", newFront(t, 429, "TooManyRequests", "there are 16 connections to databases already, and no more at once").URL,
			[]string{"nbctl", "K", "show"},
		},
	} {
		for i := range c.args {
			if c.args[i] == "K" {
				c.args[i] = "--kubeconfig=" + kubeconfig(t, c.server)
			}
		}
		status, out, problems := runAtoll(t, "", c.args...)
		if status != statusFailed || out != "" {
			t.Errorf("%s: status %d, it prints %s", c.name, status, out)
		}
		told.WriteString(c.name + ":\n  " + strings.ReplaceAll(problems, c.server, "SERVER") + "\n")
	}
	text := told.String()
	for _, port := range []string{strings.TrimPrefix(gone.URL, "http://")} {
		text = strings.ReplaceAll(text, port, "ADDRESS")
	}
	golden(t, filepath.Join("testdata", "databases.txt"), text)
}

// TestDatabaseHelp: a question for help is for us.
func TestDatabaseHelp(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, args := range [][]string{{"nbctl"}, {"nbctl", "--help"}, {"sbctl", "-h"}, {"nbctl", "--write"}} {
		if status, out, problems := runAtoll(t, "", args...); status != 0 || !strings.Contains(out, "--write") ||
			!strings.Contains(out, "atoll-database-admin") {
			t.Errorf("%v: status %d\n%s%s", args, status, out, problems)
		}
	}
	if _, _, problems := runAtoll(t, "", "nbctl", "--write=maybe", "show"); !strings.Contains(problems, "--write") {
		t.Errorf("a flag that cannot be read: %s", problems)
	}
	if err := (&programError{"ovn-nbctl", 1}); ExitStatus(errors.Join(err)) != 1 || !HasSaid(err) {
		t.Error("a program that has ended has said why")
	}
}
