package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// steadyTimes gives each file of git's that is as git has it a time that follows from its content, and their directories one
// time. Go's test cache takes the times of files that a test opens into account: so it finds a result again after the same
// content was cloned anew, or switched to and back. Files that somebody has changed keep their times.
func steadyTimes(ctx context.Context, root string) error {
	changed, err := listed(ctx, root, "diff", "--name-only", "-z")
	if err != nil {
		return err
	}
	dirty := map[string]bool{}
	for _, path := range changed {
		dirty[path] = true
	}
	staged, err := listed(ctx, root, "ls-files", "--stage", "-z")
	if err != nil {
		return err
	}
	dirs := map[string]bool{}
	for _, line := range staged {
		// 100644 BLOB 0<tab>PATH
		fields, path, ok := strings.Cut(line, "\t")
		parts := strings.Fields(fields)
		if !ok || len(parts) != 3 {
			return fmt.Errorf("set times of files: git says %q", line)
		}
		if dirty[path] || !strings.HasPrefix(parts[0], "100") {
			continue
		}
		when, err := timeOf(parts[1])
		if err != nil {
			return err
		}
		if err := setTime(filepath.Join(root, path), when); err != nil {
			return err
		}
		for dir := filepath.Dir(path); !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		if err := setTime(filepath.Join(root, dir), epoch); err != nil {
			return err
		}
	}
	return nil
}

// epoch is the time of directories, and before the times of all files.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// timeOf makes a time of a blob's name: between 2000 and 2016, to the second, so that every file system keeps it.
func timeOf(blob string) (time.Time, error) {
	name, err := hex.DecodeString(blob)
	if err != nil || len(name) < 4 {
		return time.Time{}, fmt.Errorf("set times of files: git says %q", blob)
	}
	return epoch.Add(time.Duration(1+binary.BigEndian.Uint32(name)>>3) * time.Second), nil
}

func setTime(path string, when time.Time) error {
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("set times of files: %w", err)
	}
	if info.ModTime().Equal(when) {
		return nil
	}
	if err := os.Chtimes(path, when, when); err != nil {
		return fmt.Errorf("set times of files: %w", err)
	}
	return nil
}

// listed are what git prints, with a zero behind each.
func listed(ctx context.Context, root string, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("set times of files: git %s: %w", strings.Join(args, " "), err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}
