// Package adding holds the promises of docs/design/adding.md: a domain is a package, and so is a question that inspection answers, and
// few other files know them.
package adding

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.."
	// most is how many files outside of a domain may have to know it.
	most = 5
)

// domains are real ones: what files of their own are called like, and what names their kinds.
var domains = map[string]struct{ own, names *regexp.Regexp }{
	"policies": {
		regexp.MustCompile(`polic|verdict`), regexp.MustCompile(`PolicyKey|decide/policies|Kind(Cluster)?NetworkPolicy|networkpolicies`),
	},
	"gateways": {regexp.MustCompile(`gateway`), regexp.MustCompile(`(Gateway|Route|Grant)Key|decide/gateways|KindGateway|gatewayclasses`)},
}

// listedBetween are the files that docs/design/adding.md names between two headings.
func listedBetween(t *testing.T, begins, ends string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/design/adding.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), begins+"\n")
	section, _, closed := strings.Cut(after, ends+"\n")
	if !found || !closed {
		t.Fatalf("docs/design/adding.md has no list of files any more: %s", begins)
	}
	var files []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		files = append(files, match[1])
	}
	return files
}

// TestADomainIsKnownToFewFiles reads all Go that is no test: who names a domain's kinds is the domain's own, or on the list.
func TestADomainIsKnownToFewFiles(t *testing.T) {
	t.Parallel()
	files := listedBetween(t, "## Files that must know it", "## Tests")
	if len(files) == 0 || len(files) > most {
		t.Errorf("a domain must be known to %d files, want 1 to %d: %v", len(files), most, files)
	}
	for name, domain := range domains {
		known := map[string]bool{}
		for _, path := range goFiles(t, "cmd", "pkg") {
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			if domain.own.MatchString(path) || !domain.names.Match(text) {
				continue
			}
			known[path] = true
			if !slices.Contains(files, path) {
				t.Errorf("%s knows %s: move what it does to the domain, or put it on the list", path, name)
			}
		}
		if !known["pkg/controller/decide/state.go"] || !known["pkg/domain/model/changes.go"] || !known["pkg/ovn/nb/owner.go"] {
			t.Errorf("who knows %s was not found: %v", name, known)
		}
	}
}

// stages are the packages below pkg/controller/decide. Each may import those before it and no others.
var stages = []string{
	"pass", "database", "absent", "cluster", "ledger", "drain", "networks", "attach", "nodes", "services", "gateways", "policies", "views",
	"tenants",
}

// TestStagesKnowOnlyEarlierOnes: imports go one way, from what is decided later to what is decided earlier.
func TestStagesKnowOnlyEarlierOnes(t *testing.T) {
	t.Parallel()
	const prefix = "github.com/atoll-net/atoll/pkg/controller/decide/"
	seen := map[string]bool{}
	for _, path := range goFiles(t, "pkg/controller/decide") {
		stage := filepath.Base(filepath.Dir(path))
		place := slices.Index(stages, stage)
		if stage == "decide" {
			continue
		}
		if place < 0 {
			t.Errorf("%s is of no stage that is known: give it its place", path)
			continue
		}
		seen[stage] = true
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			other, below := strings.CutPrefix(imported, prefix)
			if imported+"/" == prefix || below && slices.Index(stages, other) >= place {
				t.Errorf("%s imports %s, which does not come before it", path, imported)
			}
		}
	}
	for _, stage := range stages {
		if !seen[stage] {
			t.Errorf("there is no stage %s", stage)
		}
	}
}

// goFiles are the Go files that are no tests, from the root on.
func goFiles(t *testing.T, folders ...string) []string {
	t.Helper()
	var out []string
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(root, path)
			out = append(out, rel)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}
