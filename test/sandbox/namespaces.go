package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaceDir is where ip-netns(8) keeps named network namespaces.
const namespaceDir = "/run/netns"

// newNamed makes a network namespace with a name. It has to be called on a goroutine of its own: the thread
// moves through the new namespace and, if it cannot come back, ends with the goroutine.
func newNamed(name string) error {
	if err := shareDir(namespaceDir); err != nil {
		return err
	}
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		return fmt.Errorf("open own network namespace: %w", err)
	}
	defer home.Close()
	made, err := netns.NewNamed(name)
	if err != nil {
		return fmt.Errorf("make network namespace %s: %w", name, err)
	}
	made.Close()
	if err := netns.Set(home); err != nil {
		return fmt.Errorf("leave network namespace %s: %w", name, err)
	}
	runtime.UnlockOSThread()
	return nil
}

// namespacesOf lists the named network namespaces of a sandbox: its control plane, its outside, and nodes of any
// number.
func namespacesOf(sandbox string) ([]string, error) {
	entries, err := os.ReadDir(namespaceDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if isNamespaceOf(sandbox, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// isNamespaceOf recognises exactly the names that namespace makes, so that those of a sandbox whose name begins
// alike, or of someone else, are left alone.
func isNamespaceOf(sandbox, name string) bool {
	place, ok := strings.CutPrefix(name, sandbox+"-")
	return ok && isPlace(place)
}

// isPlace recognises the name of a place of any sandbox.
func isPlace(name string) bool {
	if name == Central || name == Outside {
		return true
	}
	for i := 1; i <= maxNodes; i++ {
		if name == nodeAt(i).name {
			return true
		}
	}
	return false
}

// shareDir makes a directory a mount of its own, which copies of the mounts share, unless it is one. It is what
// ip-netns(8) does with the directory of names before it makes the first. If we left it to the next who calls that
// program, such a mount would come to lie over our names, and what is mounted on them could not be removed any more.
func shareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	held, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil { // as ip-netns(8) does
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	err = unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, "")
	if errors.Is(err, unix.EINVAL) { // it is no mount yet
		if err = unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", dir, "", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share mounts of %s: %w", dir, err)
	}
	return nil
}

// unshareDir takes that back when nothing is in the directory.
func unshareDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err == nil {
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EBUSY) { // it is no mount, or somebody is there
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}

func removeNamespace(name string) error {
	path := filepath.Join(namespaceDir, name)
	// A file without a namespace mounted on it is what an interrupted start leaves.
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount network namespace %s: %w", name, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove network namespace %s: %w", name, err)
	}
	return nil
}
