package main

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tried are packages of a module of their own. A test of marks leaves a file, and passes when it finds it.
var tried = map[string]string{
	"go.mod": "module tried\n",
	"unsteady/x_test.go": `package x

import ("os"; "testing")

func TestOnce(t *testing.T) {
	t.Run("first", func(t *testing.T) {})
	t.Run("second", func(t *testing.T) { once(t, "once") })
}

func TestGood(t *testing.T) {}

func once(t *testing.T, mark string) {
	if _, err := os.Stat(mark); err != nil {
		os.WriteFile(mark, nil, 0o600)
		t.Error("not yet")
	}
}
`,
	"broken/x_test.go": `package x

import "testing"

func TestBroken(t *testing.T) { t.Error("wrong") }
`,
	"skipped/x_test.go": `package x

import "testing"

func TestSkipped(t *testing.T) { t.Skip("no") }
`,
	"panics/x_test.go": `package x

import ("os"; "testing")

func TestPanics(t *testing.T) {
	if _, err := os.Stat("once"); err != nil {
		os.WriteFile("once", nil, 0o600)
		panic("boom")
	}
}

func TestNeverRun(t *testing.T) {}
`,
	"prepares/x_test.go": `package x

import ("os"; "testing")

func TestMain(m *testing.M) {
	if _, err := os.Stat("once"); err != nil {
		os.WriteFile("once", nil, 0o600)
		println("nothing comes up")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestA(t *testing.T) {}
func TestB(t *testing.T) {}
`,
	"ends/x_test.go": `package x

import ("os"; "testing")

func TestMain(m *testing.M) {
	m.Run()
	os.Exit(1)
}

func TestA(t *testing.T) {}
`,
	"unbuilt/x_test.go": "package x\n\nfunc wrong() int {}\n",
	"three/x_test.go": `package x

import ("os"; "testing")

func once(t *testing.T, mark string) {
	if _, err := os.Stat(mark); err != nil {
		os.WriteFile(mark, nil, 0o600)
		t.Error("not yet")
	}
}

func TestA(t *testing.T) { once(t, "a") }
func TestB(t *testing.T) { once(t, "b") }
func TestC(t *testing.T) { once(t, "c") }
`,
}

// TestFailuresAreRunAgain lets go test run packages of each kind of failure, and looks at what becomes of it.
func TestFailuresAreRunAgain(t *testing.T) {
	root := t.TempDir()
	for name, text := range tried {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	for _, test := range []struct {
		pkg                      string
		passed, failed, unsteady int
		ran                      []string
	}{
		{pkg: "./unsteady", passed: 3, unsteady: 1, ran: []string{"TestOnce"}},
		{pkg: "./broken", failed: 1, ran: []string{"TestBroken"}},
		{pkg: "./skipped", failed: 1},
		{pkg: "./panics", failed: 1},
		{pkg: "./unbuilt", failed: 1},
		{pkg: "./prepares", passed: 2, unsteady: 1, ran: []string{"tried/prepares"}},
		{pkg: "./ends", passed: 1, failed: 1},
		{pkg: "./three", failed: 3, ran: []string{"TestA", "TestB", "TestC"}},
	} {
		t.Run(filepath.Base(test.pkg), func(t *testing.T) {
			var printed bytes.Buffer
			r := &runner{out: &printed}
			out := result{name: "tried", out: &printed, live: test.pkg == "./prepares"}
			if err := r.goTest(t.Context(), &out, "-timeout=1m", "-count=1", test.pkg); err != nil {
				t.Fatal(err)
			}
			results := []result{out}
			unsteady := runAgain(t.Context(), &printed, results)
			got := results[0]
			if got.passed != test.passed || got.failed != test.failed || len(got.unsteady) != test.unsteady {
				t.Errorf("%d passed, %d failed, %d unsteady; want %d, %d and %d\n%s",
					got.passed, got.failed, len(got.unsteady), test.passed, test.failed, test.unsteady, printed.String())
			}
			for _, name := range test.ran {
				if !strings.Contains(printed.String(), "  "+name+", run again\n") {
					t.Errorf("%s was not run again:\n%s", name, printed.String())
				}
			}
			if again := strings.Count(printed.String(), ", run again\n"); again != len(test.ran) {
				t.Errorf("%d tests were run again, want %d:\n%s", again, len(test.ran), printed.String())
			}
			if test.pkg == "./prepares" {
				var summary bytes.Buffer
				if !summarise(&summary, results) || !strings.Contains(summary.String(), "nothing comes up") {
					t.Errorf("the summary does not say what failed:\n%s", summary.String())
				}
			}
			if test.pkg == "./unsteady" {
				list := unsteadyList{filepath.Join(root, "cache", "unsteady")}
				list.remember(&printed, unsteady)
				if lines, err := list.read(); err != nil || !slices.Equal(lines, []string{"-timeout=1m\ttried/unsteady\tTestOnce"}) {
					t.Errorf("the list has %q, %v", lines, err)
				}
				var summary bytes.Buffer
				if !summarise(&summary, results) || !strings.Contains(summary.String(), "unsteady  tried: TestOnce/second failed, and passed") {
					t.Errorf("the summary does not tell of it:\n%s", summary.String())
				}
				// make test-all repeats it, and it passes each time.
				repeated := result{name: "unsteady", out: &printed}
				r.unsteady = list
				if err := repeatUnsteady(t.Context(), r, &repeated); err != nil || repeated.failed > 0 || repeated.passed == 0 {
					t.Errorf("repeated: %d passed, %d failed, %v\n%s", repeated.passed, repeated.failed, err, printed.String())
				}
				if lines, err := list.read(); err != nil || len(lines) > 0 {
					t.Errorf("the list still has %q, %v", lines, err)
				}
			}
		})
	}
}

// TestTheListOfUnsteadyTests holds each of them once.
func TestTheListOfUnsteadyTests(t *testing.T) {
	list := unsteadyList{filepath.Join(t.TempDir(), "cache", "unsteady")}
	for _, change := range []struct{ add, remove, want []string }{
		{want: nil},
		{add: []string{"b", "a"}, want: []string{"a", "b"}},
		{add: []string{"b", "c"}, want: []string{"a", "b", "c"}},
		{remove: []string{"b", "d"}, want: []string{"a", "c"}},
	} {
		if err := list.change(change.add, change.remove); err != nil {
			t.Fatal(err)
		}
		if got, err := list.read(); err != nil || !slices.Equal(got, change.want) {
			t.Errorf("after %+v: %q, %v", change, got, err)
		}
	}
}

// TestManyFailuresAreNotRunAgain: a run in which so much fails is not made longer.
func TestManyFailuresAreNotRunAgain(t *testing.T) {
	var printed bytes.Buffer
	r := &runner{out: &printed}
	out := result{name: "tried", out: &printed}
	for name := range strings.FieldsSeq("A B C D E F G H I") {
		out.fail(failure{what: name, again: r.alone(nil, "p", "Test"+name)})
	}
	results := []result{out}
	if unsteady := runAgain(t.Context(), &printed, results); len(unsteady) > 0 || results[0].failed != maxAgain+1 {
		t.Errorf("%d unsteady, %d failed", len(unsteady), results[0].failed)
	}
}

// TestAlone: a test is run again with the flags of its run, but for those that choose tests.
func TestAlone(t *testing.T) {
	r := &runner{}
	got := r.alone([]string{"-tags=e2e", "-skip=^TestX$", "-run=.", "-p=1", "-count=1", "-timeout=60m", "a", "b"}, "a", "TestY/one/two")
	if want := []string{"-tags=e2e", "-skip=^TestX$", "-timeout=60m"}; !slices.Equal(got.flags, want) || got.pkg != "a" ||
		got.test != "TestY" {
		t.Errorf("%+v", got)
	}
	for _, flag := range []string{"-fuzz=^FuzzX$", "-exec=/kernel"} {
		if got := r.alone([]string{flag, "a"}, "a", "TestY"); got != nil {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

// TestSettings: the gate draws by one seed, everything by another each time, and who sets a seed has it.
func TestSettings(t *testing.T) {
	t.Setenv("ATOLL_SEED", "")
	t.Setenv("RAPID_SEED", "")
	if got := settings(false); !slices.Equal(got, []string{"ATOLL_SEED=1", "RAPID_SEED=1"}) {
		t.Errorf("the gate has %q", got)
	}
	drawn := map[string]bool{}
	for range 2 {
		all := settings(true)
		if len(all) != 3 || all[2] != "ATOLL_TIER=all" {
			t.Fatalf("everything has %q", all)
		}
		drawn[all[0]] = true
	}
	if len(drawn) != 2 {
		t.Errorf("everything is drawn by %q", slices.Collect(maps.Keys(drawn)))
	}
	t.Setenv("ATOLL_SEED", "7")
	if got := settings(false); !slices.Equal(got, []string{"RAPID_SEED=1"}) {
		t.Errorf("with a seed of one's own the gate has %q", got)
	}
}
