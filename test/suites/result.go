package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// result is what came of a suite so far.
type result struct {
	name           string
	passed, failed int
	failures       []failure
	// unsteady are the failures of tests that passed when they were run again alone. Their tests are counted in passed.
	unsteady []failure
	began    time.Time
	took     time.Duration
	out      io.Writer
	// live: what its tests print outside of any one test, and each test that ends, is shown at once. For tests that
	// take minutes.
	live bool
}

// failure is what failed, and what it said.
type failure struct {
	what, text string
	// again is how the test is run again; nil for what is not run again.
	again *rerun
}

// maxRecalled is how many lines of a failure's text are shown once more at the end, from its beginning and from its end.
const maxRecalled = 20

// maxLine is how many bytes of a line are shown then.
const maxLine = 400

func verdict(well bool) string {
	if well {
		return "ok  "
	}
	return "FAIL"
}

// record counts a check and says how it went.
func (r *result) record(what string, err error) {
	if err == nil {
		r.passed++
		fmt.Fprintf(r.out, "ok    %s\n", what)
		return
	}
	fmt.Fprintf(r.out, "FAIL  %s\n%s\n", what, indent(err.Error()))
	r.fail(failure{what: what, text: err.Error()})
}

// fail counts a failure that has been shown, and keeps it for the end.
func (r *result) fail(f failure) {
	r.failed++
	r.failures = append(r.failures, f)
}

// add counts what came of a part of the suite, which has been shown.
func (r *result) add(part result) {
	r.passed += part.passed
	r.failed += part.failed
	r.failures = append(r.failures, part.failures...)
}

// together runs parts of the suite beside each other, to their ends. Each counts its tests in a result of its own; all are added to r.
func (r *result) together(parts ...func(*result) error) error {
	var (
		doing errgroup.Group
		lines sync.Mutex
		came  = make([]result, len(parts))
	)
	for i, part := range parts {
		printed := &prefixed{lines: &lines, out: r.out}
		came[i] = result{name: r.name, out: printed, live: r.live}
		doing.Go(func() error {
			defer printed.end()
			return part(&came[i])
		})
	}
	err := doing.Wait()
	for _, part := range came {
		r.add(part)
	}
	return err
}

func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}

// logged is a line of a program's log, of slog's or of klog's.
var logged = regexp.MustCompile(`level=(DEBUG|INFO|WARN|ERROR) |^\s*[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ `)

// gist is the first and the last lines of a text: a test says why it failed at the end, or before the logs that it shows. Lines
// of logs are left out, unless there are no others. Of a long line it has the beginning.
func gist(text string) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines := slices.DeleteFunc(slices.Clone(all), logged.MatchString)
	if len(lines) == 0 {
		lines = all
	}
	for i, line := range lines {
		if len(line) > maxLine {
			lines[i] = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
	}
	if n := len(lines) - 2*maxRecalled; n > 1 {
		left := fmt.Sprintf("(%d lines)", n)
		lines = slices.Concat(lines[:maxRecalled], []string{left}, lines[len(lines)-maxRecalled:])
	}
	return strings.Join(lines, "\n")
}

// summarise prints once more what failed, for a log of which only the end is kept, and the table of all results. It reports
// whether all is well: something ran and nothing failed.
func summarise(out io.Writer, results []result) bool {
	for _, r := range results {
		for _, f := range r.failures {
			fmt.Fprintf(out, "\nFAIL  %s: %s\n%s\n", r.name, f.what, indent(gist(f.text)))
		}
	}
	for _, r := range results {
		for _, f := range r.unsteady {
			fmt.Fprintf(out, "\nunsteady  %s: %s failed, and passed when it was run again alone\n%s\n", r.name, f.what, indent(gist(f.text)))
		}
	}
	var passed, failed int
	fmt.Fprintf(out, "\n%-12s %7s %7s %9s %10s\n", "suite", "passed", "failed", "unsteady", "duration")
	for _, r := range results {
		passed += r.passed
		failed += r.failed
		fmt.Fprintf(out, "%-12s %7d %7d %9d %10s\n", r.name, r.passed, r.failed, len(r.unsteady), r.took.Round(time.Second/10))
	}
	fmt.Fprintf(out, "\n%d passed, %d failed\n", passed, failed)
	return passed > 0 && failed == 0
}
