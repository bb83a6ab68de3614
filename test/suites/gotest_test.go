package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	for _, test := range []struct {
		name, events   string
		passed, failed int
		shows          []string
	}{
		{
			name: "only the innermost tests count",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA/one/x"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1.5}`,
			passed: 3,
			shows:  []string{"ok    p", "3 passed"},
		},
		{
			name: "a failed subtest is shown with what the test around it said",
			events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"around\n"}
{"Action":"output","Package":"p","Test":"TestA/one","Output":"inside\n"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			passed: 1, failed: 1,
			shows: []string{"FAIL", "around", "inside"},
		},
		{
			name: "a test that fails after its subtests passed",
			events: `
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			passed: 1, failed: 1,
		},
		{
			name: "a package that runs out of time after a test failed",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
			failed: 2,
			shows:  []string{"TestB did not end", "timed out"},
		},
		{
			name: "a skipped test counts as failed",
			events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"no root\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			failed: 1,
			shows:  []string{"FAIL", "TestA was skipped", "no root"},
		},
		{
			name: "a package that does not build",
			events: `
{"ImportPath":"p [p.test]","Action":"build-output","Output":"x.go:1: wrong\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL p [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			failed: 1,
			shows:  []string{"x.go:1: wrong"},
		},
		{
			name: "a test that never ended",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
			failed: 1,
			shows:  []string{"timed out"},
		},
		{
			name: "a test that never ended, and said why",
			events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p"}`,
			passed: 1, failed: 1,
			shows: []string{"TestA did not end:", "timed out"},
		},
		{
			name: "what a test says of itself is shown",
			events: `
{"Action":"attr","Package":"p","Test":"TestA","Key":"packets","Value":"800 agree"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`,
			passed: 1,
			shows:  []string{"TestA: packets: 800 agree"},
		},
		{
			name:   "a package without tests",
			events: `{"Action":"skip","Package":"p"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			got := result{out: &out}
			if err := newTally(&got).read(strings.NewReader(test.events)); err != nil {
				t.Fatal(err)
			}
			if got.passed != test.passed || got.failed != test.failed {
				t.Errorf("%d passed, %d failed; want %d and %d\n%s", got.passed, got.failed, test.passed, test.failed, out.String())
			}
			for _, words := range test.shows {
				if !strings.Contains(out.String(), words) {
					t.Errorf("does not show %q:\n%s", words, out.String())
				}
			}
		})
	}
}

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		name    string
		results []result
		last    string
		well    bool
	}{
		{"all passed", []result{{name: "a", passed: 2}, {name: "b", passed: 1}}, "3 passed, 0 failed", true},
		{"one failed", []result{{name: "a", passed: 2, failed: 1}}, "2 passed, 1 failed", false},
		{"nothing ran", nil, "0 passed, 0 failed", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			well := summarise(&out, test.results)
			lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != test.last || well != test.well {
				t.Errorf("last line %q, all well %t; want %q, %t", last, well, test.last, test.well)
			}
		})
	}
}

// TestGist: what is left of a failure's text says what failed.
func TestGist(t *testing.T) {
	long := strings.Repeat("x", maxLine) + "ä"
	text := "=== RUN   TestA\n    a_test.go:5: time=1 level=INFO msg=\"all is well\"\n    I1128 09:41:11.514985   12883 handler.go:304] " +
		"Adding\n    a_test.go:7: not well\n" + long + "\n--- FAIL: TestA (1s)\n"
	want := "=== RUN   TestA\n    a_test.go:7: not well\n" + strings.Repeat("x", maxLine) + "…\n--- FAIL: TestA (1s)"
	if got := gist(text); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
	if logs := "time=1 level=ERROR msg=all"; gist(logs) != logs {
		t.Errorf("of logs alone nothing is left but %q", gist(logs))
	}
	lines := strings.Repeat("line\n", 2*maxRecalled+2)
	if got := gist(lines); !strings.Contains(got, "(2 lines)") || strings.Count(got, "line\n") != 2*maxRecalled-1 {
		t.Error(got)
	}
}

// TestLive: a test of a suite that takes minutes says why it failed when it fails, and a log's end says it once more.
func TestLive(t *testing.T) {
	var out bytes.Buffer
	got := result{name: "e2e", out: &out, live: true}
	events := `
{"Action":"output","Package":"p","Test":"TestA","Output":"3 of 7 lost\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Output":"== a log\n"}
{"Action":"fail","Package":"p"}`
	if err := newTally(&got).read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	at := strings.Index(out.String(), "3 of 7 lost")
	if next := strings.Index(out.String(), "TestB"); at < 0 || at > next {
		t.Errorf("does not say at once why it failed:\n%s", out.String())
	}
	out.Reset()
	got.fail(failure{what: "TestC", text: "a reason\n" + strings.Repeat("line\n", 2*maxRecalled) + "the reason\n"})
	summarise(&out, []result{got})
	for _, words := range []string{
		"FAIL  e2e: TestA\n      3 of 7 lost", "FAIL  e2e: TestC\n      a reason\n", "\n      (2 lines)\n", "the reason\n", "1 passed, 2 failed",
	} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("the end does not show %q:\n%s", words, out.String())
		}
	}
}

func TestOnlyTaggedTestsAreOfIntegration(t *testing.T) {
	dir := t.TempDir()
	for name, source := range map[string]string{
		"a_test.go": "package a\n\nfunc TestUnit(t *testing.T) {}\n",
		"b_test.go": "// Package a.\n\n//go:build integration\n\npackage a\n\nfunc TestReal(t *testing.T) {}\n\nfunc FuzzReal(f *testing.F) {}\n",
		"c_test.go": "//go:build e2e\n\npackage a\n\nfunc TestCluster(t *testing.T) {}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := integrationTests(dir)
	if err != nil || anyOf(append(got, got...)) != "^(FuzzReal|TestReal)$" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOvertime(t *testing.T) {
	for printed, want := range map[string]bool{
		"--- FAIL: FuzzX (10.13s)\n    context deadline exceeded\nFAIL\n":                                            true,
		"--- FAIL: FuzzX (1.1s)\n    x_test.go:9: wrong\n    Failing input written to testdata/fuzz/FuzzX/582528\n":  false,
		"--- FAIL: FuzzX (9s)\n    context deadline exceeded\n    Failing input written to testdata/fuzz/FuzzX/58\n": false,
		"": false,
	} {
		if got := overtime(printed); got != want {
			t.Errorf("%q: %v", printed, got)
		}
	}
}
