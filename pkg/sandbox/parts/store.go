package parts

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Store is what nodes have of images: a root directory of containerd into which archives are imported once, and of which each node gets
// a copy.
type Store struct {
	// Containerd is the directory of containerd and ctr.
	Containerd string
	Archives   []string
	// Alias gives an image one more name, or "".
	Alias func(name string) string
}

const (
	// keptStores is how many stores the cache keeps.
	keptStores = 3
	// storeFormat changes when stores are made in another way.
	storeFormat = "1"
	// storeLimit is how long containerd may take to start.
	storeLimit = time.Minute
	imageSpace = "k8s.io"
)

// What containerd never writes to again, by where it is in its root directory. Copies of the store share these files.
var unchanging = []string{"io.containerd.content.v1.content/blobs", "io.containerd.snapshotter.v1.overlayfs/snapshots"}

// Gather returns the directory of the store in the cache, and makes it if it is not there yet.
func (s Store) Gather(ctx context.Context, cache string) (string, error) {
	key, err := s.key()
	if err != nil {
		return "", err
	}
	unlock, err := Need{Cache: cache}.lock(ctx, "containerd")
	if err != nil {
		return "", err
	}
	defer unlock()
	stores := filepath.Join(cache, "containerd")
	path := filepath.Join(stores, key)
	if !exists(path) {
		if err := complete(path, func(partial string) error { return s.fill(ctx, partial) }); err != nil {
			return "", err
		}
	}
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil { // the oldest is the one that was not used for longest
		return "", fmt.Errorf("use images: %w", err)
	}
	return path, forgetStores(stores, path)
}

// key names the content. Archives and programs in the cache are called by their content; those of others by when they were written.
func (s Store) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, storeFormat)
	for _, file := range append([]string{filepath.Join(s.Containerd, "containerd")}, s.Archives...) {
		target, err := filepath.EvalSymlinks(file)
		if err != nil {
			return "", fmt.Errorf("find images: %w", err)
		}
		info, err := os.Stat(target)
		if err != nil {
			return "", fmt.Errorf("find images: %w", err)
		}
		fmt.Fprintln(sum, target, info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// fill runs a containerd of its own on the directory and imports the archives.
func (s Store) fill(ctx context.Context, root string) (err error) {
	// Not below the directory: the path of a socket is short.
	scratch, err := os.MkdirTemp("", "atoll-images-*")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	socket, config := filepath.Join(scratch, "c.sock"), filepath.Join(scratch, "config.toml")
	if err := os.WriteFile(config, storeConfig(root, scratch, socket), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	daemon := exec.CommandContext(ctx, filepath.Join(s.Containerd, "containerd"), "--config="+config)
	log, err := os.Create(filepath.Join(scratch, "log"))
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	// It closes its databases when it is asked to end.
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = storeLimit
	if err := daemon.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	running, end := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := daemon.Wait()
		end(errors.New("containerd has ended"))
		ended <- err
	}()
	err = s.load(running, socket)
	if stop := daemon.Process.Signal(syscall.SIGTERM); errors.Is(stop, os.ErrProcessDone) {
		err = errors.Join(err, stop)
	}
	if err := errors.Join(err, <-ended); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("import images: %w\n%s", err, tail(string(said), 15))
	}
	// Each node is somebody else.
	if err := os.RemoveAll(filepath.Join(root, "io.containerd.grpc.v1.introspection")); err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	return nil
}

// storeConfig is of a containerd that runs nothing, and leaves the machine's directories alone.
func storeConfig(root, scratch, socket string) []byte {
	return fmt.Appendf(nil, `version = 3
root = %q
state = %q
disabled_plugins = [
  "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri",
  "io.containerd.internal.v1.opt",
]

[grpc]
  address = %q
[ttrpc]
  address = %q
`, root, filepath.Join(scratch, "state"), socket, socket+".ttrpc")
}

// load imports the archives and names the images.
func (s Store) load(ctx context.Context, socket string) error {
	images := []string{filepath.Join(s.Containerd, "ctr"), "--address", socket, "--namespace", imageSpace, "images"}
	ctr := func(argv ...string) (string, error) {
		return command(ctx, "/", nil, append(slices.Clone(images), argv...)...)
	}
	limited, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	for {
		_, err := ctr("ls", "-q")
		if err == nil {
			break
		}
		select {
		case <-limited.Done():
			return errors.Join(context.Cause(limited), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for _, archive := range s.Archives {
		if _, err := ctr("import", "--local", archive); err != nil {
			return err
		}
	}
	names, err := ctr("ls", "-q")
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(names) {
		if alias := s.Alias(name); alias != "" {
			if _, err := ctr("tag", "--force", name, alias); err != nil {
				return err
			}
		}
	}
	return nil
}

// CopyStore makes a root directory of containerd that has what a store has. What is never written to is shared, if both are on one file
// system.
func CopyStore(ctx context.Context, store, root string) error {
	one, err := sameDevice(store, root)
	if err != nil {
		return err
	}
	how := []string{"--reflink=auto"}
	if one {
		how = []string{"--link"}
	}
	if _, err := command(ctx, "/", nil, append(append([]string{"cp", "--archive"}, how...), store+"/.", root)...); err != nil {
		return err
	}
	if !one {
		return nil
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy images: %w", err)
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return fmt.Errorf("copy images: %w", err)
		}
		if slices.Contains(unchanging, relative) {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		if _, err := command(ctx, "/", nil, "cp", "--archive", path, path+".own"); err != nil {
			return err
		}
		return os.Rename(path+".own", path) //nolint:gosec // G122: nobody else has the directory
	})
}

func sameDevice(a, b string) (bool, error) {
	var devices [2]syscall.Stat_t
	for i, path := range []string{a, b} {
		if err := syscall.Stat(path, &devices[i]); err != nil {
			return false, fmt.Errorf("look at %s: %w", path, err)
		}
	}
	return devices[0].Dev == devices[1].Dev, nil
}

// forgetStores removes the stores that were not used for longest, and never the one that is wanted now.
func forgetStores(dir, wanted string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	used := map[string]time.Time{}
	var stores []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || strings.HasPrefix(entry.Name(), partialPrefix) {
			continue // somebody else removes it, or makes it
		}
		path := filepath.Join(dir, entry.Name())
		stores, used[path] = append(stores, path), info.ModTime()
	}
	slices.SortFunc(stores, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, old := range stores[min(len(stores), keptStores):] {
		if old == wanted {
			continue
		}
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove old images: %w", err)
		}
	}
	return nil
}
