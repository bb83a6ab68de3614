package ui

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// TestVendor: what is others' is what vendor.json says, and has its licence beside it.
func TestVendor(t *testing.T) {
	t.Parallel()
	text, err := staticFiles.ReadFile("static/vendor/vendor.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct{ File, Name, Version, Licence, LicenceFile, Source, SHA256 string }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"vendor.json": true}
	for _, v := range all {
		file, err := staticFiles.ReadFile(path.Join("static/vendor", v.File))
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(file)); sum != v.SHA256 {
			t.Errorf("%s has the sum %s, and vendor.json says %s", v.File, sum, v.SHA256)
		}
		if !strings.Contains(string(file), `"`+v.Version+`"`) {
			t.Errorf("%s does not say that it is version %s", v.File, v.Version)
		}
		licence, err := staticFiles.ReadFile(path.Join("static/vendor", v.LicenceFile))
		if err != nil || len(licence) < 500 {
			t.Errorf("the licence of %s has %d bytes: %v", v.Name, len(licence), err)
		}
		if v.Licence == "" || !strings.HasPrefix(v.Source, "https://registry.npmjs.org/"+v.Name+"/-/") || !strings.Contains(v.Source, v.Version) {
			t.Errorf("%s is of %q, under %q", v.Name, v.Source, v.Licence)
		}
		known[v.File], known[v.LicenceFile] = true, true
	}
	if len(all) != 2 {
		t.Errorf("there are %d", len(all))
	}
	files, err := fs.ReadDir(staticFiles, "static/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("vendor.json does not know %s", f.Name())
		}
	}
}
