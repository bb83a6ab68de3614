package adding

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// mostForQuestion is how many Go files outside of a question's package may have to know it.
	mostForQuestion = 3
	rowsFile        = "pkg/inspect/resources/resources.go"
	servedFile      = "pkg/inspect/inspectapi/reads.go"
	namesFile       = "pkg/apis/inspect/v1alpha1/doc.go"
	// shortNames has methods for what the command line asks for most, which is no part of answering.
	shortNames = "pkg/inspect/client/remote.go"
)

// questions are real ones: what files of their own are called like, and what names them.
var questions = map[string]struct{ own, names *regexp.Regexp }{
	"ipamchecks": {
		regexp.MustCompile(`^pkg/inspect/ipam/|^pkg/apis/inspect/v1alpha1/ipam\.go$`),
		regexp.MustCompile(`ResourceIPAMChecks|\bIPAMChecks\(|\bIPAMCheck\b`),
	},
	"topologies": {
		regexp.MustCompile(`^pkg/inspect/topology/|^pkg/apis/inspect/v1alpha1/topology\.go$`),
		regexp.MustCompile(`ResourceTopologies|\bTopologies\(|\bapi\.Topology\b|inspect/topology"`),
	},
}

// TestAQuestionIsKnownToFewFiles reads all Go that is no test, but for the command line, which asks and prints: who names a
// question is its own package, or on the list of docs/design/adding.md.
func TestAQuestionIsKnownToFewFiles(t *testing.T) {
	t.Parallel()
	files := listedBetween(t, "## Files that must know a question", "## Tests of a question")
	if i := slices.IndexFunc(files, func(f string) bool { return filepath.Ext(f) != ".go" }); i >= 0 {
		files = files[:i]
	}
	if len(files) == 0 || len(files) > mostForQuestion {
		t.Errorf("a question must be known to %d files, want 1 to %d: %v", len(files), mostForQuestion, files)
	}
	for name, q := range questions {
		known := map[string]bool{}
		for _, path := range goFiles(t, "cmd", "pkg") {
			if strings.HasPrefix(path, "pkg/cli/") || path == shortNames || q.own.MatchString(path) || !q.names.MatchString(read(t, path)) {
				continue
			}
			known[path] = true
			if !slices.Contains(files, path) {
				t.Errorf("%s knows %s: move what it does to the question's package, or put it on the list", path, name)
			}
		}
		for _, path := range []string{namesFile, rowsFile, servedFile} {
			if !known[path] {
				t.Errorf("%s does not know %s: what names it was not found", path, name)
			}
		}
	}
}

// TestEachResourceIsServed: each row of package resources has one in inspectapi.Reads, and somebody may read it.
func TestEachResourceIsServed(t *testing.T) {
	t.Parallel()
	served, users := read(t, servedFile), read(t, "dist/rbac/users.yaml")
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, rowsFile), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, decl := range file.Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is || !f.Name.IsExported() || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
			continue
		}
		of, is := f.Type.Results.List[0].Type.(*ast.IndexExpr)
		if !is {
			continue
		}
		if kind, is := of.X.(*ast.Ident); !is || kind.Name != "Resource" {
			continue
		}
		rows++
		if !strings.Contains(served, "readOf(resources."+f.Name.Name+"(), s)") {
			t.Errorf("%s has the resource %s, and %s does not serve it", rowsFile, f.Name.Name, servedFile)
		}
		constant := regexp.MustCompile(`\bResource` + f.Name.Name + ` = "([a-z]+)"`).FindStringSubmatch(read(t, namesFile))
		if constant == nil {
			t.Errorf("%s has no name for the resource %s", namesFile, f.Name.Name)
		} else if !regexp.MustCompile(`apiGroups: \[inspect\.atoll\.dev\]\n\s*resources: \[[^]]*\b` + constant[1] + `\b[^]]*\]\n\s*verbs: \[get, list`).MatchString(users) {
			t.Errorf("nobody may read %s: dist/rbac/users.yaml", constant[1])
		}
	}
	if rows == 0 {
		t.Errorf("%s has no row: this test shows nothing", rowsFile)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
