package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// installed are the e2e tests that are part of suite alone: a cluster of their own, of which they replace, kill and remove parts.
const installed = module + "test/e2e/installed"

// quiet are the integration tests that count lost packets or hold a time, and are therefore part of suite alone. The other tests
// of their packages are part of suite integration. The lists run beside each other: these tests wait more than they work.
var quiet = [][]quietTest{
	{
		{"pkg/agent", "^TestAPodDoesNotHaveOVNControllerToItself$"},
		{"pkg/daemons/central", "^(TestCluster|TestRebuild)$"},
		{"pkg/daemons/chassis", "^TestRestarts$"},
	},
	{{"pkg/controller/decide", "^Test[A-I].*" + packets}},
	{{"pkg/controller/decide", "^Test[J-Z].*" + packets}},
}

// quietTest is the pattern of go test -run for tests of a package.
type quietTest struct{ dir, tests string }

// packets ends the names of tests that count packets.
const packets = "(WithPackets|UnderTraffic|WithinASecond)$"

// unraced are packages that start no goroutine, and whose tests compute for seconds: the race detector takes five to twelve times
// as long there, and would have nothing to find.
var unraced = []string{
	"pkg/domain/compatible", "pkg/ovn/compile", "pkg/inspect/policytrial", "test/adding", "test/docs", "test/matrix/between",
	"test/monitoring", "test/naming",
	"test/policy/cases", "test/policy/oracle", "test/policy/random",
}

// unit runs the tests that need nothing else.
func unit(ctx context.Context, r *runner, out *result) error {
	listed, err := r.output(ctx, ".", "go", "list", "./...")
	if err != nil {
		return err
	}
	with, without := strings.Fields(listed), make([]string, 0, len(unraced))
	for _, dir := range unraced {
		without = append(without, module+dir)
	}
	with = slices.DeleteFunc(with, func(name string) bool { return slices.Contains(without, name) })
	if err := r.goTest(ctx, out, r.chosen(append([]string{"-race"}, with...)...)...); err != nil {
		return err
	}
	if err := r.goTest(ctx, out, r.chosen(without...)...); err != nil {
		return err
	}
	return r.histories(ctx, out)
}

// e2e runs the tests on whole clusters, but for those of suite alone.
func e2e(ctx context.Context, r *runner, out *result) error {
	out.live = true
	listed, err := r.output(ctx, ".", "go", "list", "./test/e2e/...")
	if err != nil {
		return err
	}
	packages := slices.DeleteFunc(strings.Fields(listed), func(name string) bool { return name == installed })
	// Its tests wait more than they work. Its packages share the sandbox's name: one at a time.
	return r.goTest(ctx, out, r.chosen(append([]string{"-tags=e2e", "-count=1", "-timeout=60m", "-p=1", "-parallel=4"}, packages...)...)...)
}

// alone runs what counts packets that are lost while parts are replaced, and bounds them: nothing else may run beside it.
func alone(ctx context.Context, r *runner, out *result) error {
	out.live = true
	lanes := make([]func(*result) error, 0, len(quiet))
	for _, list := range quiet {
		lanes = append(lanes, func(part *result) error {
			for _, q := range list {
				if err := r.goTest(ctx, part, r.chosen("-tags=integration", "-count=1", "-timeout=20m", "-run="+q.tests, module+q.dir)...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := out.together(lanes...); err != nil {
		return err
	}
	return r.goTest(ctx, out, r.chosen("-tags=e2e", "-count=1", "-timeout=60m", "-parallel=4", installed)...)
}

// integration runs the tests that have that tag, but for those of suite alone. Those of the same packages that have none are part
// of suite unit. Two packages run at a time: they start servers, and wait for them.
func integration(ctx context.Context, r *runner, out *result) error {
	listed, err := r.output(ctx, ".", "go", "list", "-e", "-tags=integration", "-f", "{{.ImportPath}}\t{{.Dir}}", "./...")
	if err != nil {
		return err
	}
	var packages, tests []string
	for line := range strings.Lines(listed) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		tagged, err := integrationTests(dir)
		if err != nil {
			return err
		}
		if len(tagged) > 0 {
			packages, tests = append(packages, name), append(tests, tagged...)
		}
	}
	if len(packages) == 0 {
		return fmt.Errorf("find integration tests: no package has any")
	}
	elsewhere, err := quietTests(".")
	if err != nil {
		return err
	}
	flags := []string{"-tags=integration", "-count=1", "-p=2", "-timeout=20m", "-run=" + anyOf(tests)}
	return r.goTest(ctx, out, r.chosenBut(elsewhere, append(flags, packages...)...)...)
}

// anyOf is the pattern of go test -run for tests of these names.
func anyOf(tests []string) string {
	slices.Sort(tests)
	return "^(" + strings.Join(slices.Compact(tests), "|") + ")$"
}

// integrationTests finds the names of the tests of a directory that are built with tag integration only.
func integrationTests(dir string) ([]string, error) {
	return testsIn(dir, func(source []byte) bool { return integrationTag.Match(source) })
}

var integrationTag = regexp.MustCompile(`(?m)^//go:build integration\b`)

// quietTests are the names of the tests of quiet.
func quietTests(root string) ([]string, error) {
	var names []string
	for _, q := range slices.Concat(quiet...) {
		wanted, err := regexp.Compile(q.tests)
		if err != nil {
			return nil, fmt.Errorf("read list of suite alone: %w", err)
		}
		before := len(names)
		there, err := testsIn(filepath.Join(root, q.dir), func([]byte) bool { return true })
		if err != nil {
			return nil, err
		}
		for _, name := range there {
			if wanted.MatchString(name) {
				names = append(names, name)
			}
		}
		if len(names) == before {
			return nil, fmt.Errorf("read list of suite alone: no test of %s is like %s", q.dir, q.tests)
		}
	}
	return names, nil
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testsIn finds the names of the tests in those files of a directory whose source is wanted, whatever their build tags.
func testsIn(dir string, wanted func(source []byte) bool) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("list tests: %w", err)
	}
	var names []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read test: %w", err)
		}
		if !wanted(source) {
			continue
		}
		for _, match := range testFunc.FindAllSubmatch(source, -1) {
			if name := string(match[1]); name != "TestMain" {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
