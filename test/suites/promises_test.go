package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the table of promises anew")

// promise is a sentence of a page, and the tests that hold it. all are those that only make test-all runs.
type promise struct {
	Promise   string   `json:"promise"`
	Gate, All []string `json:",omitempty"`
}

// root is the repository.
const root = "../.."

// where are the directories of each test of the tree, and the build tag of its file, which may be empty.
type where struct{ dir, tag string }

func treeOfTests(t *testing.T) map[string][]where {
	t.Helper()
	found := map[string][]where{}
	constraint := regexp.MustCompile(`(?m)^//go:build (\S+)`)
	for _, top := range []string{"cmd", "pkg", "test", "images", "dist"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			in := where{}
			if in.dir, err = filepath.Rel(root, filepath.Dir(path)); err != nil {
				return err
			}
			if match := constraint.FindSubmatch(text); match != nil {
				in.tag = string(match[1])
			}
			for _, match := range testFunc.FindAllSubmatch(text, -1) {
				found[string(match[1])] = append(found[string(match[1])], in)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// inGate reports whether make test runs a test that is there.
func inGate(name string, in where) bool {
	if slices.ContainsFunc(later, func(m moved) bool { return m.dir == in.dir && m.test == name }) {
		return false
	}
	switch in.tag {
	case "", "integration", "linux":
		return true
	case "e2e":
		return in.dir == "test/e2e" || strings.HasPrefix(in.dir, "test/e2e/") || in.dir == "test/conformance" && name == "TestShort"
	}
	return false
}

// TestLater: each test that is left out of the gate is there, no other test is left out with it, and its twin is in the gate.
func TestLater(t *testing.T) {
	tree := treeOfTests(t)
	for _, m := range later {
		function, _, _ := strings.Cut(m.test, "/")
		if at := tree[function]; len(at) != 1 || at[0].dir != m.dir {
			t.Errorf("%s is to be in %s alone: it is in %v", function, m.dir, at)
		}
		dir, twin, err := twinOf(m.twin)
		if err != nil {
			t.Error(err)
			continue
		}
		at := slices.IndexFunc(tree[twin], func(in where) bool { return in.dir == dir })
		if at < 0 || !inGate(twin, tree[twin][at]) {
			t.Errorf("%s has the twin %s, which the gate does not run: it is in %v", m.test, m.twin, tree[twin])
		}
		if m.why == "" {
			t.Errorf("%s: the table does not say why", m.test)
		}
	}
	for _, p := range times {
		if !slices.Contains(tree[p.test], where{p.dir, p.tag}) {
			t.Errorf("%s of the promised times is in %v", p.test, tree[p.test])
		}
	}
}

// TestQuiet: what suite alone runs is left out of suite integration by its name, and no other test with it.
func TestQuiet(t *testing.T) {
	names, err := quietTests(root)
	if err != nil {
		t.Fatal(err)
	}
	tree := treeOfTests(t)
	for _, name := range names {
		if at := tree[name]; len(at) != 1 || at[0].tag != "integration" {
			t.Errorf("%s is in %v", name, at)
		}
	}
}

// TestPromises: each promise of security.md, operations.md and README.md has a test in the gate, each test that is named is
// there, and testing.md has the table of all this.
func TestPromises(t *testing.T) {
	tree := treeOfTests(t)
	var table strings.Builder
	table.WriteString("| page | promise | in the gate | in `make test-all` alone |\n|---|---|---|---|\n")
	row := func(page string, p promise) {
		if len(p.Gate) == 0 {
			t.Errorf("%s: %q has no test in the gate", page, p.Promise)
			return
		}
		gate := make([]string, len(p.Gate))
		for i, name := range p.Gate {
			gate[i] = "`" + name + "`"
			if !slices.ContainsFunc(tree[name], func(in where) bool { return inGate(name, in) }) {
				t.Errorf("%s: %q has %s in the gate, which is in %v", page, p.Promise, name, tree[name])
			}
		}
		all := make([]string, len(p.All))
		for i, name := range p.All {
			all[i] = "`" + name + "`"
			if err := onlyInAll(tree, name); err != nil {
				t.Errorf("%s: %q: %v", page, p.Promise, err)
			}
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", strings.TrimPrefix(page, "docs/"), p.Promise, strings.Join(gate, ", "),
			strings.Join(all, ", "))
	}
	listed := map[string][]promise{}
	text, err := os.ReadFile("promises.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(text, &listed)
	}
	if err != nil {
		t.Fatal(err)
	}
	for page, made := range map[string][]string{
		"README.md": readmePromises(t), "docs/operations.md": operationsPromises(t), "docs/security.md": securityPromises(t),
	} {
		for _, text := range made {
			if !slices.ContainsFunc(listed[page], func(p promise) bool { return strings.Contains(text, p.Promise) }) {
				t.Errorf("promises.yaml has nothing of %s for %q", page, text)
			}
		}
	}
	for _, page := range []string{"docs/security.md", "docs/operations.md", "README.md"} {
		text := strings.Join(strings.Fields(readPage(t, page)), " ")
		for _, p := range listed[page] {
			if !strings.Contains(text, p.Promise) {
				t.Errorf("%s does not promise %q", page, p.Promise)
			}
			row(page, p)
		}
	}
	const begin, end = "<!-- promises -->\n", "<!-- /promises -->\n"
	page := readPage(t, "docs/design/testing.md")
	before, rest, ok := strings.Cut(page, begin)
	held, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("testing.md has no place for the table")
	}
	if held == table.String() {
		return
	}
	if !*update {
		t.Fatal("the table of testing.md is out of date: go test ./test/suites -run TestPromises -update")
	}
	if err := os.WriteFile(filepath.Join(root, "docs/design/testing.md"), []byte(before+begin+table.String()+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// onlyInAll is an error unless make test-all runs a test or a command that the gate does not.
func onlyInAll(tree map[string][]where, name string) error {
	if target, is := strings.CutPrefix(name, "make "); is {
		text, err := os.ReadFile(filepath.Join(root, "Makefile"))
		if err == nil && !strings.Contains(string(text), "\n"+target+":") {
			err = fmt.Errorf("there is no %s", name)
		}
		return err
	}
	if !slices.ContainsFunc(later, func(m moved) bool { return m.test == name }) {
		return fmt.Errorf("%s is not left out of the gate: it is in %v", name, tree[name])
	}
	return nil
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows are the rows of a page's tables whose header a function takes, as their cells.
func rows(page string, header func(cells []string) bool) [][]string {
	var found [][]string
	lines := strings.Split(page, "\n")
	inside := false
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		switch {
		case i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---"):
			inside = header(cells)
		case inside && !strings.HasPrefix(line, "|---"):
			found = append(found, cells)
		}
	}
	return found
}

// securityPromises are the points of security.md that do not begin with what is open, and the rows of what a tenant can use up.
func securityPromises(t *testing.T) []string {
	t.Helper()
	page := readPage(t, "docs/security.md")
	var found []string
	point := false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "- "):
			if point = !strings.HasPrefix(line, "- **Open"); point {
				found = append(found, line)
			}
		case point && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "    "):
			found[len(found)-1] += " " + strings.TrimSpace(line)
		default:
			point = false
		}
	}
	points := len(found)
	for _, cells := range rows(page, func(cells []string) bool { return cells[0] == "a tenant makes many" }) {
		found = append(found, strings.Join(cells, " | "))
	}
	if points == 0 || len(found) == points {
		t.Fatal("docs/security.md has no points, or no table of what a tenant can use up")
	}
	return found
}

// readmePromises are the points before the first heading below the title, and what the first comparison says of Atoll.
func readmePromises(t *testing.T) []string {
	t.Helper()
	page := readPage(t, "README.md")
	head, _, _ := strings.Cut(page, "\n## ")
	var found []string
	for paragraph := range strings.SplitSeq(head, "\n\n") {
		if !strings.HasPrefix(paragraph, "- ") {
			continue
		}
		for point := range strings.SplitSeq("\n"+paragraph, "\n- ") {
			if point != "" {
				found = append(found, strings.Join(strings.Fields(point), " "))
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("README.md begins without points")
	}
	for _, cells := range rows(page, func(cells []string) bool { return len(cells) == 6 && cells[1] == "Atoll" }) {
		// A row in which others have more, and what Atoll has not.
		if cells[1] != "" && cells[1] != "no" {
			found = append(found, cells[0]+": "+cells[1])
		}
	}
	return found
}

// operationsPromises are the rows of what pods notice, but for the control, and the sections that follow.
func operationsPromises(t *testing.T) []string {
	t.Helper()
	page := readPage(t, "docs/operations.md")
	var found []string
	for _, cells := range rows(page, func(cells []string) bool { return cells[0] == "what happens" }) {
		if cells[0] != "nothing" {
			found = append(found, cells[0])
		}
	}
	if len(found) == 0 {
		t.Fatal("docs/operations.md does not say what pods notice")
	}
	headings := regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(page, -1)
	for _, match := range headings[1:] { // the first one is that of the table
		found = append(found, match[1])
	}
	return found
}
