package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is made in pages anew")

// TestAPIPages: the tables of fields on the pages of the API are what the types' comments say; make generate writes them anew.
func TestAPIPages(t *testing.T) {
	types, err := ReadTypes(root)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/api/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables := 0
	for _, page := range pages {
		have, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Fill(string(have), func(what string) (string, error) {
			name, found := strings.CutPrefix(what, "fields of ")
			if !found {
				return "", fmt.Errorf("%q is no table of fields", what)
			}
			tables++
			name, apart, _ := strings.Cut(name, " without ")
			return types.Fields(name, strings.Fields(apart)...)
		})
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if diff := cmp.Diff(string(have), want); diff != "" {
			t.Errorf("%s (-have +want; run make generate):\n%s", page, diff)
		}
	}
	if tables < 7 {
		t.Errorf("only %d tables of fields were found", tables)
	}
}
