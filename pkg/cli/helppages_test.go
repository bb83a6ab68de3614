package cli_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// TestHelpPages: docs/cli has a page of each command, which is what its help says.
func TestHelpPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("..", "..", "docs", "cli")
	var want []string
	for _, cmd := range program().Commands() {
		if cmd.Name() == "help" {
			continue
		}
		file := filepath.Join(dir, cmd.Name()+".md")
		want = append(want, file)
		text := fmt.Sprintf(
			"# %s\n\n<!-- Made by go test ./pkg/cli -run TestHelpPages -update. -->\n\nWhat %s says about itself. What it answers, and how to "+
				"read that: [../cli.md](../cli.md).\n", cmd.CommandPath(), cmd.CommandPath())
		for i, one := range below(cmd) {
			if i > 0 {
				text += "\n## " + one.CommandPath() + "\n"
			}
			text += "\n```text\n" + help(t, one) + "```\n"
		}
		if flag.Lookup("update").Value.String() == "true" {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(have), text); diff != "" {
			t.Errorf("%s (-have +want; run with -update when it is meant):\n%s", file, diff)
		}
	}
	have, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("pages (-want +have):\n%s", diff)
	}
}

// help is what a command says about itself.
func help(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	root := program()
	root.SetOut(&out)
	root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
