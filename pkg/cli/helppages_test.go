package cli_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/test/docs"
)

// TestHelpPages: docs/cli has a page for each command. A page has the help of each command, and outputs of golden files, as these
// are now; -update writes them anew. The rest of a page is written by hand.
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
		have, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		has := map[string]int{}
		text, err := docs.Fill(string(have), func(what string) (string, error) {
			has[what]++
			return made(t, cmd, what)
		})
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, one := range below(cmd) {
			if n := has["help of "+one.CommandPath()]; n != 1 {
				t.Errorf("%s has the help of %s %d times", file, one.CommandPath(), n)
			}
		}
		if flag.Lookup("update").Value.String() == "true" {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(string(have), text); diff != "" {
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

// made is one part of a command's page: "help of COMMAND", or "output of COMMAND: FILE" of testdata, or "FILE#SECTION" of a script there.
func made(t *testing.T, cmd *cobra.Command, what string) (string, error) {
	t.Helper()
	if path, found := strings.CutPrefix(what, "help of "); found {
		for _, one := range below(cmd) {
			if one.CommandPath() == path {
				return help(t, one), nil
			}
		}
		return "", errors.New("there is no such command here")
	}
	command, file, found := strings.Cut(strings.TrimPrefix(what, "output of "), ": ")
	if !found {
		return "", errors.New("it is neither the help nor the output of a command")
	}
	file, section, inside := strings.Cut(file, "#")
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		return "", fmt.Errorf("read golden file: %w", err)
	}
	if inside {
		files := txtar.Parse(text).Files
		at := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == section })
		if at < 0 {
			return "", errors.New("the script has no such section")
		}
		text = files[at].Data
	}
	return "```text\n$ " + command + "\n" + trailing.ReplaceAllString(strings.TrimRight(string(text), "\n"), "") + "\n```", nil
}

var (
	trailing = regexp.MustCompile(`(?m) +$`)
	// helpFlag is the flag that each command has.
	helpFlag = regexp.MustCompile(`(?m)^  -h, --help +help for .*\n`)
)

// help is what a command says about itself: first in words, then its usage, examples and flags.
func help(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	root := program()
	root.SetOut(&out)
	root.SetArgs(append(strings.Fields(cmd.CommandPath())[1:], "--help"))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	words, usage, _ := strings.Cut(out.String(), "\nUsage:\n")
	if cmd.Long == "" {
		words = strings.TrimRight(words, "\n") + ".\n"
	}
	usage = strings.TrimSuffix(strings.TrimRight(helpFlag.ReplaceAllString(usage, ""), "\n"), "\n\nFlags:")
	usage = strings.ReplaceAll(usage, "\n\nFlags:\n\nUse ", "\n\nUse ")
	return words + "\n```text\n" + usage + "\n```"
}
