package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestWorktree: a worktree of git's gives the same image as the repository at the same commit. What differs in its files is seen
// as Go sees it in a repository.
func TestWorktree(t *testing.T) {
	source := smallSource(t)
	tree := filepath.Join(t.TempDir(), "tree")
	cmd := exec.CommandContext(t.Context(), "git", "-C", source, "worktree", "add", "-q", "--detach", tree)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain, b := smallBuilder(t, source), smallBuilder(t, tree)
	b.packages = plain.packages
	r := b.list.Images[0]
	want, err := plain.build(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if without, err := b.build(t.Context(), r); err != nil || without.version != unknown {
		t.Errorf("Go knows worktrees now, and buildable is not needed: version %s, %v", without.version, err)
	}
	build := func() built {
		t.Helper()
		if b.stamped, err = b.buildable(t.Context(), filepath.Join(b.scratch, "source")); err != nil {
			t.Fatal(err)
		}
		got, err := b.build(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := build(); got.version != "v1.2.3" || !bytes.Equal(read(t, got.archive), read(t, want.archive)) {
		t.Errorf("version %s, digest %s; in the repository %s", got.version, got.digest, want.digest)
	}
	if where, err := plain.buildable(t.Context(), t.TempDir()); err != nil || where != source {
		t.Errorf("a repository is built in %s: %v", where, err)
	}

	put(t, filepath.Join(tree, "cmd/small/more.go"), "package main\n\nfunc init() { println(\"more\") }\n")
	if got := build(); got.version != "v1.2.3+dirty" || got.digest == want.digest {
		t.Errorf("with a new file: version %s, digest %s", got.version, got.digest)
	}
	if err := os.Remove(filepath.Join(tree, "cmd/small/more.go")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(tree, "images/etc/passwd")); err != nil {
		t.Fatal(err)
	}
	if got := build(); got.version != "v1.2.3+dirty" {
		t.Errorf("without a file: version %s", got.version)
	}
}
