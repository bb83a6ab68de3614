package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/tier"
)

// suite is a named part of the tests.
type suite struct {
	name  string
	needs needs
	run   func(context.Context, *runner, *result) error
}

// needs are what a suite needs of other projects.
type needs int

const (
	// needsCompiler: the race detector needs a C compiler.
	needsCompiler needs = iota + 1
	// needsParts: Kubernetes, etcd, containerd, OVN and Open vSwitch.
	needsParts
)

// suites in the order in which they say the most the soonest.
func suites() []suite {
	return []suite{
		{name: "verify", run: verify},
		{name: "lint", run: lint},
		{name: "quick", run: func(ctx context.Context, r *runner, out *result) error {
			return r.goTest(ctx, out, r.chosen("./...")...)
		}},
		{name: "unit", needs: needsCompiler, run: unit},
		{name: "integration", needs: needsParts, run: integration},
		{name: "e2e", needs: needsParts, run: e2e},
		{name: "alone", needs: needsParts, run: alone},
		// A short list; make conformance runs the full one.
		{name: "conformance", needs: needsParts, run: func(ctx context.Context, r *runner, out *result) error {
			out.live = true
			return r.goTest(ctx, out, "-tags=e2e", "-count=1", "-timeout=60m", "-run=Short", "./test/conformance")
		}},
		// These are not part of the gate.
		{name: "fuzz", run: fuzz},
		{name: "kernel", needs: needsParts, run: kernel},
		{name: "times", needs: needsParts, run: repeatTimes},
		{name: "unsteady", needs: needsParts, run: repeatUnsteady},
		{name: "long", run: long},
	}
}

func suiteNamed(name string) (suite, error) {
	var names []string
	for _, s := range suites() {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return suite{}, fmt.Errorf("find suite %q: there are %s", name, strings.Join(names, ", "))
}

// lane is suites that run one after the other.
type lane []suite

// lanesOf reads the suites that run beside each other: NAME,NAME+NAME.
func lanesOf(names string) ([]lane, error) {
	var out []lane
	for part := range strings.SplitSeq(names, ",") {
		var l lane
		for name := range strings.SplitSeq(part, "+") {
			s, err := suiteNamed(name)
			if err != nil {
				return nil, err
			}
			l = append(l, s)
		}
		out = append(out, l)
	}
	return out, nil
}

// verify checks that what is made from other files is up to date. What the compiler and go vet can tell, the linter tells.
func verify(ctx context.Context, r *runner, out *result) error {
	out.record("generated files", r.generated(ctx))
	out.record("go.mod and go.sum", r.silent(ctx, ".", "go", "mod", "tidy", "-diff"))
	out.record("go.mod and go.sum of the tools", r.silent(ctx, tools, "go", "mod", "tidy", "-diff"))
	gofumpt, err := r.tool(ctx, "gofumpt")
	if err == nil {
		err = r.silent(ctx, ".", gofumpt, "-l", "cmd", "pkg", "test", "images")
	}
	out.record("gofumpt", err)
	return nil
}

func lint(ctx context.Context, r *runner, out *result) error {
	linter, err := r.tool(ctx, "golangci-lint")
	if err != nil {
		return err
	}
	out.record("golangci-lint", r.loud(ctx, linter, "run", "./..."))
	return nil
}

// histories plays 4,000 random histories of a cluster, the same in each run, so that a change which fails is to blame; make
// histories draws others. It does so without the race detector, which finds nothing in one goroutine and takes ten times as long,
// and on two processors. Number and seed are environment variables, which the test reads: so Go's test cache keeps the result,
// which it does not with flags of package rapid.
func (r *runner) histories(ctx context.Context, out *result) error {
	const each = 2000
	halves := make([]func(*result) error, 2)
	for i := range halves {
		half := *r
		half.settings = append(slices.Clone(r.settings), fmt.Sprintf("RAPID_CHECKS=%d", each),
			fmt.Sprintf("%s=%d", tier.RapidSeedVariable, 1+i<<40))
		halves[i] = func(part *result) error {
			return half.goTest(ctx, part, "-timeout=60m", "-run=^TestAnyHistoryEndsAsAFreshStart$", "./pkg/controller/decide")
		}
	}
	return out.together(halves...)
}

// fuzz runs each fuzz test for a short time, with the inputs that earlier runs found.
func fuzz(ctx context.Context, r *runner, out *result) error {
	listed, err := r.output(ctx, ".", "go", "list", "-f", "{{.Dir}}\t{{.ImportPath}}\t{{.TestGoFiles}} {{.XTestGoFiles}}", "./...")
	if err != nil {
		return err
	}
	tests, err := fuzzTests(listed)
	if err != nil {
		return err
	}
	for _, test := range tests {
		if err := r.fuzzOne(ctx, out, test); err != nil {
			return err
		}
	}
	return nil
}
