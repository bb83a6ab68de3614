package parts

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A containerd that makes what a real one makes, and a ctr that writes down what it is asked for.
const (
	fakeContainerd = `#!/bin/sh
config=${1#--config=}
root=$(sed -n 's/^root = "\(.*\)"/\1/p' "$config")
cd "$root"
mkdir -p io.containerd.content.v1.content/blobs/sha256 io.containerd.metadata.v1.bolt io.containerd.grpc.v1.introspection
echo layer >"io.containerd.content.v1.content/blobs/sha256/0"
echo database >"io.containerd.metadata.v1.bolt/meta.db"
echo me >"io.containerd.grpc.v1.introspection/uuid"
trap 'kill $!; exit 0' TERM
sleep infinity &
touch "$(dirname "$0")/started"
wait
`
	fakeCtr = `#!/bin/sh
[ -e "$(dirname "$0")/started" ] || exit 1
shift 5
echo "$@" >>"$(dirname "$0")/asked"
[ "$1" != ls ] || echo example.com/a:v1
[ "$2" != --local ] || [ -e "$3" ]
`
)

func fakeStore(t *testing.T) Store {
	t.Helper()
	bin := t.TempDir()
	write(t, filepath.Join(bin, "containerd"), fakeContainerd)
	write(t, filepath.Join(bin, "ctr"), fakeCtr)
	archive := filepath.Join(bin, "a.tar")
	write(t, archive, "")
	alias := func(name string) string { return strings.Replace(name, ":v1", ":sandbox", 1) }
	return Store{Containerd: bin, Archives: []string{archive}, Alias: alias}
}

func TestStoreIsFilledOnce(t *testing.T) {
	s, cache := fakeStore(t), t.TempDir()
	first, err := s.Gather(t.Context(), cache)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(filepath.Join(s.Containerd, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"ls -q", "import --local " + s.Archives[0], "ls -q", "tag --force example.com/a:v1 example.com/a:sandbox"}
	if got := strings.Split(strings.TrimSpace(string(asked)), "\n"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked for %q, want %q", got, want)
	}
	if !exists(filepath.Join(first, "io.containerd.metadata.v1.bolt/meta.db")) {
		t.Error("what containerd made is not in the store")
	}
	if exists(filepath.Join(first, "io.containerd.grpc.v1.introspection")) {
		t.Error("all nodes would call themselves the same")
	}
	// Now nothing can be run: it is in the cache.
	for _, program := range []string{"containerd", "ctr"} {
		if err := os.Chmod(filepath.Join(s.Containerd, program), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := s.Gather(t.Context(), cache); err != nil || again != first {
		t.Errorf("the second time it is %s (%v), want %s", again, err, first)
	}
	write(t, s.Archives[0], "other content")
	if _, err := s.Gather(t.Context(), cache); err == nil {
		t.Error("other archives are found in the cache")
	}
}

func TestStoreThatFailsIsNotKept(t *testing.T) {
	s, cache := fakeStore(t), t.TempDir()
	write(t, filepath.Join(s.Containerd, "containerd"), "#!/bin/sh\necho its disk is full >&2\nexit 1\n")
	if _, err := s.Gather(t.Context(), cache); err == nil || !strings.Contains(err.Error(), "its disk is full") {
		t.Errorf("error is %v, want what containerd said", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "containerd", "[^.]*")); err != nil || len(left) > 0 {
		t.Errorf("a failure left %v (%v)", left, err)
	}
}

func TestCopiesShareWhatNeverChanges(t *testing.T) {
	top := t.TempDir()
	store := filepath.Join(top, "store")
	files := map[string]bool{
		"io.containerd.content.v1.content/blobs/sha256/0": true, "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/program": true,
		"io.containerd.metadata.v1.bolt/meta.db": false, "io.containerd.snapshotter.v1.overlayfs/metadata.db": false,
	}
	for file := range files {
		write(t, filepath.Join(store, file), "content")
	}
	inode := func(path string) uint64 {
		t.Helper()
		var file syscall.Stat_t
		if err := syscall.Stat(path, &file); err != nil {
			t.Fatal(err)
		}
		return file.Ino
	}
	for _, node := range []string{"n1", "n2"} {
		root := filepath.Join(top, node)
		if err := os.Mkdir(root, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := CopyStore(t.Context(), store, root); err != nil {
			t.Fatal(err)
		}
		for file, shared := range files {
			if got := inode(filepath.Join(root, file)) == inode(filepath.Join(store, file)); got != shared {
				t.Errorf("%s of %s is the store's own file: %v, want %v", file, node, got, shared)
			}
			if data, err := os.ReadFile(filepath.Join(root, file)); err != nil || string(data) != "content" {
				t.Errorf("%s of %s is %q (%v)", file, node, data, err)
			}
		}
	}
}

func TestKeepLeavesTheNewestAndTheUsed(t *testing.T) {
	dir := t.TempDir()
	names := []string{"used", "old", "old too", "b", "c", partialPrefix + "x"}
	for age, name := range names {
		path := filepath.Join(dir, name)
		write(t, filepath.Join(path, "file"), "")
		used := time.Now().Add(time.Duration(age-len(names)) * time.Hour)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	if err := Keep(filepath.Join(dir, "used"), "[^.]*", 3); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got := exists(filepath.Join(dir, name)); got != !strings.HasPrefix(name, "old") {
			t.Errorf("%s is there: %v", name, got)
		}
	}
}
