package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxUnsteady is how many unsteady tests a run may have. With more of them the machine or the product is at fault.
	maxUnsteady = 2
	// maxAgain is how many tests are run again. When more fail, the run has failed anyway.
	maxAgain = 8
)

// rerun is a test function, and how go test runs it alone. A subtest is run again with the function around it, because subtests
// may need the ones before them. Without a test it is the whole package.
type rerun struct {
	runner *runner
	// flags are those of the run in which the test failed, without its choice of tests.
	flags     []string
	pkg, test string
}

// alone returns how a test that failed is run again, or nil if the run was not one of ordinary tests.
func (r *runner) alone(args []string, pkg, test string) *rerun {
	function, _, _ := strings.Cut(test, "/")
	again := &rerun{runner: r, pkg: pkg, test: function}
	for _, arg := range args {
		switch {
		// A program that runs test binaries is gone when its suite has ended.
		case strings.HasPrefix(arg, "-fuzz="), strings.HasPrefix(arg, "-exec="):
			return nil
		case !strings.HasPrefix(arg, "-"), strings.HasPrefix(arg, "-p="), strings.HasPrefix(arg, "-count="):
		case strings.HasPrefix(arg, "-run=") && test != "":
		default:
			again.flags = append(again.flags, arg)
		}
	}
	return again
}

// run runs the test count times in one process.
func (a *rerun) run(ctx context.Context, out *result, count int) error {
	args := append(slices.Clone(a.flags), fmt.Sprintf("-count=%d", count))
	if a.test != "" {
		args = append(args, "-run=^"+a.test+"$")
	}
	return a.runner.goTest(ctx, out, append(args, a.pkg)...)
}

// name is what a reader calls it.
func (a *rerun) name() string { return cmp.Or(a.test, strings.TrimPrefix(a.pkg, module)) }

// key is the same for the failures of one test function in one kind of run.
func (a *rerun) key() string { return strings.Join(append(slices.Clone(a.flags), a.pkg, a.test), "\t") }

// runAgain runs each test that failed once more, alone, and returns those that passed, which are unsteady. The results count an
// unsteady test as passed, unless there are more than maxUnsteady.
func runAgain(ctx context.Context, out io.Writer, results []result) (unsteady []*rerun) {
	tests := map[string]*rerun{}
	var keys []string
	for _, r := range results {
		for _, f := range r.failures {
			if f.again == nil || tests[f.again.key()] != nil {
				continue
			}
			tests[f.again.key()] = f.again
			keys = append(keys, f.again.key())
		}
	}
	if len(keys) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n== %d tests that failed are run again, alone\n", len(keys))
	if len(keys) > maxAgain {
		fmt.Fprintf(out, "more than %d: none is\n", maxAgain)
		return nil
	}
	passed := map[string]int{}
	for _, key := range keys {
		if ctx.Err() != nil {
			return nil
		}
		test := tests[key]
		once := result{out: out, live: test.test == ""} // a whole package takes minutes
		err := test.run(ctx, &once, 1)
		well := err == nil && once.failed == 0 && once.passed > 0
		fmt.Fprintf(out, "%s  %s, run again\n", verdict(well), test.name())
		if err != nil {
			fmt.Fprintln(out, indent(err.Error()))
		}
		if !well {
			continue
		}
		unsteady = append(unsteady, test)
		if passed[key] = 1; test.test == "" {
			passed[key] = once.passed
		}
	}
	if len(unsteady) > maxUnsteady {
		fmt.Fprintf(out, "%d tests are unsteady: more than %d count as failed\n", len(unsteady), maxUnsteady)
		return unsteady
	}
	for i := range results {
		results[i].forgive(passed)
	}
	return unsteady
}

// forgive moves the failures of tests that passed when they were run again to unsteady. Each counts as so many passed tests as
// the map has by its key: one for a test, and those of a whole package.
func (r *result) forgive(passed map[string]int) {
	failures := r.failures
	r.failures = nil
	for _, f := range failures {
		if f.again == nil || passed[f.again.key()] == 0 {
			r.failures = append(r.failures, f)
			continue
		}
		r.unsteady = append(r.unsteady, f)
		r.failed--
		r.passed += passed[f.again.key()]
	}
}

// unsteadyList is the file of the tests that were unsteady. It has one line for each: flags of go test, package and function,
// with tabs between them. make test-all repeats these tests, and removes those that pass each time.
type unsteadyList struct{ path string }

// read returns the lines of the list. A list that is not there is empty.
func (l unsteadyList) read() ([]string, error) {
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read list of unsteady tests: %w", err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), nil
}

// change adds lines to the list, and removes others.
func (l unsteadyList) change(add, remove []string) error {
	lines, err := l.read()
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(append(lines, add...), func(line string) bool { return slices.Contains(remove, line) })
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
		return fmt.Errorf("write list of unsteady tests: %w", err)
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	if err := os.WriteFile(l.path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write list of unsteady tests: %w", err)
	}
	return nil
}

// remember adds unsteady tests to the list. What cannot be written is said, and fails nothing.
func (l unsteadyList) remember(out io.Writer, unsteady []*rerun) {
	var lines []string
	for _, test := range unsteady {
		if test.test != "" { // a whole package is not repeated
			lines = append(lines, test.key())
		}
	}
	if len(lines) == 0 {
		return
	}
	if err := l.change(lines, nil); err != nil {
		fmt.Fprintln(out, err)
	}
}

// repeats is how often make test-all runs a test that was unsteady, or that holds a promised time.
const repeats = 20

// repeatUnsteady repeats the tests of the list, and removes those that pass each time.
func repeatUnsteady(ctx context.Context, r *runner, out *result) error {
	out.live = true
	lines, err := r.unsteady.read()
	if err != nil {
		return err
	}
	var steady []string
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		if len(fields) < 2 {
			return fmt.Errorf("read list of unsteady tests: %q", line)
		}
		n := len(fields)
		test := &rerun{runner: r, flags: fields[:n-2], pkg: fields[n-2], test: fields[n-1]}
		before := out.failed
		if err := test.repeat(ctx, out); err != nil {
			out.record(test.test, err)
		}
		if out.failed == before {
			steady = append(steady, line)
		}
	}
	return r.unsteady.change(nil, steady)
}

// repeat runs the test repeats times, and counts each run. A failure is not run again: that it fails at times is what is looked for.
func (a *rerun) repeat(ctx context.Context, out *result) error {
	part := result{name: out.name, out: out.out, live: true, began: time.Now()}
	err := a.run(ctx, &part, repeats)
	for i := range part.failures {
		part.failures[i].again = nil
	}
	out.add(part)
	return err
}
