package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThePageNamesTests: each test that docs/security.md names is there, and it names each test of this package.
func TestThePageNamesTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, match := range regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`").FindAllSubmatch(page, -1) {
		named[string(match[1])] = true
	}
	if len(named) == 0 {
		t.Fatal("the page names no test")
	}
	// There, with whether it is one of this package.
	there := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	for _, root := range []string{"../../../pkg", "../../../test", "../../../cmd"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range function.FindAllSubmatch(text, -1) {
				name := string(match[1])
				there[name] = there[name] || strings.HasSuffix(filepath.Dir(path), filepath.Join("e2e", "hostile"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range named {
		if _, is := there[name]; !is {
			t.Errorf("docs/security.md names %s, which is no test", name)
		}
	}
	for name, own := range there {
		if own && name != "TestMain" && name != "TestThePageNamesTests" && !named[name] {
			t.Errorf("docs/security.md does not name %s", name)
		}
	}
}
