package porthole

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/netdev"
)

// before is what something is made upon.
type before int

const (
	// something: perhaps what was made before, in whatever state it is by now.
	something before = iota
	// nothing: a namespace that was made a moment ago. Then nothing has to be looked for or removed: each question costs
	// a turn at a lock that all links of the machine share, and each removal more.
	nothing
)

// openNetns opens a porthole's network namespace, and makes it when it is not there. The caller closes it.
func openNetns(path string) (netns ns.NetNS, upon before, err error) {
	if netdev.NetnsGone(path) {
		if err := makeNetns(path); err != nil {
			return nil, something, fmt.Errorf("make network namespace %s: %w", path, err)
		}
		upon = nothing
	}
	if netns, err = ns.GetNS(path); err != nil {
		return nil, something, fmt.Errorf("open network namespace: %w", err)
	}
	return netns, upon, nil
}

// makeNetns makes a network namespace that stays as long as it is mounted at path.
func makeNetns(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A crash may have left the file without the mount.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o444)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	made := make(chan error)
	go func() {
		// Never unlocked: the thread ends with the goroutine, so that nobody else runs in the new namespace.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		made <- err
	}()
	return <-made
}

// removeNetns removes a namespace, and what is left of one. That there is none is no error.
func removeNetns(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// listNetns are the files in netnsDir whose names are those of portholes.
func listNetns() ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if id, has := idIn(e.Name()); has && e.Name() == id.Name() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// inside runs f in a porthole's network namespace, or in the caller's when netns is nil. What f starts there, and what it
// asks of the kernel, is there.
func inside(netns ns.NetNS, f func() error) error {
	if netns == nil {
		return f()
	}
	return netns.Do(func(ns.NetNS) error { return f() })
}
