package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/test/sbom"
)

// smallList is of an image with a program and two packages, and one that has packages only.
const smallList = `
repository: registry.example.com
source: https://example.com/small
images:
  - {name: small, title: Small, description: A test, licenses: MIT, platforms: [linux/amd64, linux/arm64], programs: [cmd/small],
     packages: [base-files, tool], links: {usr/bin/also: tool}, files: {etc: images/etc}, user: "7:7", entrypoint: [/usr/local/bin/small]}
  - {name: bare, title: Bare, description: Another, licenses: MIT, platforms: [own], packages: [base-files], user: "0:0", entrypoint: [/bin/sh]}
`

// smallSource makes a source tree in a directory of its own, at a commit that is the same in each.
func smallSource(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "source")
	unpack, err := os.ReadFile(filepath.Join(root, "images/unpack"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"go.mod": "module example.com/small\n\ngo 1.26.0\n", "cmd/small/main.go": "package main\n\nfunc main() { println(\"small\") }\n",
		"images/images.yaml": smallList, "images/unpack": string(unpack), "images/etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
	} {
		put(t, filepath.Join(dir, name), text)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "one"}, {"tag", "v1.2.3"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2001-02-03T04:05:06Z", "GIT_COMMITTER_DATE=2001-02-03T04:05:06Z",
			"GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// deb makes a Debian package.
func deb(t *testing.T, dir, name, architecture string, files, links map[string]string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), name)
	put(t, filepath.Join(tree, "DEBIAN/control"),
		fmt.Sprintf(
			"Package: %s\nVersion: 1:2.0~a+b1\nArchitecture: %s\nMaintainer: a <a@example.com>\nSource: all-%s (2.0)\nDescription: a test\n", name,
			architecture, name))
	for file, text := range files {
		put(t, filepath.Join(tree, file), text)
	}
	for file, target := range links {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(tree, file)), 0o755),
			os.Symlink(target, filepath.Join(tree, file))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name+"_"+architecture+".deb")
	cmd := exec.CommandContext(t.Context(), "dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make package: %v\n%s", err, out)
	}
	return path
}

// smallPackages are the list's packages of each architecture.
func smallPackages(t *testing.T) func(context.Context, string, []string) ([]string, time.Time, error) {
	t.Helper()
	dir := t.TempDir()
	files := map[string][]string{}
	for _, arch := range []string{"amd64", "arm64"} {
		files[arch] = []string{
			deb(t, dir, "a-tool", arch, map[string]string{
				"usr/bin/tool": "#!/bin/sh\n", "usr/share/doc/tool/copyright": "MIT", "usr/share/doc/tool/NEWS": "none",
				"usr/share/man/man1/tool.1": ".TH", "etc/passwd": "not this",
				"usr/share/ca-certificates/mozilla/B.crt": "B\n", "usr/share/ca-certificates/mozilla/A.crt": "A\n",
			}, nil),
			deb(t, dir, "base-files", arch, map[string]string{"usr/bin/.keep": ""}, map[string]string{"bin": "usr/bin"}),
		}
	}
	return func(_ context.Context, arch string, names []string) ([]string, time.Time, error) {
		return files[arch][2-len(names):], time.Unix(1e9, 0), nil
	}
}

func smallBuilder(t *testing.T, source string) builder {
	t.Helper()
	l, err := readList(source)
	if err != nil {
		t.Fatal(err)
	}
	return builder{
		source: source, out: t.TempDir(), scratch: t.TempDir(), list: l, packages: smallPackages(t),
		tell: func(_ string, step func() error) error { return step() },
	}
}

// TestBuiltTwice: from two directories the same commit and packages give the same archives and documents, byte for byte; another
// commit does not.
func TestBuiltTwice(t *testing.T) {
	one, two := smallBuilder(t, smallSource(t)), smallBuilder(t, smallSource(t))
	two.packages = one.packages
	digests := map[string]string{}
	for _, r := range one.list.Images {
		first, err := one.build(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		second, err := two.build(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if first.digest != second.digest || !bytes.Equal(read(t, first.archive), read(t, second.archive)) ||
			!bytes.Equal(read(t, first.document), read(t, second.document)) {
			t.Errorf("%s: built twice, %s and %s", r.Name, first.digest, second.digest)
		}
		if first.version != "v1.2.3" || !first.created.Equal(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)) {
			t.Errorf("%s: version %s of %s", r.Name, first.version, first.created)
		}
		if _, wrong := sbom.Check(read(t, first.document)); len(wrong) > 0 {
			t.Error(strings.Join(wrong, "\n"))
		}
		digests[r.Name] = first.digest
	}
	put(t, filepath.Join(two.source, "cmd/small/main.go"), "package main\n\nfunc main() { println(\"other\") }\n")
	for _, r := range one.list.Images {
		if changed, err := two.build(t.Context(), r); err != nil || changed.digest == digests[r.Name] ||
			changed.tag() != changed.version[:len(changed.version)-len("+dirty")]+"-dirty" {
			t.Errorf("%s: another source gives the same image, or version %s (%v)", r.Name, changed.version, err)
		}
	}
}

// TestAdopt: what make build linked is not linked again, and what it linked of another source is.
func TestAdopt(t *testing.T) {
	b := smallBuilder(t, smallSource(t))
	put(t, filepath.Join(b.source, ".git/info/exclude"), "/bin/\n")
	b.compiled = t.TempDir()
	small := b.list.Images[0]
	compile := func() (changed bool) {
		t.Helper()
		if err := b.adopt(b.list.Images); err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(b.compiled, "bin-"+runtime.GOARCH, "small")
		before, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.compile(t.Context(), runtime.GOARCH, small.Programs); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		return !os.SameFile(before, after) // Go sets the time also of what it leaves alone
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", filepath.Join(b.source, "bin")+"/",
		"./cmd/small") // as the Makefile
	build.Dir, build.Env = b.source, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if compile() {
		t.Error("what make build linked was linked again")
	}
	put(t, filepath.Join(b.source, "cmd/small/main.go"), "package main\n\nfunc main() { println(\"other\") }\n")
	if !compile() {
		t.Error("a program of another source was taken for this one's")
	}
	put(t, filepath.Join(b.source, "bin/small"), "no program at all")
	if compile() {
		t.Error("what is no program was taken for one")
	}
}

// TestReuse: images of the same parts are built once. Those of another program, list or package are built anew, and the same as
// without; only a few are kept.
func TestReuse(t *testing.T) {
	b, dir := smallBuilder(t, smallSource(t)), t.TempDir()
	plain := smallBuilder(t, b.source)
	plain.packages = b.packages
	reuse := func(why string, want int) {
		t.Helper()
		b.out = t.TempDir()
		built, err := b.reuse(t.Context(), b.list.Images, dir)
		if err != nil || len(built) != want {
			t.Fatalf("%s: %d images were built, want %d: %v", why, len(built), want, err)
		}
		for _, r := range b.list.Images {
			one, err := plain.build(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(read(t, one.archive), read(t, filepath.Join(b.out, r.Name+".tar"))) {
				t.Errorf("%s: %s is not what is built without", why, r.Name)
			}
		}
	}
	all := len(b.list.Images)
	reuse("the first time", all)
	reuse("again", 0)
	put(t, filepath.Join(b.source, "cmd/small/main.go"), "package main\n\nfunc main() { println(\"other\") }\n")
	reuse("another program", all)
	reuse("again", 0)
	packages := b.packages
	b.packages = func(ctx context.Context, arch string, names []string) ([]string, time.Time, error) {
		debs, fetched, err := packages(ctx, arch, names)
		return debs, fetched.Add(time.Hour), err
	}
	reuse("packages of another day", all)
	for i := range keptImages + 1 {
		put(t, filepath.Join(b.source, "cmd/small/main.go"), fmt.Sprintf("package main\n\nfunc main() { println(%d) }\n", i))
		b.out = t.TempDir()
		if built, err := b.reuse(t.Context(), b.list.Images, dir); err != nil || len(built) != all {
			t.Fatalf("%d images were built: %v", len(built), err)
		}
	}
	put(t, filepath.Join(b.source, "cmd/small/main.go"), "package main\n\nfunc main() { println(\"at once\") }\n")
	var made atomic.Int32
	var both errgroup.Group
	for range 2 {
		own := b
		own.out, own.scratch = t.TempDir(), t.TempDir()
		both.Go(func() error {
			built, err := own.reuse(t.Context(), own.list.Images, dir)
			made.Add(int32(len(built)))
			return err
		})
	}
	if err := both.Wait(); err != nil || int(made.Load()) != all {
		t.Errorf("two at once built %d images, want %d: %v", made.Load(), all, err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "images-*"))
	if err != nil || len(kept) > keptImages+1 {
		t.Errorf("%d are kept: %v", len(kept), err)
	}
}

// TestWhatIsInAnImage looks at one as a container runtime would.
func TestWhatIsInAnImage(t *testing.T) {
	b := smallBuilder(t, smallSource(t))
	b.epoch = "1000000000"
	done, err := b.build(t.Context(), b.list.Images[0])
	if err != nil {
		t.Fatal(err)
	}
	index, tag, err := image.ReadArchive(done.archive, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if tag != "v1.2.3" {
		t.Errorf("tag is %q", tag)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		one := forArchitecture(t, index, arch)
		config, err := one.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		labels := config.Config.Labels
		if config.Config.User != "7:7" || !slices.Equal(config.Config.Entrypoint, []string{"/usr/local/bin/small"}) ||
			config.Created.Unix() != 1e9 ||
			labels["org.opencontainers.image.version"] != "v1.2.3" || labels["org.opencontainers.image.created"] != "2001-09-09T01:46:40Z" ||
			len(labels["org.opencontainers.image.revision"]) != 40 || labels["org.opencontainers.image.title"] != "Small" {
			t.Errorf("configuration is %+v, created %s", config.Config, config.Created)
		}
		got := flattened(t, one)
		program := got["usr/local/bin/small"]
		delete(got, "usr/local/bin/small")
		if !strings.HasPrefix(program, "\x7fELF") {
			t.Errorf("the program begins with %.8q", program)
		}
		for name, text := range got {
			if strings.HasPrefix(name, "var/lib/dpkg/status.d/") && strings.Contains(text, "Architecture: "+arch) {
				got[name] = "of " + arch
			}
		}
		want := map[string]string{
			"bin": "-> usr/bin", "usr/bin/.keep": "", "usr/bin/tool": "#!/bin/sh\n",
			"usr/bin/also": "-> tool", "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
			"usr/share/doc/tool/copyright": "MIT", "etc/ssl/certs/ca-certificates.crt": "A\nB\n", "usr/share/ca-certificates/mozilla/A.crt": "A\n",
			"usr/share/ca-certificates/mozilla/B.crt": "B\n", "var/lib/dpkg/status.d/a-tool": "of " + arch,
			"var/lib/dpkg/status.d/base-files": "of " + arch,
		}
		if !maps.Equal(got, want) {
			t.Errorf("for %s the image has %q, want %q", arch, got, want)
		}
	}
	document, _ := sbom.Check(read(t, done.document))
	if got := document.Versions["a-tool"]; !slices.Equal(got, []string{"1:2.0~a+b1", "1:2.0~a+b1"}) {
		t.Errorf("the document has versions %q of a package", got)
	}
	if got := document.Versions["stdlib"]; !slices.Equal(got, []string{strings.TrimPrefix(runtime.Version(), "go")}) {
		t.Errorf("the document has versions %q of Go's library", got)
	}
}

// TestWhatDoesNotRunIsRefused: a library that no package has, a program that is not static, a list that says nothing of a platform.
func TestWhatDoesNotRunIsRefused(t *testing.T) {
	b := smallBuilder(t, smallSource(t))
	bare := b.list.Images[1]
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	lacking := deb(t, t.TempDir(), "base-files", runtime.GOARCH, map[string]string{"usr/bin/sh": string(shell)}, nil)
	b.packages = func(context.Context, string, []string) ([]string, time.Time, error) {
		return []string{lacking}, time.Now(), nil
	}
	if _, err := b.build(t.Context(), bare); err == nil || !strings.Contains(err.Error(), "no listed package has") ||
		!strings.Contains(err.Error(), "(for sh)") {
		t.Errorf("a program without its libraries gives %v", err)
	}
	if err := static("/bin/sh", runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "not static") {
		t.Errorf("a program with libraries gives %v", err)
	}
	bare.Platforms = []string{"plan9"}
	if _, err := b.build(t.Context(), bare); err == nil {
		t.Error("an image for no platform is built")
	}
	b.epoch = "soon"
	if _, err := b.stamp(t.Context(), b.list.Images[0]); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("a time that is none gives %v", err)
	}
	broken := smallSource(t)
	put(t, filepath.Join(broken, "images/images.yaml"), "pictures: []\n")
	if _, err := readList(broken); err == nil {
		t.Error("a list with unknown fields is read")
	}
}

func forArchitecture(t *testing.T, index v1.ImageIndex, arch string) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture == arch {
			one, err := index.Image(m.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return one
		}
	}
	t.Fatalf("the index has nothing for %s", arch)
	return nil
}

// flattened is the file system of an image without directories: what is in each file, and where each link points.
func flattened(t *testing.T, one v1.Image) map[string]string {
	t.Helper()
	layers, err := one.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for files := tar.NewReader(content); ; {
			h, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			switch h.Typeflag {
			case tar.TypeReg:
				text, err := io.ReadAll(files)
				if err != nil {
					t.Fatal(err)
				}
				out[h.Name] = string(text)
			case tar.TypeSymlink:
				out[h.Name] = "-> " + h.Linkname
			}
		}
		if err := content.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Fatal(err)
		}
	}
	return out
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
