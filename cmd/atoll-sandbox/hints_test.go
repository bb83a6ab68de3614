package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/sandbox"
)

// words are the arguments that a shell makes of a line.
func words(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "set -- "+line+`; printf '%s\n' "$@"`).Output()
	if err != nil {
		t.Fatalf("parse %s: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// opened is the state directory in which a command line of ours looked for a sandbox; there must be none.
func opened(t *testing.T, args []string) string {
	t.Helper()
	cmd := root()
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		t.Fatalf("%q found a sandbox", args)
	}
	_, after, found := strings.Cut(err.Error(), "open sandbox: none in ")
	if !found {
		t.Fatalf("%q: %v", args, err)
	}
	state, _, _ := strings.Cut(after, " (")
	return state
}

func TestHintsWorkAsTheyStand(t *testing.T) {
	const program = "/opt/atoll's tools/atoll-sandbox"
	state := t.TempDir() + "/the other sandbox's"
	checked := 0
	for line := range strings.Lines(hints(invocation(program, state), []string{"KUBECONFIG=" + state + "/admin"}, "reef-central")) {
		line = strings.TrimSpace(line)
		if args, ours := strings.CutPrefix(line, "export "); ours {
			if got := words(t, args); len(got) != 1 || got[0] != "KUBECONFIG="+state+"/admin" {
				t.Errorf("%s exports %q", line, got)
			}
			continue
		}
		if !strings.Contains(line, "atoll-sandbox") {
			continue
		}
		argv := words(t, line)
		if got := opened(t, argv[1:]); argv[0] != program || got != state {
			t.Errorf("%s\ncalls %s and looks in %s", line, argv[0], got)
		}
		checked++
	}
	if checked != 4 {
		t.Errorf("%d lines are commands of ours, want 4", checked)
	}
}

func TestHintsAreShortForTheUsualSandbox(t *testing.T) {
	if got := invocation("bin/atoll-sandbox", sandbox.DefaultState); got != "bin/atoll-sandbox" {
		t.Error(got)
	}
}

func TestStateBeforeAndAfterTheCommand(t *testing.T) {
	state := t.TempDir()
	for _, line := range []string{
		"--state STATE status",
		"status --state=STATE",
		"--name reef status --state=STATE",
		"--state STATE kubectl get pods",
		"--state=STATE kubectl get pods",
		"--state STATE --name reef kubectl get pods",
		"--name=reef --state=STATE kubectl get pods",
		"--name reef kubectl --state STATE get pods",
		"kubectl --state STATE get pods",
		"kubectl --state=STATE get pods --state=mine",
		"--state STATE --name reef ovn-nbctl --name=x acl-add",
		"--name reef --state STATE ovn-sbctl show",
		"--state STATE node exec n1 -- ls",
		"node exec --state STATE n1 -- ls",
	} {
		if got := opened(t, strings.Fields(strings.ReplaceAll(line, "STATE", state))); got != state {
			t.Errorf("%s: looked in %s", line, got)
		}
	}
}

func TestToolsKeepTheirArguments(t *testing.T) {
	for line, want := range map[string]string{
		"--state s --name=x acl-add": "--name=x acl-add",
		"--name=x acl-add":           "--name=x acl-add",
		"get pods --state=s":         "get pods --state=s",
		"--state=s":                  "",
	} {
		got, err := takeState(&sandbox.Options{}, strings.Fields(line))
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: the tool gets %q, %v", line, got, err)
		}
	}
}
