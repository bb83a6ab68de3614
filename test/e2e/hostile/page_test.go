package hostile

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThePageNamesTests: the table of promises in docs/design/testing.md names each test of this package. That each test it names is
// there, TestPromises of test/suites holds.
func TestThePageNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/design/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "<!-- promises -->")
	table, _, closed := strings.Cut(table, "<!-- /promises -->")
	if !found || !closed {
		t.Fatal("the page has no table of promises")
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	own := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range function.FindAllSubmatch(text, -1) {
			name := string(match[1])
			if name == "TestMain" || name == "TestThePageNamesTests" {
				continue
			}
			own++
			if !strings.Contains(table, "`"+name+"`") {
				t.Errorf("the table of promises does not name %s", name)
			}
		}
	}
	if own == 0 {
		t.Fatal("this package has no tests")
	}
}
