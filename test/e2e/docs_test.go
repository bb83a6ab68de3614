//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/docs"
	"github.com/atoll-net/atoll/test/e2e/cluster"
	"github.com/atoll-net/atoll/test/sandbox"
)

// docsWithin is how long a command of a page may take until it ends as it should: what it asks about may be under way.
const docsWithin = 30 * time.Second

// TestDocs runs commands of README.md and docs as they are written, in a sandbox that has the example, where the pages say that they work:
// kubectl and the databases' tools as those of the sandbox, a node's commands on n1.
//
// It runs alone: it counts on the example being well.
func TestDocs(t *testing.T) {
	pages, err := docs.Pages(env.Root)
	if err != nil {
		t.Fatal(err)
	}
	table, err := docs.Table(env.Root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cluster.AfterTest()
		defer cancel()
		for _, leftover := range [][]string{
			{"delete", "--ignore-not-found", "-n", "red", "networkpolicy/db-from-web", "pod/who-am-i"},
			{"label", "namespace", "red", "pod-security.kubernetes.io/enforce-"},
			{"patch", "network", "red", "--type=merge", "-p", `{"spec":{"compatibleWith":null}}`},
		} {
			if out, err := env.Program(ctx, append([]string{"kubectl"}, leftover...)...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
	})
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(env.Root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range docs.Steps(page, string(text), table[page]) {
			first, _, _ := strings.Cut(step.Command, "\n")
			t.Run(page+": "+first, func(t *testing.T) {
				cluster.Eventually(t, docsWithin, fmt.Sprintf("it ends with status %d", step.Status), func(ctx context.Context) error {
					return runsAsWritten(ctx, step.Command, step.Status)
				})
			})
			ran++
		}
	}
	if ran < 50 {
		t.Errorf("only %d commands were run", ran)
	}
}

// shims are the programs that pages name, as functions of bash: where they work in a sandbox. What atoll writes into its
// directory goes with the sandbox.
const shims = `set -euo pipefail
box() { %[1]s --state=%[2]s "$@"; }
on_node() { box node exec n1 -- "$@"; }
kubectl() { box kubectl "$@"; }
atoll() { box central exec -- env -C "$(dirname %[4]s)" KUBECONFIG=%[4]s %[3]s/atoll "$@"; }
ovs-vsctl() { on_node ovs-vsctl "$@"; }
ip() { on_node ip "$@"; }
nft() { on_node nft "$@"; }
ls() { on_node ls "$@"; }
`

// runsAsWritten runs a command of a page, but for the sandbox's directory and its programs', and compares its exit status.
func runsAsWritten(ctx context.Context, command string, want int) error {
	state := env.Options.State
	command = strings.NewReplacer(
		"$PWD/bin/", env.Options.Bin+"/", "bin/atoll-sandbox ", "box ", sandbox.DefaultState+"/", state+"/",
	).Replace(command)
	script := fmt.Sprintf(shims, env.Options.Program, state, env.Options.Bin, filepath.Join(state, "kubeconfig/admin")) + command + "\n"
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = env.Root
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
