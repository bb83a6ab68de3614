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

// TestLinksLead: no link of a page leads to a file or a heading that is not there.
func TestLinksLead(t *testing.T) {
	pages, err := AllPages(root)
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		dead, err := Dead(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range dead {
			t.Errorf("%s: nothing is at %s", page, l)
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		links += len(Links(string(text)))
	}
	if len(pages) < 40 || links < 500 {
		t.Errorf("only %d links on %d pages were found", links, len(pages))
	}
}

// TestNamedTestsAreThere: a page that calls a test as its witness calls one that there is.
func TestNamedTestsAreThere(t *testing.T) {
	pages, err := AllPages(root)
	if err != nil {
		t.Fatal(err)
	}
	tests, named := goTests(t), regexp.MustCompile("`(?:Test|Fuzz)[A-Z]\\w*`")
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			count++
			if name = name[1 : len(name)-1]; !tests[name] {
				t.Errorf("%s: there is no test %s", page, name)
			}
		}
	}
	if count < 300 {
		t.Errorf("only %d names of tests were found", count)
	}
}

// TestMetricsAreTold: a page names each metric, since names of metrics are promised as those of the API are (docs/support.md).
func TestMetricsAreTold(t *testing.T) {
	pages, err := AllPages(root)
	if err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	metric, count := regexp.MustCompile(`(?:Name:\s*|NewDesc\()"(atoll_[a-z_]+)"`), 0
	err = filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range metric.FindAllSubmatch(text, -1) {
			count++
			if !strings.Contains(told.String(), string(match[1])) {
				t.Errorf("%s: no page names the metric %s", path, match[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 30 {
		t.Errorf("only %d metrics were found", count)
	}
}

func TestDeadLinks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.md": "# A page\n\n## What's `in` it, and [why](b.md)?\n\n## Twice\n\n## Twice\n\n```\n# no heading\n```\n" +
			"[1](b.md) [2](b.md#b) [3](#whats-in-it-and-why) [4](#twice-1) [5](https://example.com/x) ![6](c.png)\n" +
			"[7](d.md) [8](b.md#c) [9](#twice-2) [10](#no-heading)\n",
		"b.md":  "# B\n",
		"c.png": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dead, err := Dead(dir, "a.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d.md", "b.md#c", "#twice-2", "#no-heading"}, dead); diff != "" {
		t.Error(diff)
	}
}

// TestPagesThatCodeNames: messages, comments and manifests lead people to pages and headings that are there.
func TestPagesThatCodeNames(t *testing.T) {
	page, count := regexp.MustCompile(`\bdocs/[A-Za-z/-]+\.md(?:#[a-z0-9-]+)?`), 0
	for _, dir := range []string{"cmd", "pkg", "dist", "images", "test"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains([]string{".go", ".yaml", ".json"}, filepath.Ext(path)) ||
				filepath.Dir(path) == filepath.Join(root, "test/docs") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, named := range page.FindAllString(string(text), -1) {
				count++
				name, anchor, anchored := strings.Cut(named, "#")
				there, err := os.ReadFile(filepath.Join(root, name))
				if err != nil || anchored && !Anchors(string(there))[anchor] {
					t.Errorf("%s: nothing is at %s", path, named)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 100 {
		t.Errorf("only %d pages were found", count)
	}
}
