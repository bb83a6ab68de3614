//go:build integration

package names

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const envInside = "ATOLL_TEST_INSIDE"

// TestMain starts the tests anew in network and mount namespaces of their own: the portholes of the machine are not theirs.
func TestMain(m *testing.M) {
	if os.Getenv(envServe) != "" {
		os.Exit(m.Run()) // It is in a test's namespaces, where portholes are.
	}
	if os.Getenv(envInside) != "" {
		if err := isolate(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The process that a parent-death signal follows is the thread that started it.
	runtime.LockOSThread()
	inside := exec.Command(self, os.Args[1:]...)
	inside.Env = append(os.Environ(), envInside+"=1")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := inside.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "run the tests in namespaces of their own, as root:", err)
		os.Exit(1)
	}
}

func isolate() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	return errors.Join(
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		os.MkdirAll("/var/run/netns", 0o755),
		unix.Mount("tmpfs", "/var/run/netns", "tmpfs", 0, ""),
		netlink.LinkSetUp(lo),
	)
}
