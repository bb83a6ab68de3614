package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// suite is a named part of the tests.
type suite struct {
	name string
	// parts: it needs what gather provides.
	parts bool
	run   func(context.Context, *runner, *result) error
}

// suites in the order in which they say the most the soonest.
func suites() []suite {
	return []suite{
		{name: "verify", run: verify},
		{name: "lint", run: lint},
		// The race detector needs a C compiler, which gather installs.
		{name: "unit", parts: true, run: func(ctx context.Context, r *runner, out *result) error {
			if err := r.goTest(ctx, out, "-race", "./..."); err != nil {
				return err
			}
			return r.histories(ctx, out)
		}},
		{name: "fuzz", run: fuzz},
		{name: "integration", parts: true, run: integration},
		{name: "e2e", parts: true, run: func(ctx context.Context, r *runner, out *result) error {
			out.live = true
			listed, err := r.output(ctx, ".", "go", "list", "./test/e2e/...")
			if err != nil {
				return err
			}
			packages := slices.DeleteFunc(strings.Fields(listed), func(name string) bool { return name == installed })
			// Its tests wait more than they work. Its packages share the sandbox's name: one at a time.
			return r.goTest(ctx, out, append([]string{"-tags=e2e", "-count=1", "-timeout=60m", "-p=1", "-parallel=4"}, packages...)...)
		}},
		// They count packets that are lost while parts are replaced, and bound them: nothing else may run beside them.
		{name: "alone", parts: true, run: func(ctx context.Context, r *runner, out *result) error {
			out.live = true
			if err := r.goTest(ctx, out, append([]string{"-tags=integration", "-count=1", "-p=1", "-timeout=20m"}, counting...)...); err != nil {
				return err
			}
			return r.goTest(ctx, out, "-tags=e2e", "-count=1", "-timeout=60m", "-parallel=4", installed)
		}},
		// A short list; make conformance runs the full one.
		{name: "conformance", parts: true, run: func(ctx context.Context, r *runner, out *result) error {
			out.live = true
			return r.goTest(ctx, out, "-tags=e2e", "-count=1", "-timeout=60m", "-run=Short", "./test/conformance")
		}},
		{name: "kernel", parts: true, run: kernel},
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

// installed are the e2e tests that are part of suite alone.
const installed = module + "test/e2e/installed"

// counting are the packages whose integration tests are part of suite alone.
var counting = []string{module + "pkg/central", module + "pkg/decide"}

// tags are the build tags of all our tests.
const tags = "-tags=integration,e2e"

// verify checks that what is made from other files is up to date, and what the compiler can tell.
func verify(ctx context.Context, r *runner, out *result) error {
	out.record("generated files", r.generated(ctx))
	out.record("go.mod and go.sum", r.silent(ctx, ".", "go", "mod", "tidy", "-diff"))
	out.record("go.mod and go.sum of the tools", r.silent(ctx, tools, "go", "mod", "tidy", "-diff"))
	out.record("go vet", r.silent(ctx, ".", "go", "vet", tags, "./..."))
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

// histories plays 10,000 random histories of a cluster, the same in each run, so that a change which fails is to blame; make histories draws
// others. It does so without the race detector, which finds nothing in one goroutine and takes ten times as long, and on two processors.
func (r *runner) histories(ctx context.Context, out *result) error {
	const each = 5000
	var (
		doing   errgroup.Group
		printed [2]bytes.Buffer
		halves  [2]result
	)
	for i := range halves {
		halves[i] = result{name: out.name, out: &printed[i]}
		doing.Go(func() error {
			return r.goTest(ctx, &halves[i], "-count=1", "-timeout=60m", "-run=^TestAnyHistoryEndsAsAFreshStart$", "./pkg/decide",
				fmt.Sprintf("-rapid.checks=%d", each), fmt.Sprintf("-rapid.seed=%d", 1+i<<40))
		})
	}
	err := doing.Wait()
	for i := range halves {
		if _, copyErr := printed[i].WriteTo(out.out); err == nil {
			err = copyErr
		}
		out.add(halves[i])
	}
	return err
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

// integration runs the tests of the packages that have some with that tag. Two packages run at a time: they start servers, and wait for them.
func integration(ctx context.Context, r *runner, out *result) error {
	const files = "{{.ImportPath}} {{.TestGoFiles}} {{.XTestGoFiles}}"
	without, err := r.output(ctx, ".", "go", "list", "-e", "-f", files, "./...")
	if err != nil {
		return err
	}
	with, err := r.output(ctx, ".", "go", "list", "-e", "-tags=integration", "-f", files, "./...")
	if err != nil {
		return err
	}
	packages := slices.DeleteFunc(differing(without, with), func(name string) bool { return slices.Contains(counting, name) })
	if len(packages) == 0 {
		return fmt.Errorf("find integration tests: no package has any")
	}
	return r.goTest(ctx, out, append([]string{"-tags=integration", "-count=1", "-p=2", "-timeout=20m"}, packages...)...)
}

// differing returns the first words of the lines of b that are not in a.
func differing(a, b string) []string {
	known := map[string]bool{}
	for line := range strings.Lines(a) {
		known[line] = true
	}
	var words []string
	for line := range strings.Lines(b) {
		if word, _, _ := strings.Cut(line, " "); !known[line] {
			words = append(words, word)
		}
	}
	return words
}
