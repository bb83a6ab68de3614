package cli_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli"
)

// program is the whole of it, with what cobra adds.
func program() *cobra.Command {
	root := cli.Command("atoll")
	root.InitDefaultHelpCmd()
	return root
}

// below are a command and all below it that do something.
func below(cmd *cobra.Command) (out []*cobra.Command) {
	if cmd.Runnable() && !cmd.Hidden {
		out = append(out, cmd)
	}
	for _, c := range cmd.Commands() {
		out = append(out, below(c)...)
	}
	return out
}

// TestEachCommandHasAScript: one where it works or finds something, and one where its user is mistaken and reads why.
func TestEachCommandHasAScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(scripts, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	root := program()
	works, mistaken := map[*cobra.Command]bool{}, map[*cobra.Command]bool{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(archive.Comment), "\n")
		for i, line := range lines {
			words := strings.Fields(line)
			called := slices.Index(words, "atoll")
			if called < 1 || strings.HasPrefix(line, "#") {
				continue
			}
			cmd, _, err := root.Find(words[called+1:])
			if err != nil {
				continue
			}
			if !slices.Equal(words[:called], []string{"status", "2"}) {
				works[cmd] = true
			} else if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "stderr ") {
				mistaken[cmd] = true
			}
		}
	}
	for _, cmd := range below(root) {
		path := cmd.CommandPath()
		switch {
		case path == "atoll help", strings.HasPrefix(path, "atoll completion "):
		case !works[cmd] && !notHere[path] && !groups[path]:
			t.Errorf("no script in %s shows %s do something", scripts, path)
		case !mistaken[cmd]:
			t.Errorf("no script in %s has a mistake in %s, which ends with status 2, and what stderr says of it", scripts, path)
		}
	}
}

// notHere are commands that need more of a cluster than package inprocess has; their other tests have one.
var notHere = map[string]bool{
	"atoll upgrade": true, "atoll connectivity test": true, "atoll ovn rebuild": true, "atoll node admit": true,
}

// groups do nothing but have others below them.
var groups = map[string]bool{
	"atoll policy": true, "atoll connectivity": true, "atoll ovn": true, "atoll node": true, "atoll completion": true,
}
