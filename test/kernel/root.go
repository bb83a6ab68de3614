package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// makeRoot changes the root, which is this machine's and cannot be written, into one that looks the same and can: what
// is written stays in memory. /proc, /sys, /dev and /run are the kernel's own.
func makeRoot() error {
	const base = "/tmp" // any directory that is there
	if err := mount("tmpfs", base, "tmpfs", ""); err != nil {
		return err
	}
	root, upper, work := filepath.Join(base, "root"), filepath.Join(base, "upper"), filepath.Join(base, "work")
	for _, dir := range []string{root, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("make root: %w", err)
		}
	}
	if err := mount("overlay", root, "overlay", "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	// Both on one directory: the old root ends up on top of the new one, and goes (pivot_root(2)).
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of old root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	for _, own := range []struct{ fstype, target string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"},
	} {
		if err := mount(own.fstype, own.target, own.fstype, ""); err != nil {
			return err
		}
	}
	return unix.Sethostname([]byte("kernel-test"))
}

func mount(source, target, fstype, options string) error {
	if err := unix.Mount(source, target, fstype, 0, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype, target, err)
	}
	return nil
}
