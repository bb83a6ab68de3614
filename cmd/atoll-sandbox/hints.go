package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/test/sandbox"
)

// printHints says how to go on from a running sandbox.
func printHints(cmd *cobra.Command, opts *sandbox.Options, s *sandbox.Sandbox) {
	self := invocation(os.Args[0], opts.State)
	fmt.Fprint(cmd.OutOrStdout(), hints(self, s.KubectlEnvironment(), s.Namespace(sandbox.Central)))
}

// invocation is how a shell calls this program for the sandbox in a state directory: as it was called just now,
// so that the lines work as they stand.
func invocation(program, state string) string {
	if state == "" || state == sandbox.DefaultState {
		return quote(program)
	}
	return quote(program) + " --state " + quote(state)
}

func hints(self string, environment []string, central string) string {
	var export strings.Builder
	for _, variable := range environment {
		export.WriteString(" " + quote(variable))
	}
	return fmt.Sprintf(`
Look around:
  %[1]s status
  %[1]s kubectl get pods -A -o wide
  %[1]s ovn-nbctl show
  %[1]s node exec n1 -- ovs-vsctl show
With a kubectl of your own:
  export%[2]s
  ip netns exec %[3]s kubectl get nodes
`, self, export.String(), central)
}

// plain is a word that no shell reads as anything else.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote makes one word for a shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
