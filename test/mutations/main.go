// Command mutations puts bugs of state back into the controller's decisions, one at a time, and plays random histories of a cluster
// (TestAnyHistoryEndsAsAFreshStart) until they find each. A bug that they do not find is a hole in them: the exit status is 1.
//
//	go run ./test/mutations [-checks 20000] [-only NAME]
//
// The tree is not changed: the compiler is given other text for one file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// mutation is one bug: in a file there is other text.
type mutation struct {
	name, what string
	file       string
	// before is in the file once, and after comes in its place.
	before, after string
}

// mutations are bugs that there were, and those that what mended the others could have brought.
var mutations = []mutation{
	{
		name: "no-faces-for-good", what: "a pod that found no face is not looked at again when one comes free",
		file:   "pkg/controller/decide/attach/stage.go",
		before: `	w.Faces.Freed.Follow(stages.Refills, func(node string) { s.queue.MarkAll(w.Faces.Waiting[node]) })` + "\n",
	},
	{
		name: "subnet-full-for-good", what: "a pod that found no address is not looked at again when one comes free",
		file:   "pkg/controller/decide/attach/stage.go",
		before: `	w.Subnets.Freed.Follow(stages.Refills, func(network string) { s.queue.MarkAll(w.Subnets.Waiting[network]) })` + "\n",
	},
	{
		name: "network-ready-too-early", what: "a changed Network is Ready at its new generation before its rows are in the database",
		file:   "pkg/controller/decide/networks/status.go",
		before: `		status.ObservedGeneration = n.observed`, after: `		_ = n.observed`,
	},
	{
		name: "gateway-ready-too-early", what: "a changed Gateway is Programmed at its new generation before its rows are in the database",
		file:   "pkg/controller/decide/gateways/status.go",
		before: `	case !g.written || g.observed != g.Generation:`, after: `	case !g.written:`,
	},
	{
		name: "policies-not-told-of-nodes", what: "policies that depend on nodes are not compiled anew when these change",
		file:   "pkg/controller/decide/policies/stage.go",
		before: `	c.NodeChanged.Follow(stage, s.changed.Mark)` + "\n",
	},
	{
		name:   "services-not-told-of-nodes",
		what:   "a Service with an endpoint at a node's address is not compiled anew when the node gets it, or loses it",
		file:   "pkg/controller/decide/services/world.go",
		before: `	l.reads.hosts.Note(l.service, a)` + "\n",
	},
	{
		name: "news-taken-for-an-echo", what: "what changes on a pod that has its port is taken for the controller's own annotation",
		file:   "pkg/controller/decide/attach/evaluate.go",
		before: `	return reflect.DeepEqual(before, *p.Pod)`, after: `	return before.Key == p.Key`,
	},
	{
		name: "counts-written-on-a-restart", what: "a controller that starts writes Networks' counts before it knows their pods",
		file:   "pkg/controller/decide/networks/status.go",
		before: "	if s.Database.Held {\n		return\n	}\n	for _, name := range pass.Sorted(s.unreported.Take())",
		after:  "	for _, name := range pass.Sorted(s.unreported.Take())",
	},
	{
		name: "counts-not-written", what: "a Network does not count a pod that came or went",
		file:   "pkg/controller/decide/networks/stage.go",
		before: `func (s *Stage) MembersChanged(name string) { s.touch(name) }`,
		after:  `func (s *Stage) MembersChanged(name string) { s.unrouted.Mark(name) }`,
	},
	{
		name: "load-balancers-for-good", what: "a Network that needs no load balancer any more keeps the rows",
		file:   "pkg/controller/decide/drain/balancers.go",
		before: "	b.retained.forget(owner)\n	b.graph.Delete(owner)\n", after: "	b.retained.forget(owner)\n",
	},
}

// patience is how long one bug is looked for: some make a history that does not end.
const patience = 10 * time.Minute

// found are words of a history that failed, and of a program that does not build.
var (
	found  = regexp.MustCompile(`\[rapid\] (failed|panic)`)
	broken = regexp.MustCompile(`\[(build|setup) failed\]`)
)

func main() {
	checks := flag.Int("checks", 20_000, "histories that are played before a bug counts as not found")
	only := flag.String("only", "", "one bug, by its name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := run(ctx, *only, *checks)
	if err == nil && missed > 0 {
		err = fmt.Errorf("random histories do not find %d of these bugs", missed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

// run puts in each of the bugs, or the only one, and returns how many were not found.
func run(ctx context.Context, only string, checks int) (missed int, err error) {
	dir, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	tried := 0
	for _, m := range mutations {
		if only != "" && only != m.name {
			continue
		}
		tried++
		fmt.Printf("%-28s ", m.name)
		began := time.Now()
		message, err := m.try(ctx, dir, checks)
		if err != nil {
			fmt.Println("could not be tried")
			return missed, fmt.Errorf("%s: %w", m.name, err)
		}
		word := "found"
		if message == "" {
			missed++
			word = "NOT FOUND"
			message = m.what
		}
		fmt.Printf("%-9s %4.0f s  %s\n", word, time.Since(began).Seconds(), message)
	}
	if tried == 0 {
		return 0, fmt.Errorf("there is no bug %q", only)
	}
	fmt.Printf("%d bugs put in, %d found\n", tried, tried-missed)
	return missed, nil
}

// try plays histories with the bug, and returns what the first that fails says; empty when none does.
func (m mutation) try(ctx context.Context, dir string, checks int) (string, error) {
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// A short history says no more here than the first that was found.
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay="+overlay, "-count=1", "-timeout=60m", "-run=^TestAnyHistoryEndsAsAFreshStart$",
		"./pkg/controller/decide",
		fmt.Sprintf("-rapid.checks=%d", checks), "-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1s")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("nothing is known after %s: %w", patience, ctx.Err())
	case err == nil:
		return "", nil
	case !errors.As(err, &failed) || broken.Match(out) || !found.Match(out):
		return "", fmt.Errorf("%w:\n%s", err, out)
	}
	return firstWords(string(out)), nil
}

// overlay writes the file with the bug, and what tells the compiler of it.
func (m mutation) overlay(dir string) (string, error) {
	text, err := m.mutated()
	if err != nil {
		return "", err
	}
	from, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, m.name+".go")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {from: to}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, m.name+".json")
	return overlay, errors.Join(os.WriteFile(to, []byte(text), 0o600), os.WriteFile(overlay, list, 0o600))
}

// mutated is the file with the bug.
func (m mutation) mutated() (string, error) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.before); n != 1 {
		return "", fmt.Errorf("%s has %d times, and not once:\n%s", m.file, n, m.before)
	}
	return strings.Replace(string(text), m.before, m.after, 1), nil
}

// firstWords are those of the first failure.
func firstWords(out string) string {
	const most = 110
	for line := range strings.Lines(out) {
		_, words, is := strings.Cut(line, "[rapid] failed")
		if !is {
			continue
		}
		if _, after, has := strings.Cut(words, ": "); has {
			words = after
		}
		words = strings.TrimSpace(words)
		return words[:min(len(words), most)]
	}
	return "a history panics"
}
