// Package docs knows the commands that README.md and docs tell people to run, and which test runs each of them.
//
// In flow the pages, and commands.yaml, the table of who runs what. The test of this package demands that both say the same;
// TestDocs (test/e2e) runs in a sandbox what the table gives it.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Mark stands alone on a line before a block, and says that its commands are for a cluster that the sandbox is not: one where
// Atoll's programs are pods, a registry, Docker.
const Mark = "<!-- other cluster -->"

// Command is one that a page tells people to run.
type Command struct {
	// Page is the file, below the root of the repository.
	Page string
	// Text is the command without a prompt and a comment behind it; with all its lines, if it has several.
	Text string
	// Other is a cluster that the sandbox is not (Mark).
	Other bool
	// Help is what a command of atoll says about itself: a test may run it, and none must.
	Help bool
}

// programs begin a line that is a command. Lines of a block that begin with something else are what a command prints.
var programs = []string{
	"apt-get", "atoll", "bin/atoll", "bin/atoll-sandbox", "cat", "cp", "ctr", "curl", "docker", "echo", "etcdctl",
	"export", "git", "go", "helm", "ip", "kind", "kubectl", "ln",
	"ls", "make", "nft", "npm", "nsenter", "ovn-appctl", "ovn-nbctl", "ovn-sbctl", "ovn-trace", "ovs-appctl", "ovs-ofctl", "ovs-vsctl",
	"ovsdb-client", "ovsdb-tool",
	"podman", "scp", "ssh", "sudo", "sysctl", "systemctl", "tcpdump", "wget",
}

var (
	indented = regexp.MustCompile(`^(?: {4,}|\t)\S`)
	listed   = regexp.MustCompile(`^\s*(?:[-*|]|\d+\.)\s`)
	heredoc  = regexp.MustCompile(`<<-?'?(\w+)'?`)
	comment  = regexp.MustCompile(`\s{2,}# .*$|\s# .*$`)
)

// Commands reads a page: the lines of its indented and fenced blocks that are commands.
func Commands(page, text string) []Command {
	var found []Command
	lines := strings.Split(text, "\n")
	fenced, other, inBlock, help := false, false, false, false
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		block := fenced || indented.MatchString(line) && !listed.MatchString(line)
		switch {
		case trimmed == Mark:
			other, inBlock = true, false
			continue
		case strings.HasPrefix(trimmed, madeBegin), trimmed == madeEnd:
			help, inBlock = strings.HasPrefix(trimmed, madeHelp), false
			continue
		case trimmed == "":
			continue
		case !block:
			// Text ends the block that a mark is for.
			if inBlock || !strings.HasSuffix(trimmed, "-->") {
				other = false
			}
			inBlock = false
			continue
		}
		inBlock = true
		command, prompted := strings.CutPrefix(trimmed, "$ ")
		first, _, _ := strings.Cut(command, " ")
		if !prompted && !slices.Contains(programs, first) {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " \t"))
		command = comment.ReplaceAllString(command, "")
		if end := heredoc.FindStringSubmatch(command); end != nil {
			for i++; i < len(lines); i++ {
				more := lines[i][min(indent, len(lines[i])-len(strings.TrimLeft(lines[i], " "))):]
				command += "\n" + more
				if strings.TrimSpace(more) == end[1] {
					break
				}
			}
		}
		for strings.HasSuffix(command, `\`) && i+1 < len(lines) {
			i++
			command = strings.TrimSuffix(command, `\`) + strings.TrimSpace(lines[i])
		}
		found = append(found, Command{Page: page, Text: strings.TrimRight(command, " "), Other: other, Help: help})
	}
	return found
}

// Pages are the files that are for users, below the root of the repository: README.md and docs, but not docs/design.
func Pages(root string) ([]string, error) {
	pages := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "design" {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			page, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			pages = append(pages, page)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pages: %w", err)
	}
	return pages, nil
}

// Claims are who runs the commands of a page.
type Claims struct {
	// Run are what TestDocs runs, in the order of the page, in a sandbox as the page says, and which end with status 0.
	Run []string `json:"run,omitempty"`
	// Fails are such ones that end with status 1, as atoll does for a packet that is dropped.
	Fails []string `json:"fails,omitempty"`
	// Tests are names of Go tests, and the commands that each runs, or does by other means.
	Tests map[string][]string `json:"tests,omitempty"`
	// Make are commands that are suites or measurements of their own: a target of the Makefile, or go test of a package. They
	// take too long to be run by a test; what is tested is that they exist.
	Make []string `json:"make,omitempty"`
	// Like are commands that cannot be run as they are: they have names that stand for the reader's own. Nobody runs them; keep them few.
	Like []string `json:"like,omitempty"`
}

// Step is a command that TestDocs runs, and the status with which it ends.
type Step struct {
	Command string
	Status  int
}

// Steps are the commands of a page that TestDocs runs, in the order in which they stand there, each once.
func Steps(page, text string, claims Claims) []Step {
	var steps []Step
	for _, c := range Commands(page, text) {
		step := Step{Command: c.Text}
		if slices.Contains(claims.Fails, c.Text) {
			step.Status = 1
		} else if !slices.Contains(claims.Run, c.Text) {
			continue
		}
		if !c.Other && !slices.Contains(steps, step) {
			steps = append(steps, step)
		}
	}
	return steps
}

// Table reads commands.yaml: the claims of each page.
func Table(root string) (map[string]Claims, error) {
	text, err := os.ReadFile(filepath.Join(root, "test/docs/commands.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	table := map[string]Claims{}
	if err := yaml.UnmarshalStrict(text, &table); err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	return table, nil
}
