package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestLayer: what is in a layer is what was put there, of root, with no time, and own files stand for those of the tree.
func TestLayer(t *testing.T) {
	tree := t.TempDir()
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/tool": 0o755, "usr/share/doc/tool": 0o644, "usr/share/man/tool.1": 0o644, "etc/hosts": 0o600,
		"usr/bin/set": 0o755 | fs.ModeSetuid,
	} {
		path := filepath.Join(tree, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("usr/bin", filepath.Join(tree, "bin")), os.Mkdir(filepath.Join(tree, "tmp"), 0o755),
		os.Chmod(filepath.Join(tree, "tmp"), 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "own")
	if err := os.WriteFile(own, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed, err := PackLayer(Layer{
		Tree: tree, Omit: []string{"usr/share/man"},
		Files: map[string]string{"etc/hosts": own}, Programs: map[string]string{"usr/local/bin/mine": own},
		Texts: map[string]string{"etc/passwd": "root"}, Links: map[string]string{"usr/bin/sh": "tool"},
		Dirs: map[string]fs.FileMode{"run/it": 0o750},
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"bin -> usr/bin 0777", "etc/ 0755", "usr/ 0755", "usr/bin/ 0755", "usr/bin/set 0755 usr/bin/set", "usr/bin/tool 0755 usr/bin/tool",
		"usr/share/ 0755",
		"usr/share/doc/ 0755", "usr/share/doc/tool 0644 usr/share/doc/tool", "tmp/ 01777",
		"etc/hosts 0644 mine", "etc/passwd 0644 root", "run/it/ 0750", "usr/bin/sh -> tool 0777", "usr/local/bin/mine 0755 mine",
	}
	got := listed(t, packed)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the layer has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// listed is what a layer has, with an error for each owner and time.
func listed(t *testing.T, layer v1.Layer) []string {
	t.Helper()
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var out []string
	for files := tar.NewReader(content); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" || h.ModTime.Unix() != 0 && !h.ModTime.IsZero() {
			t.Errorf("%s is of %d:%d, %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		line := h.Name
		if h.Linkname != "" {
			line += " -> " + h.Linkname
		}
		line += fmt.Sprintf(" %#o", h.Mode)
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			line += " " + string(text)
		}
		out = append(out, line)
	}
}

func TestNamesOutsideAreRefused(t *testing.T) {
	for _, name := range []string{"/etc/passwd", "../x", "", ".", "a//b"} {
		if _, err := PackLayer(Layer{Texts: map[string]string{name: "x"}}, t.TempDir()); err == nil {
			t.Errorf("a file called %q is packed", name)
		}
	}
	if _, err := PackLayer(Layer{Files: map[string]string{"a": t.TempDir()}}, t.TempDir()); err == nil {
		t.Error("a directory is packed as a file")
	}
}

// sample is an index of two platforms with the same files.
func sample(t *testing.T, annotations map[string]string) v1.ImageIndex {
	t.Helper()
	var images []v1.Image
	for _, arch := range []string{"amd64", "arm64"} {
		one, err := Pack(Content{
			Layers:   []Layer{{Texts: map[string]string{"a": "base"}}, {Texts: map[string]string{"arch": arch}}},
			Platform: v1.Platform{OS: "linux", Architecture: arch}, Created: time.Unix(1e9, 0),
			Config: v1.Config{Labels: annotations, User: "65532"},
		}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, one)
	}
	index, err := Index(images, annotations)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// platformsOf lists an index.
func platformsOf(t *testing.T, index v1.ImageIndex) []string {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	platforms := map[string]bool{}
	for _, m := range manifest.Manifests {
		platforms[m.Platform.String()] = true
	}
	return slices.Sorted(maps.Keys(platforms))
}
