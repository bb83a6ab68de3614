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
)

// namespaceDir is where ip-netns(8) keeps named network namespaces.
const namespaceDir = "/run/netns"

// newNamed makes a network namespace with a name. It has to be called on a goroutine of its own: the thread
// moves through the new namespace and, if it cannot come back, ends with the goroutine.
func newNamed(name string) error {
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

// namespacesOf lists the named network namespaces of a sandbox: its control plane and nodes of any number.
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
	if name == Central {
		return true
	}
	for i := 1; i <= maxNodes; i++ {
		if name == nodeAt(i).name {
			return true
		}
	}
	return false
}

func removeNamespace(name string) error {
	if err := netns.DeleteNamed(name); err != nil {
		// A file without a namespace mounted on it is what an interrupted start leaves.
		if err := os.Remove(filepath.Join(namespaceDir, name)); err != nil {
			return fmt.Errorf("remove network namespace %s: %w", name, err)
		}
	}
	return nil
}
