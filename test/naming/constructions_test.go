package naming

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// construction is a way to say something that came back often in comments and documentation, though another reads better.
type construction struct {
	name, instead string
	form          *regexp.Regexp
	// unless lists what the form's group must not be: then the sentence means something else.
	unless []string
	// found and clean are sentences of the control: the form is in the one and not in the other.
	found, clean string
}

// constructions are those that nobody writes any more.
var constructions = []construction{
	{
		name: "he, his, him or himself", instead: "name the noun (the tenant, the client), or write they and their",
		form:  regexp.MustCompile(`(?i)\b(?:he|his|him|himself)\b`),
		found: "A tenant sees his Networks.", clean: "The tenant sees its Networks: `his`, \"him\" and TestTenantSeesHisOwn are names, and so is this.",
	},
	{
		name: "has ... looked at", instead: "say what happens: queues a key, compares an object, decides anew about a pod",
		form:   regexp.MustCompile(`(?i)\b(?:has|have|had)\s+(?:[^\s.,;:]+\s+){0,11}?([^\s.,;:]+)\s+looked\s+at\b`),
		unless: []string{"be", "been", "is", "are", "was", "were", "has", "have", "had", "not", "never", "already"},
		found:  "Mark has a key\nlooked at.", clean: "Mark queues a key that has not been looked at, and has the key until the stage has looked at it.",
	},
}

// TestConstructionsAreRecognized is the control of TestNoOldConstruction.
func TestConstructionsAreRecognized(t *testing.T) {
	t.Parallel()
	for _, c := range constructions {
		if c.in(prose(c.found)) == nil {
			t.Errorf("%s is not found in: %s", c.name, c.found)
		}
		if c.in(prose(c.clean)) != nil {
			t.Errorf("%s is found in: %s", c.name, c.clean)
		}
	}
}

// TestNoOldConstruction reads the comments of all our Go, tests too, and the documentation.
func TestNoOldConstruction(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	read := 0
	for _, top := range []string{"cmd", "pkg", "test", "images", "docs", "README.md", "CONTRIBUTING.md"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			switch {
			case err != nil:
				return err
			case d.IsDir():
				return nil
			}
			texts, err := textsOf(path)
			for _, p := range texts {
				read++
				for _, c := range constructions {
					for _, at := range c.in(prose(p.text)) {
						t.Errorf("%s:%d: %s: %s", name, p.line+strings.Count(p.text[:at], "\n"), c.name, c.instead)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 1000 {
		t.Errorf("only %d comments and pages were read", read)
	}
}

// in returns the offsets at which a text has the construction.
func (c construction) in(text string) (at []int) {
	for _, m := range c.form.FindAllStringSubmatchIndex(text, -1) {
		if len(m) < 4 || !slices.Contains(c.unless, strings.ToLower(text[m[2]:m[3]])) {
			at = append(at, m[0])
		}
	}
	return at
}

// passage is a text, and the line of its file where it begins.
type passage struct {
	text string
	line int
}

// textsOf returns the comments of a Go file, or the whole of a page; nothing for other files.
func textsOf(path string) (out []passage, err error) {
	switch filepath.Ext(path) {
	case ".md":
		text, err := os.ReadFile(path)
		return []passage{{string(text), 1}}, err
	case ".go":
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, group := range file.Comments {
			var lines []string
			for _, comment := range group.List {
				lines = append(lines, strings.TrimPrefix(comment.Text, "//"))
			}
			out = append(out, passage{strings.Join(lines, "\n"), files.Position(group.Pos()).Line})
		}
	}
	return out, nil
}

// code is what is no prose: blocks and spans of code, and quoted identifiers.
var code = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```|`[^`\n]*`|\"[^\"\\s]*\"")

// prose returns a text of as many bytes and lines with its code blanked, so that offsets stay.
func prose(text string) string {
	return code.ReplaceAllStringFunc(text, func(s string) string {
		blank := []byte(s)
		for i, b := range blank {
			if b != '\n' {
				blank[i] = 'x'
			}
		}
		return string(blank)
	})
}
