//go:build integration

package nri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// envInside tells the test binary that it has been started anew, in namespaces of its own: a runtime's mounts, sockets
// and containers are seen by nobody else, and end with it.
const envInside = "ATOLL_TEST_INSIDE"

// cgroupParent is below what containers of these tests are put.
const cgroupParent = "/atoll-nri-test"

func TestMain(m *testing.M) {
	if os.Getenv(envInside) == "" {
		os.Exit(runInside())
	}
	if err := settle(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func runInside() int {
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "find the test binary:", err)
		return 1
	}
	// The process that a parent-death signal follows is the thread that started it.
	runtime.LockOSThread()
	inside := exec.Command(self, os.Args[1:]...)
	inside.Env = append(os.Environ(), envInside+"=1")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	signal.Ignore(syscall.SIGINT)
	err = errors.Join(inside.Run(), removeCgroups())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(1, inside.ProcessState.ExitCode())
	}
	return 0
}

// settle gives the namespaces what a node has: its own processes in /proc, an empty /run, and mounts that show up in
// other mount namespaces.
func settle() error {
	steps := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED},
	}
	for _, s := range steps {
		if err := unix.Mount(s.source, s.target, s.kind, s.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", s.target, err)
		}
	}
	return nil
}

// removeCgroups removes what a runtime that was killed has left of the tests' cgroups.
func removeCgroups() error {
	tops, err := filepath.Glob(filepath.Join("/sys/fs/cgroup", "*", cgroupParent))
	if err != nil {
		return err
	}
	var failed []error
	for _, top := range append(tops, filepath.Join("/sys/fs/cgroup", cgroupParent)) {
		var groups []string
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				groups = append([]string{path}, groups...)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
		failed = append(failed, err)
		for _, group := range groups {
			if err := unix.Rmdir(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
				failed = append(failed, fmt.Errorf("remove cgroup %s: %w", group, err))
			}
		}
	}
	return errors.Join(failed...)
}
