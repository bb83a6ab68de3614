package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// buildable is a directory with the same files as the source, in which Go stamps what it builds. That is the source, unless it is
// a worktree of git's: Go knows a repository by a directory .git (cmd/go/internal/vcs, RootNames), and a worktree has a file
// there. Then it is a clone of the worktree's commit in dir, with the worktree's files, so that programs of the same commit are
// the same, wherever they are built.
func (b builder) buildable(ctx context.Context, dir string) (string, error) {
	info, err := os.Stat(filepath.Join(b.source, ".git"))
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return b.source, nil
	}
	if err != nil {
		return "", fmt.Errorf("find repository: %w", err)
	}
	git := func(args ...string) (string, error) {
		out, err := b.run(ctx, nil, append([]string{"git"}, args...)...)
		return strings.TrimSpace(out), err
	}
	repository, err := git("rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return "", err
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	// What is there and what is new; what is ignored is not looked at by Go's stamp either.
	files, err := git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("remove old clone: %w", err)
	}
	// Objects stay where they are.
	for _, args := range [][]string{
		{"clone", "-q", "--shared", "--no-checkout", repository, dir},
		{"-C", dir, "update-ref", "--no-deref", "HEAD", commit},
		{"-C", dir, "read-tree", "HEAD"},
	} {
		if _, err := git(args...); err != nil {
			return "", err
		}
	}
	for file := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(b.source, file), filepath.Join(dir, file)); err != nil {
			return "", fmt.Errorf("copy source: %w", err)
		}
	}
	return dir, nil
}

// tellSource prints the directory in which make build builds the working directory's programs.
func tellSource(ctx context.Context, dir string, out io.Writer) error {
	source, err := filepath.Abs(".")
	if err != nil {
		return fmt.Errorf("find source: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("find source: %w", err)
	}
	where, err := builder{source: source}.buildable(ctx, dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, where)
	return err
}

// copyFile copies a file, or the symbolic link that it is. One that was removed, and is in the index still, is none.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
