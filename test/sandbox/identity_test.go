package sandbox

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/test/sandbox/place"
)

func TestMarked(t *testing.T) {
	own := newRecord(Options{Name: "reef"}).ID
	mark := func(id string) []byte {
		return []byte("HOME=/root\x00" + place.IDVariable + "=" + id + "\x00PATH=/bin\x00")
	}
	for name, c := range map[string]struct {
		environment []byte
		want        bool
	}{
		"own mark":                {mark(own), true},
		"of another sandbox":      {mark(newRecord(Options{Name: "reef2"}).ID), false},
		"the name alone":          {mark("reef"), false},
		"a short random part":     {mark("reef.1234"), false},
		"the mark as a value":     {[]byte("NOTE=" + place.IDVariable + "=" + own + "\x00"), false},
		"a variable that ends so": {[]byte("X_" + place.IDVariable + "=" + own + "\x00"), false},
		"no environment":          {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := marked(c.environment, "reef"); got != c.want {
				t.Errorf("marked is %v, want %v", got, c.want)
			}
		})
	}
}

func TestNamespaceNames(t *testing.T) {
	for name, want := range map[string]bool{
		"reef-central": true, "reef-outside": true, "reef-n1": true, "reef-n20": true,
		"reef-n21": false, "reef-n": false, "reef-n01": false, "reef-other": false,
		"reef2-n1": false, "reef": false, "a-reef-n1": false,
	} {
		if got := isNamespaceOf("reef", name); got != want {
			t.Errorf("%s is of the sandbox: %v, want %v", name, got, want)
		}
	}
}

func TestSharedDirIsMountedOnce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root, as the sandbox does")
	}
	dir := t.TempDir()
	mounts := func() int {
		points, err := place.MountsBelow(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(points)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(filepath.Join(dir, "name")); err != nil {
			t.Error(err)
		}
		if err := unshareDir(dir); err != nil || mounts() != 0 {
			t.Errorf("an empty directory keeps %d mounts (%v)", mounts(), err)
		}
	})
	for range 2 {
		if err := shareDir(dir); err != nil || mounts() != 1 {
			t.Fatalf("%d mounts (%v), want one", mounts(), err)
		}
	}
	writeFile(t, filepath.Join(dir, "name"), "")
	if err := unshareDir(dir); err != nil || mounts() != 1 {
		t.Errorf("%d mounts (%v) of a directory in use, want one", mounts(), err)
	}
}

func TestProcessStatus(t *testing.T) {
	const inPlace = "Name:\tkubelet\nPPid:\t4711\nNSpid:\t4720\t55\n"
	const outside = "Name:\tbash\nPPid:\t1\nNSpid:\t99\n"
	if got := innermostPID(inPlace); got != 55 {
		t.Errorf("number in the place is %d, want 55", got)
	}
	if got := innermostPID(outside); got != 99 {
		t.Errorf("number of a process outside is %d, want its own", got)
	}
	if got := parentPID(inPlace); got != 4711 {
		t.Errorf("parent is %d, want 4711", got)
	}
	if innermostPID("") != 0 || parentPID("") != 0 {
		t.Error("an empty status names a process")
	}
}

func TestIsState(t *testing.T) {
	for name, c := range map[string]struct {
		paths []string
		want  bool
	}{
		"with a record":         {[]string{"sandbox.json", "anything/else"}, true},
		"record lost":           {[]string{"places/n1/kubelet", "log/x"}, true},
		"someone else's file":   {[]string{"places/n1/kubelet", "thesis.tex"}, false},
		"someone else's places": {[]string{"places/home"}, false},
		"only logs":             {[]string{"log/x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			for _, path := range c.paths {
				path = filepath.Join(state, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				writeFile(t, path, "")
			}
			if got := isState(state); got != c.want {
				t.Errorf("recognised as state: %v, want %v", got, c.want)
			}
			err := removeState(state)
			_, gone := os.Stat(state)
			if removed := err == nil && os.IsNotExist(gone); removed != c.want {
				t.Errorf("removed: %v (%v), want %v", removed, err, c.want)
			}
		})
	}
}

func TestRecordSurvives(t *testing.T) {
	r := newRecord(Options{Name: "reef", Nodes: 2, State: t.TempDir()})
	if err := r.save(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(r.Options.State)
	if err != nil {
		t.Fatal(err)
	}
	if s.record.ID != r.ID || strings.Join(s.Places(), " ") != "central outside n1 n2" || strings.Join(s.Nodes(), " ") != "n1 n2" {
		t.Errorf("read back %+v with places %v", s.record, s.Places())
	}
	if _, err := s.supervisor("n3"); err == nil {
		t.Error("a place that the sandbox does not have is found")
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "atoll-sandbox up") {
		t.Errorf("opening nothing says %v, want what to do", err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("needs root, as the sandbox does")
	}
	name := "locktest"
	unlock, err := lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(lockPath(name)) })
	if _, err := lock(t.Context(), name); err == nil {
		t.Fatal("a second lock is given")
	}
	unlock()
	again, err := lock(t.Context(), name)
	if err != nil {
		t.Fatalf("a lock that was let go is not given: %v", err)
	}
	again()
}

// The state of a sandbox that runs under another name stays.
func TestDownOfAnothersState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sandbox.json")
	if err := os.WriteFile(path, []byte(`{"id":"reef.1","options":{"Name":"reef"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := Down(t.Context(), Options{Name: "atoll", State: dir}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "is the state of sandbox reef: say --name=reef") {
		t.Errorf("down said: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
