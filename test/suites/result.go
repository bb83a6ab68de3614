package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// result is what came of a suite so far.
type result struct {
	name           string
	passed, failed int
	began          time.Time
	took           time.Duration
	out            io.Writer
	// live: what its tests print outside of any one test, and each test that ends, is shown at once. For tests that
	// take minutes.
	live bool
}

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
	r.failed++
	fmt.Fprintf(r.out, "FAIL  %s\n%s\n", what, indent(err.Error()))
}

func indent(text string) string {
	return "      " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ")
}

// summarise prints the table of all results and reports whether all is well: something ran and nothing failed.
func summarise(out io.Writer, results []result) bool {
	var passed, failed int
	fmt.Fprintf(out, "\n%-12s %7s %7s %10s\n", "suite", "passed", "failed", "duration")
	for _, r := range results {
		passed += r.passed
		failed += r.failed
		fmt.Fprintf(out, "%-12s %7d %7d %10s\n", r.name, r.passed, r.failed, r.took.Round(time.Second/10))
	}
	fmt.Fprintf(out, "\n%d passed, %d failed\n", passed, failed)
	return passed > 0 && failed == 0
}
