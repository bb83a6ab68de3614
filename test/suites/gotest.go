package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
	// Key and Value of what a test says of itself (testing.T.Attr).
	Key, Value string
	Elapsed    float64
	// FailedBuild is set at the end of a package that does not build.
	FailedBuild string
}

// goTest runs go test and adds its tests to out. A test that fails is counted there; the error is for go test itself.
func (r *runner) goTest(ctx context.Context, out *result, args ...string) error {
	// The linter runs go vet's checks on all packages.
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-vet=off"}, args...)...)
	cmd.Env = slices.Concat(os.Environ(), r.settings, r.environment)
	if slices.Contains(args, "-race") {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	var failure bytes.Buffer
	cmd.Stderr = &failure
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	if err := interruptible(cmd).Start(); err != nil {
		return fmt.Errorf("run go test: %w", err)
	}
	before := out.failed
	tally := newTally(out)
	tally.again = func(pkg, test string) *rerun { return r.alone(args, pkg, test) }
	readErr := tally.read(stdout)
	err = cmd.Wait()
	if readErr != nil {
		return readErr
	}
	// What failed is counted already, unless go test did not come to run a test.
	if err != nil && out.failed == before {
		return fmt.Errorf("run go test: %w\n%s", err, failure.Bytes())
	}
	return nil
}

// module precedes the names of our packages.
const module = "github.com/atoll-net/atoll/"

// tally counts the tests of one run of go test.
type tally struct {
	result *result
	// packages by import path.
	packages map[string]*packageTally
	// again returns how a test of a package is run again alone, or nil.
	again func(pkg, test string) *rerun
}

// packageTally is a package whose tests run.
type packageTally struct {
	// outcomes of its tests by name; a test with subtests is not counted itself.
	outcomes map[string]string
	outputs  map[string]*strings.Builder
	// attributes are what tests say of themselves, in their order.
	attributes []string
	// ended: all tests of the package ran to their ends. A package that panics, exits or runs out of time did not end.
	ended bool
	// begun: a test of it began.
	begun bool
	// running are tests that began and have not ended.
	running map[string]bool
}

func newTally(r *result) *tally {
	return &tally{result: r, packages: map[string]*packageTally{}, again: func(string, string) *rerun { return nil }}
}

func (t *tally) of(name string) *packageTally {
	p := t.packages[name]
	if p == nil {
		p = &packageTally{outcomes: map[string]string{}, outputs: map[string]*strings.Builder{}, running: map[string]bool{}}
		t.packages[name] = p
	}
	return p
}

func (p *packageTally) print(test, text string) {
	b := p.outputs[test]
	if b == nil {
		b = &strings.Builder{}
		p.outputs[test] = b
	}
	b.WriteString(text)
}

func (t *tally) read(in io.Reader) error {
	lines := json.NewDecoder(in)
	for {
		var e event
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test prints: %w", err)
		}
		t.add(e)
	}
}

func (t *tally) add(e event) {
	// A package that does not build has events of its own, under the name of what was built: "p" or "p [p.test]".
	if e.Package == "" {
		e.Package, _, _ = strings.Cut(e.ImportPath, " ")
	}
	p := t.of(e.Package)
	switch e.Action {
	case "output", "build-output":
		// Package testing prints this line by itself when the last test has ended.
		p.ended = p.ended || e.Test == "" && e.Output == "FAIL\n"
		if t.result.live && e.Test == "" {
			fmt.Fprint(t.result.out, e.Output)
		}
		p.print(e.Test, e.Output)
	case "run":
		p.begun = true
		p.running[e.Test] = true
	case "attr":
		p.attributes = append(p.attributes, e.Test+": "+e.Key+": "+e.Value)
	case "pass", "fail", "skip":
		if e.Test != "" {
			delete(p.running, e.Test)
			// With -count a test ends several times.
			if p.outcomes[e.Test] != "fail" {
				p.outcomes[e.Test] = e.Action
			}
			if t.result.live {
				fmt.Fprintf(t.result.out, "%s  %-60s %20.1fs\n", verdict(e.Action == "pass"), e.Test, e.Elapsed)
				if e.Action != "pass" {
					fmt.Fprintln(t.result.out, indent(p.said(e.Test)))
				}
			}
			return
		}
		t.finish(e, p)
	}
}

// finish counts the tests of a package that has ended, and prints what a reader needs of it.
func (t *tally) finish(e event, p *packageTally) {
	delete(t.packages, e.Package)
	passed, bad := p.count()
	if len(p.outcomes) == 0 && e.Action != "fail" {
		return // it has no tests
	}
	// It did not build, ended outside its tests, or ended in the middle of them, so that the others did not run.
	if e.Action == "fail" && (len(bad) == 0 || len(p.running) > 0) {
		bad = append(bad, "")
	}
	t.result.passed += passed
	fmt.Fprintf(t.result.out, "%s  %-60s %4d passed %8.1fs\n", verdict(len(bad) == 0), strings.TrimPrefix(e.Package, module), passed,
		e.Elapsed)
	for _, text := range p.attributes {
		fmt.Fprintln(t.result.out, indent(text))
	}
	for _, test := range bad {
		text := p.explanation(test, !t.result.live)
		if !t.result.live {
			fmt.Fprintln(t.result.out, indent(text))
		}
		failed := failure{what: cmp.Or(test, strings.TrimPrefix(e.Package, module)), text: text}
		// A skip stays a skip. After a crash nobody knows what the tests that did not run would have said. If no test began, what the
		// tests need did not come up: then the whole package is run again.
		if p.ended && p.outcomes[test] == "fail" || test == "" && !p.begun && e.FailedBuild == "" {
			failed.again = t.again(e.Package, test)
		}
		t.result.fail(failed)
	}
}

// count returns how many tests passed and which did not: the innermost ones, for those around them only sum up.
func (p *packageTally) count() (passed int, bad []string) {
	inner := map[string]string{}
	for test, outcome := range p.outcomes {
		for parent := range parents(test) {
			if inner[parent] != "fail" {
				inner[parent] = outcome
			}
		}
	}
	for test, outcome := range p.outcomes {
		within, isParent := inner[test]
		switch {
		case outcome == "pass" && !isParent:
			passed++
		case outcome == "skip", outcome == "fail" && within != "fail":
			bad = append(bad, test)
		}
	}
	slices.Sort(bad)
	return passed, bad
}

// parents yields the names of the tests around a test.
func parents(test string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(test, '/'); i > 0; i = strings.LastIndexByte(test, '/') {
			if test = test[:i]; !yield(test) {
				return
			}
		}
	}
}

// explanation is what a test that did not pass, and the tests around it, had to say; its own words are the last. What the package
// printed outside of its tests comes before, if that is wanted.
func (p *packageTally) explanation(test string, outside bool) string {
	var all []string
	if test != "" && outside {
		all = append(all, p.said(""))
	}
	var around []string
	for parent := range parents(test) {
		around = append(around, p.said(parent))
	}
	slices.Reverse(around)
	all = append(append(all, around...), p.said(test))
	if test == "" {
		// What a test said that never ended, such as a panic.
		for _, name := range slices.Sorted(maps.Keys(p.outputs)) {
			if p.outcomes[name] == "" && name != "" {
				all = append(all, name+" did not end:", p.said(name))
			}
		}
	}
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), "\n")
}

// said is what a test printed, without what is printed around it; that it was skipped is an error of its own.
func (p *packageTally) said(test string) string {
	text := ""
	if b := p.outputs[test]; b != nil {
		text = strings.TrimRight(b.String(), "\n")
	}
	if p.outcomes[test] == "skip" {
		text += "\n" + test + " was skipped, which counts as failed"
	}
	return strings.TrimLeft(text, "\n")
}
