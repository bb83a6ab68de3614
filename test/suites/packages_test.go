package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// A package that starts a goroutine belongs under the race detector. Tests that run in parallel are no matter: what they call
// keeps nothing.
func TestUnracedPackagesStartNoGoroutine(t *testing.T) {
	for _, dir := range unraced {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", dir, err)
		}
		for _, file := range files {
			if line := startsGoroutine(t, file, nil); line > 0 {
				t.Errorf("%s:%d starts a goroutine: take %s from the list", file, line, dir)
			}
		}
	}
	for _, body := range []string{"go f()", "var g sync.WaitGroup; g.Go(f)"} {
		if startsGoroutine(t, "x.go", "package x; func f() { "+body+" }") == 0 {
			t.Errorf("%s was not found", body)
		}
	}
}

// startsGoroutine returns the first line of a file that starts a goroutine, or 0.
func startsGoroutine(t *testing.T, file string, source any) (line int) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			line = set.Position(n.Pos()).Line
		case *ast.SelectorExpr:
			if n.Sel.Name == "Go" {
				line = set.Position(n.Pos()).Line
			}
		}
		return line == 0
	})
	return line
}
