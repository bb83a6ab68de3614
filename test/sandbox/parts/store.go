package parts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	stores := filepath.Join(cache, "containerd")
	path := filepath.Join(stores, key)
	if !exists(path) {
		if err := complete(ctx, path, func(partial string) error { return s.fill(ctx, partial) }); err != nil {
			return "", err
		}
	}
	return path, Keep(path, "[^.]*", keptStores)
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
	const script = `cp --archive --link "$1/." "$2" 2>/dev/null || cp --archive --reflink=auto --remove-destination "$1/." "$2" || exit
cd "$1" && find . \( -path "./$3" -o -path "./$4" \) -prune -o -type f -print0 | xargs -0 cp --archive --remove-destination --parents -t "$2"`
	_, err := command(ctx, "/", nil, append([]string{"sh", "-c", script, "sh", store, root}, unchanging...)...)
	return err
}

// Keep notes that a file or directory of the cache is used now. Of those in its directory whose names match the pattern
// (filepath.Match), it removes all but the few that were used last.
func Keep(used, pattern string, few int) error {
	now := time.Now()
	if err := os.Chtimes(used, now, now); err != nil {
		return fmt.Errorf("use what is kept: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(used), pattern))
	if err != nil {
		return fmt.Errorf("list what is kept: %w", err)
	}
	age := map[string]time.Duration{}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			age[path] = time.Since(info.ModTime())
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(age[a], age[b]) })
	for _, old := range paths[min(len(paths), few):] {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("remove what is old: %w", err)
		}
	}
	return nil
}
