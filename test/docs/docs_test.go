package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

// TestEachCommandIsClaimed: who writes a command into a page says in commands.yaml which test runs it, or marks its block; and no
// claim outlives its command.
func TestEachCommandIsClaimed(t *testing.T) {
	pages, err := Pages(root)
	if err != nil {
		t.Fatal(err)
	}
	table, err := Table(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, targets := goTests(t), makeTargets(t)
	commands := 0
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		claims := table[page]
		delete(table, page)
		claimed := slices.Concat(claims.Run, claims.Fails, claims.Make, claims.Like)
		for name, commands := range claims.Tests {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", page, name)
			}
			claimed = append(claimed, commands...)
		}
		for _, command := range claims.Make {
			fields := strings.Fields(command)
			if bench, found := strings.CutPrefix(command, "go test ./"); found {
				dir, _, _ := strings.Cut(bench, " ")
				if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
					t.Errorf("%s: %q: %v", page, command, err)
				}
			} else if len(fields) < 2 || fields[0] != "make" || !targets[fields[1]] {
				t.Errorf("%s: the Makefile has no target of %q", page, command)
			}
		}
		var there []string
		for _, c := range Commands(page, string(text)) {
			commands++
			if c.Other {
				continue
			}
			there = append(there, c.Text)
			if !c.Help && !slices.Contains(claimed, c.Text) {
				t.Errorf("%s: no test claims this command; add it to test/docs/commands.yaml, or put %s before its block:\n%s", page, Mark, c.Text)
			}
		}
		for _, c := range claimed {
			if !slices.Contains(there, c) {
				t.Errorf("%s: commands.yaml claims a command that the page has not:\n%s", page, c)
			}
		}
	}
	for page := range table {
		t.Errorf("commands.yaml has the page %s, which is not there", page)
	}
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}

func TestCommands(t *testing.T) {
	got := Commands("a.md", `# Page

Text with kubectl in it.

    kubectl get pods     # all
    NAME   READY
    $ atoll check --x \
      --y

- kubectl is in a list

`+Mark+`

    docker build .

And then

`+"```"+`
kubectl apply -f - <<'END'
kind: Pod
END
`+"```"+`
- in a list:

      make demo

<!-- made: help of atoll check -->

`+"```text"+`
  atoll check --repair
`+"```"+`

<!-- end -->

<!-- made: output of atoll check -->

`+"```text"+`
$ atoll check
`+"```"+`

<!-- end -->
`)
	want := []Command{
		{"a.md", "kubectl get pods", false, false},
		{"a.md", "atoll check --x --y", false, false},
		{"a.md", "docker build .", true, false},
		{"a.md", "kubectl apply -f - <<'END'\nkind: Pod\nEND", false, false},
		{"a.md", "make demo", false, false},
		{"a.md", "atoll check --repair", false, true},
		{"a.md", "atoll check", false, false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSteps(t *testing.T) {
	claims := Claims{Run: []string{"kubectl apply -f a.yaml", "atoll explain a c"}, Fails: []string{"atoll explain a b"}}
	got := Steps("a.md", `
    kubectl apply -f a.yaml
    atoll explain a b      # it is stopped
    kubectl apply -f a.yaml
    make demo

`+Mark+`

    atoll explain a c

And then

    atoll explain a c
`, claims)
	want := []Step{{"kubectl apply -f a.yaml", 0}, {"atoll explain a b", 1}, {"atoll explain a c", 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// goTests are the names of all tests and fuzz tests of the repository.
func goTests(t *testing.T) map[string]bool {
	t.Helper()
	name, found := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`), map[string]bool{}
	for _, dir := range []string{"cmd", "pkg", "test", "images"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range name.FindAllSubmatch(text, -1) {
				found[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*##`).FindAllSubmatch(text, -1) {
		found[string(match[1])] = true
	}
	return found
}
