// Package naming holds what no linter knows of how things are named here.
package naming

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// riddles are names that say nothing without the sentence around them.
var riddles = []string{"of", "in", "at", "by"}

// TestNoFieldIsARiddle reads all our Go, tests too: no field of a struct is called like a preposition.
func TestNoFieldIsARiddle(t *testing.T) {
	t.Parallel()
	for _, top := range []string{"cmd", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			for _, where := range riddlesOf(t, path) {
				t.Errorf("%s: say what the field holds", where)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// riddlesOf are the places of such fields in a file.
func riddlesOf(t *testing.T, path string) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					if slices.Contains(riddles, strings.ToLower(name.Name)) {
						out = append(out, files.Position(name.Pos()).String()+": "+name.Name)
					}
				}
			}
		}
		return true
	})
	return out
}
