package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSteadyTimes: two clones have the same times, another content has another time, and what somebody changed is left alone.
func TestSteadyTimes(t *testing.T) {
	made := t.TempDir()
	git := func(dir string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	write := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(dir, name string) time.Time {
		t.Helper()
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	git(made, "init", "-q")
	write(made, "below/a", "a")
	write(made, "below/b c", "b")
	git(made, "add", ".")
	git(made, "commit", "-q", "-m", "first")
	clones := t.TempDir()
	one, two := filepath.Join(clones, "one"), filepath.Join(clones, "two")
	git(clones, "clone", "-q", made, one)
	git(clones, "clone", "-q", made, two)
	write(two, "below/new", "nobody knows it")
	for _, clone := range []string{one, two} {
		if err := steadyTimes(t.Context(), clone); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"below/a", "below/b c", "below", "."} {
		if first, second := at(one, name), at(two, name); !first.Equal(second) || time.Since(first) < 24*time.Hour {
			t.Errorf("%s is of %s and %s", name, first, second)
		}
	}
	if at(one, "below/a").Equal(at(one, "below/b c")) {
		t.Error("two contents have one time")
	}
	if time.Since(at(two, "below/new")) > time.Hour {
		t.Error("a file that git does not know has another time")
	}
	write(two, "below/a", "A")
	before := at(two, "below/a")
	if err := steadyTimes(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if !at(two, "below/a").Equal(before) {
		t.Error("a file that was changed has another time")
	}
	git(two, "add", ".")
	if err := steadyTimes(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	if at(two, "below/a").Equal(at(one, "below/a")) {
		t.Error("another content has the same time")
	}
}
