package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// Each bug can still be put in: what it takes the place of is there, once, and what comes is Go.
func TestBugsCanBePutIn(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range mutations {
		text, err := m.mutated()
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("there are two bugs %s", m.name)
		}
		names[m.name] = true
	}
}

func TestWhatAHistorySays(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"    history_test.go:27: [rapid] failed after 12 tests: split: Network 1 is ready\n": "split: Network 1 is ready",
		"    history_test.go:27: [rapid] panic after 3 tests: nil\n":                         "a history panics",
	} {
		if got := firstWords(out); got != want {
			t.Errorf("of %q: %q, want %q", out, got, want)
		}
	}
}
