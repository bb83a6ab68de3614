package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// judged is a spec's outcome beside the exceptions.
type judged struct {
	outcome
	// reason is why it need not pass; empty if it must.
	reason string
}

func (j judged) excepted() bool { return j.reason != "" }

func failedUnexpectedly(j judged) bool { return !j.passed && !j.excepted() }

// asExpected tells whether nobody has to look at it.
func (j judged) asExpected() bool { return j.passed != j.excepted() }

// verdict is what came of a run.
type verdict struct {
	network network
	specs   []judged
	// unused are exceptions of no spec that exists.
	unused exceptions
	took   time.Duration
	// pauses of the nodes while the specs ran, the longest first.
	pauses []pause
}

// judge compares what came of the specs that were chosen with the exceptions. A spec of which nothing came failed.
func judge(n network, chosen, all []string, outcomes []outcome, list exceptions) verdict {
	byName := map[string]outcome{}
	for _, o := range outcomes {
		byName[o.spec] = o
	}
	v := verdict{network: n, unused: list.unused(all)}
	for _, name := range chosen {
		o, ok := byName[name]
		if !ok {
			o = outcome{spec: name, failure: "it did not run"}
		}
		reason, _ := list.reason(name)
		v.specs = append(v.specs, judged{outcome: o, reason: reason})
	}
	return v
}

func (v verdict) count(is func(judged) bool) int {
	count := 0
	for _, s := range v.specs {
		if is(s) {
			count++
		}
	}
	return count
}

// ok tells whether all is as expected.
func (v verdict) ok() bool {
	return len(v.specs) > 0 && len(v.unused) == 0 && !slices.ContainsFunc(v.specs, func(s judged) bool { return !s.asExpected() })
}

// summarise prints what a reader has to look at, then one line per Network, and tells whether all is as expected.
func summarise(out io.Writer, verdicts []verdict) bool {
	ok := len(verdicts) > 0
	for _, v := range verdicts {
		v.explain(out)
		ok = ok && v.ok()
	}
	fmt.Fprintf(out, "\n%-8s %6s %7s %14s %19s %10s\n", "network", "specs", "passed", "failed as said", "failed unexpectedly", "duration")
	for _, v := range verdicts {
		fmt.Fprintf(out, "%-8s %6d %7d %14d %19d %10s\n", v.network, len(v.specs),
			v.count(func(s judged) bool { return s.passed }),
			v.count(func(s judged) bool { return !s.passed && s.excepted() }),
			v.count(failedUnexpectedly),
			v.took.Round(time.Second))
	}
	return ok
}

// explain prints the specs that failed and the exceptions that are none any more.
func (v verdict) explain(out io.Writer) {
	for _, part := range []struct {
		title string
		is    func(judged) bool
		why   func(judged) string
	}{
		{"failed as said", func(s judged) bool { return !s.passed && s.excepted() }, func(s judged) string { return s.reason }},
		{"failed unexpectedly", failedUnexpectedly, func(s judged) string { return short(s.failure) }},
		{
			"passed, but is an exception", func(s judged) bool { return s.passed && s.excepted() },
			func(s judged) string { return "remove it: " + s.reason },
		},
	} {
		if v.count(part.is) == 0 {
			continue
		}
		fmt.Fprintf(out, "\nnetwork %s: %s\n", v.network, part.title)
		for _, s := range v.specs {
			if part.is(s) {
				fmt.Fprintf(out, "  %s\n      %s\n", s.spec, part.why(s))
			}
		}
	}
	if v.count(failedUnexpectedly) > 0 {
		explainPauses(out, v.network, v.pauses)
	}
	for _, e := range v.unused {
		fmt.Fprintf(out, "\nnetwork %s: no spec is named %q any more, but it is an exception\n", v.network, e.Spec)
	}
}

// shown is how much of a message the summary shows, in bytes. All of it is in the report.
const shown = 300

// short is a message on one line.
func short(message string) string {
	line := strings.Join(strings.Fields(message), " ")
	if len(line) > shown {
		line = strings.ToValidUTF8(line[:shown], "") + "..."
	}
	return line
}
