package parts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/sync/errgroup"
)

func TestSupported(t *testing.T) {
	for version, want := range map[string]bool{
		"24.03.2-0ubuntu1": true, "25.03.0-1": true, "26.03.1": true, "24.03": true,
		"23.03.1-1~deb12u2": false, "24.02": false, "22.12": false, "": false, "(none)": false,
	} {
		if got := supported(version); got != want {
			t.Errorf("%q is new enough: %v, want %v", version, got, want)
		}
	}
}

func TestCandidate(t *testing.T) {
	const policy = `ovn-central:
  Installed: (none)
  Candidate: 23.03.1-1~deb12u2
  Version table:
     23.03.1-1~deb12u2 500
`
	if got := candidate(policy); got != "23.03.1-1~deb12u2" {
		t.Errorf("candidate is %q", got)
	}
	if got := candidate(""); got != "" {
		t.Errorf("candidate of nothing is %q", got)
	}
}

func TestMirror(t *testing.T) {
	for name, c := range map[string]struct{ file, content, want string }{
		"one line": {"sources.list", "# old\ndeb [arch=amd64] http://mirror.example/debian/ bookworm main\n", "http://mirror.example/debian"},
		"deb822": {
			"sources.list.d/debian.sources", "Types: deb\nURIs: https://mirror.example/debian\nSuites: bookworm\n", "https://mirror.example/debian",
		},
		"only foreign": {"sources.list.d/x.list", "deb https://packages.example/apt stable main\n", "http://deb.debian.org/debian"},
		"security":     {"sources.list", "deb http://deb.example/debian-security bookworm-security main\n", "http://deb.debian.org/debian"},
	} {
		t.Run(name, func(t *testing.T) {
			etc := t.TempDir()
			path := filepath.Join(etc, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, path, c.content)
			if got := mirror(etc); got != c.want {
				t.Errorf("mirror is %s, want %s", got, c.want)
			}
			want := "http://deb.debian.org/debian-security"
			if name == "security" {
				want = "http://deb.example/debian-security"
			}
			if got := mirrorOf(etc, "debian-security"); got != want {
				t.Errorf("mirror of the security archive is %s, want %s", got, want)
			}
		})
	}
}

func TestLocateOVN(t *testing.T) {
	for name, c := range map[string]struct{ bin, share string }{
		"made by us": {"bin", "usr/share"},
		"installed":  {"usr/sbin", "usr/share"},
		"own build":  {"sbin", "share"},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := t.TempDir()
			for _, program := range ovnPrograms {
				write(t, filepath.Join(prefix, c.bin, program), "")
			}
			for _, schema := range []string{"openvswitch/vswitch.ovsschema", "ovn/ovn-nb.ovsschema", "ovn/ovn-sb.ovsschema"} {
				write(t, filepath.Join(prefix, c.share, schema), "")
			}
			write(t, filepath.Join(prefix, "usr/bin/mount"), "") // of another Debian
			o, err := LocateOVN(prefix)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.Dirs) != 1 {
				t.Errorf("search path has %v, want the one directory with OVN's programs", o.Dirs)
			}
			if got, want := o.Program("ovs-vswitchd"), filepath.Join(prefix, c.bin, "ovs-vswitchd"); got != want {
				t.Errorf("program is %s, want %s", got, want)
			}
			if err := os.Remove(filepath.Join(prefix, c.bin, "ovn-northd")); err != nil {
				t.Fatal(err)
			}
			if _, err := LocateOVN(prefix); err == nil || !strings.Contains(err.Error(), "ovn-northd") {
				t.Errorf("an OVN without northd gives %v", err)
			}
		})
	}
}

func TestStamp(t *testing.T) {
	got := stamp("v1.36.3", []string{"a/version"})
	for _, want := range []string{"-X a/version.gitVersion=v1.36.3", "-X a/version.gitMajor=1", "-X a/version.gitMinor=36"} {
		if !strings.Contains(got, want) {
			t.Errorf("flags %q lack %q", got, want)
		}
	}
}

func TestRequiredVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "go.mod")
	write(t, path, "module x\nrequire k8s.io/kubernetes v1.36.3\n")
	if got, err := requiredVersion(path, "k8s.io/kubernetes"); err != nil || got != "v1.36.3" {
		t.Errorf("version is %q (%v)", got, err)
	}
	if _, err := requiredVersion(path, "k8s.io/other"); err == nil {
		t.Error("a module that is not required has a version")
	}
}

func TestFingerprintFollowsSourcesAndFlags(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module x\n")
	write(t, filepath.Join(dir, "program", "main.go"), "package main\n")
	write(t, filepath.Join(dir, "other", "main.go"), "package main\n")
	sumWith := func(packages []string, arguments ...string) string {
		t.Helper()
		sum, err := fingerprint(dir, packages, arguments)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	program := []string{"./program", "example.com/tool"}
	first := sumWith(program, "-a")
	if sumWith(program, "-a") != first {
		t.Error("the same sources have two fingerprints")
	}
	if sumWith(program, "-b") == first {
		t.Error("other flags have the same fingerprint")
	}
	if sumWith(program[:1], "-a") == first {
		t.Error("fewer packages have the same fingerprint")
	}
	write(t, filepath.Join(dir, "other", "main.go"), "package main // changed\n")
	if sumWith(program, "-a") != first {
		t.Error("another package's sources change the fingerprint")
	}
	for _, file := range []string{"program/main.go", "go.mod"} {
		before := sumWith(program, "-a")
		write(t, filepath.Join(dir, file), "// changed\n")
		if sumWith(program, "-a") == before {
			t.Errorf("another %s has the same fingerprint", file)
		}
	}
}

// What has another version here and there is compiled twice on a new machine, with all that needs it. client-go, which is the largest
// thing that the programs have in common, must not.
func TestSharedModulesHaveOneVersion(t *testing.T) {
	// Other projects want these newer than Atoll, and client-go needs none of them.
	newer := map[string]bool{
		"github.com/mdlayher/socket": true, "github.com/prometheus/common": true, "github.com/prometheus/procfs": true,
		"go.opentelemetry.io/otel": true, "go.opentelemetry.io/otel/trace": true,
		"google.golang.org/genproto/googleapis/rpc": true, "google.golang.org/grpc": true,
		"sigs.k8s.io/kustomize/api": true, "sigs.k8s.io/kustomize/kyaml": true,
	}
	root := filepath.Join("..", "..", "..")
	own, others := requirements(t, filepath.Join(root, "go.mod")), requirements(t, filepath.Join(root, upstream, "go.mod"))
	shared := 0
	for path, version := range own {
		other, both := others[path]
		if !both {
			continue
		}
		shared++
		if (other != version) != newer[path] {
			t.Errorf("%s is %s in go.mod and %s in %s/go.mod", path, version, other, upstream)
		}
	}
	if shared < 50 {
		t.Errorf("only %d modules are in both go.mod", shared)
	}
}

func requirements(t *testing.T, goMod string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(goMod)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(goMod, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range file.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

// A download ends with what it was begun for.
func TestDownloadEnds(t *testing.T) {
	source, bin := t.TempDir(), t.TempDir()
	write(t, filepath.Join(source, upstream, "go.mod"), "module x\nrequire k8s.io/kubernetes v1.36.3\n")
	told := filepath.Join(bin, "told")
	if err := syscall.Mkfifo(told, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(bin, "go"), "#!/bin/sh\necho $$ > "+told+"\nexec sleep infinity\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	g := gatherer{need: Need{Source: source, Cache: t.TempDir()}}
	end := g.download(t.Context())
	pid, err := os.ReadFile(told) // waits for who writes it
	if err != nil {
		t.Fatal(err)
	}
	process := "/proc/" + strings.TrimSpace(string(pid))
	if !exists(process) {
		t.Errorf("%s is gone before the download's end", process)
	}
	end()
	if exists(process) {
		t.Error("what fetches modules was left behind")
	}

	if !g.builds(kubernetes) {
		t.Error("an empty cache has Kubernetes")
	}
	path, _, err := g.place(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "kubernetes"), "")
	if g.builds(kubernetes) {
		t.Error("Kubernetes would be built though it is in the cache")
	}
}

func TestCompleteIsAllOrNothing(t *testing.T) {
	store := t.TempDir()
	path := filepath.Join(store, "part")
	broken := errors.New("broken")
	err := complete(t.Context(), path, func(dir string) error {
		write(t, filepath.Join(dir, "half"), "")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if entries, err := filepath.Glob(filepath.Join(store, "*")); err != nil ||
		!slices.Equal(entries, []string{filepath.Join(store, ".lock")}) {
		t.Errorf("a failure left %v (%v)", entries, err)
	}
	var filled atomic.Int32
	var both errgroup.Group
	for range 2 {
		both.Go(func() error {
			return complete(t.Context(), path, func(dir string) error {
				filled.Add(1)
				return os.WriteFile(filepath.Join(dir, "whole"), nil, 0o600)
			})
		})
	}
	if err := both.Wait(); err != nil || filled.Load() != 1 {
		t.Errorf("two at once made it %d times: %v", filled.Load(), err)
	}
	if !exists(filepath.Join(path, "whole")) {
		t.Error("what was made is not there")
	}
	if err := completeAnew(t.Context(), path, true, func(string) error { return broken }); !errors.Is(err, broken) ||
		!exists(filepath.Join(path, "whole")) {
		t.Errorf("what was there is lost when nothing replaces it: %v", err)
	}
	err = completeAnew(t.Context(), path, true, func(dir string) error { return os.WriteFile(filepath.Join(dir, "other"), nil, 0o600) })
	if err != nil || exists(filepath.Join(path, "whole")) || !exists(filepath.Join(path, "other")) {
		t.Errorf("what is there is not replaced: %v", err)
	}
}

// TestLock: who comes second waits until the first lets go, also when the first removes the file; and gives up when its context ends.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "locks", "x")
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("too late")
	short, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, late)
	defer cancel()
	if _, err := Lock(short, path); !errors.Is(err, late) {
		t.Errorf("the lock was given twice, or the error is %v", err)
	}
	got := make(chan error, 1)
	go func() {
		unlock, err := Lock(t.Context(), path)
		if err == nil {
			unlock()
		}
		got <- err
	}()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestSweepTakesOldPartialsOnly(t *testing.T) {
	store := t.TempDir()
	old := time.Now().Add(-2 * abandoned)
	for _, name := range []string{partialPrefix + "old", partialPrefix + "new", "finished"} {
		write(t, filepath.Join(store, name, "file"), "")
		if name != partialPrefix+"new" {
			if err := os.Chtimes(filepath.Join(store, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(store)
	if exists(filepath.Join(store, partialPrefix+"old")) || !exists(filepath.Join(store, partialPrefix+"new")) ||
		!exists(filepath.Join(store, "finished")) {
		t.Error("not the old partial alone was removed")
	}
}

func TestMissingPackages(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there")
	write(t, there, "")
	got := missing([]debianPackage{{"a", []string{"/nowhere", there}}, {"b", []string{"/nowhere"}}})
	if strings.Join(got, ",") != "b" {
		t.Errorf("missing are %v, want b", got)
	}
	named := packagesFor(Need{Runc: "/usr/sbin/runc", OVNPrefix: "/"})
	for _, p := range named {
		if p.name == "gcc" || p.name == "patchelf" {
			t.Errorf("%s is wanted though nothing is built with it", p.name)
		}
	}
}

func TestTail(t *testing.T) {
	if got := tail("a\nb\nc\n", 2); got != "b\nc" {
		t.Errorf("tail is %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}
