package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/atoll-net/atoll/pkg/cli"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/inprocess"
	"github.com/atoll-net/atoll/test/wait"
)

// scripts are where they are.
var scripts = filepath.Join("testdata", "script")

// TestMain lets scripts run the program, which is this binary under another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"atoll":         func() { os.Exit(cli.Main("atoll")) },
		"kubectl-atoll": func() { os.Exit(cli.Main("kubectl-atoll")) },
	})
}

// TestScripts runs testdata/script: what users type, what they read and with which status it ends; with -update what they read is
// written anew. A script has in KUBECONFIG the way to a cluster of testdata/cluster.yaml for one who may do everything; in JO,
// ANN, CHECKER and LOOKER that for others (package inprocess says what they may); in AWAY that to a cluster where nobody answers
// for inspection, in GONE one to nobody at all, and in ILL that to a cluster where something is wrong, in MUTE that to one whose
// agents tell of no flows, and in WELL what KUBECONFIG has at first. AGENT, IDLE and REFUSES are the addresses of agents'
// metrics: of one that has counted something, of one that has counted nothing, and of one that cannot count. Beside testscript's
// commands there are "status N PROGRAM ARG...", which runs a program that is to end with that status; "told REGEXP PROGRAM
// ARG...", which runs one that gives up soon until it prints that; and "browse PROGRAM ARG...", which gets the page that it says
// is to be opened.
func TestScripts(t *testing.T) {
	t.Parallel()
	objects, err := os.ReadFile(filepath.Join("testdata", "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	options := inprocess.Options{Objects: string(objects), Schema: filepath.Join("..", "..", "test", "rowgen", "ovn-nb.ovsschema")}
	well := inprocess.Start(t, options)
	options.Ill = true
	ill := inprocess.Start(t, options)
	options.Ill, options.Mute = false, true
	mute := inprocess.Start(t, options)
	program, err := exec.LookPath("atoll")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"KUBECONFIG": well.Kubeconfig(inprocess.Operator), "JO": well.Kubeconfig(inprocess.Jo), "ANN": well.Kubeconfig(inprocess.Ann),
		"CHECKER": well.Kubeconfig(inprocess.Checker),
		"LOOKER":  well.Kubeconfig(inprocess.Looker), "AWAY": well.KubeconfigAway(inprocess.Operator),
		"GONE": well.KubeconfigGone(), "ILL": ill.Kubeconfig(inprocess.Operator),
		"WELL": well.Kubeconfig(inprocess.Operator), "MUTE": mute.Kubeconfig(inprocess.Operator), "AGENT": agent(t, counted), "IDLE": agent(t,
			nil), "REFUSES": refusing(t),
		"ATOLLDIR": filepath.Dir(program),
	}
	testscript.Run(t, testscript.Params{
		Dir: scripts, RequireExplicitExec: true, UpdateScripts: flag.Lookup("update").Value.String() == "true",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "told": told, "browse": browse},
		Setup: func(e *testscript.Env) error {
			for name, value := range env {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

// counted is what an agent has counted.
var counted = []model.VerdictCount{
	{Network: "red", Policy: "NetworkPolicy/red/db-from-web", Direction: "Ingress", Rule: "0", Verdict: "allow", Packets: 1234},
}

// agent answers with what it has counted.
func agent(t *testing.T, counts []model.VerdictCount) string {
	t.Helper()
	answer := model.NodeVerdicts{Node: "n2", Verdicts: counts}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) }))
	t.Cleanup(s.Close)
	return s.URL
}

// refusing is an agent that cannot count.
func refusing(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "OVN's southbound database was not asked: there is no certificate", http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// status is the command "status N PROGRAM ARG...".
func status(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: status N PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	have := 0
	err = ts.Exec(args[1], args[2:]...)
	ended, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case ran:
		have = ended.ExitCode()
	case err != nil:
		ts.Fatalf("run %s: %v", args[1], err)
	}
	if have != want {
		ts.Fatalf("%s ended with status %d, want %d", args[1], have, want)
	}
}

// told is the command "told REGEXP PROGRAM ARG...".
func told(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: told REGEXP PROGRAM ARG...")
	}
	want, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ts.Check(wait.For(context.Background(), wait.Patience, func(context.Context) error {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if !want.MatchString(ts.ReadFile("stdout")) {
			return fmt.Errorf("%s does not print %s", args[1], args[0])
		}
		return nil
	}))
}

// browse is the command "browse PROGRAM ARG...": the page is what stdout has, and the program is interrupted and has to end well.
func browse(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || neg {
		ts.Fatalf("usage: browse PROGRAM ARG...")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ended := false
	defer func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	jar, err := cookiejar.New(nil)
	ts.Check(err)
	client := &http.Client{Jar: jar, Timeout: 30 * time.Second}
	page, err := client.Get(strings.TrimSpace(strings.TrimPrefix(line, "Open ")))
	ts.Check(err)
	defer func() { _ = page.Body.Close() }()
	_, err = io.Copy(ts.Stdout(), page.Body)
	ts.Check(err)
	if page.StatusCode != http.StatusOK {
		ts.Fatalf("the page is answered with %s", page.Status)
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	_, _ = io.Copy(io.Discard, out)
	ended = true
	ts.Check(cmd.Wait())
}
