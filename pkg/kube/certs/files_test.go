package certs

import (
	"os"
	"path/filepath"
	"testing"
)

// Whoever reads through the directory while it changes finds files of one time; none is readable for others; and nothing is left behind.
func TestFilesChangeAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	names := []string{FileKey, FileCertificate, FileCA, FileCentralCA}
	for _, text := range []string{"old", "new", "newer"} {
		all := files{}
		for _, name := range names {
			all[name] = []byte(text)
		}
		if err := writeFiles(dir, all); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			path := filepath.Join(dir, name)
			have, err := os.ReadFile(path)
			if err != nil || string(have) != text {
				t.Errorf("%s is %q: %v", name, have, err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v: %v", name, info.Mode(), err)
			}
		}
	}
	// Both come by one link, so that one rename changes both.
	for _, name := range names {
		if target, err := os.Readlink(filepath.Join(dir, name)); err != nil || target != filepath.Join(current, name) {
			t.Errorf("%s leads to %q: %v", name, target, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(names)+2 {
		t.Errorf("%d entries, want the files, the link and one directory: %v", len(entries), err)
	}
}
