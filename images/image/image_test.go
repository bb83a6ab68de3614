package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pause-0123")
	if err := os.WriteFile(program, []byte("machine code"), 0o600); err != nil {
		t.Fatal(err)
	}
	const reference = "atoll.dev/pause:sandbox"
	first, second := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	for _, path := range []string{first, second} {
		if err := Write(path, Image{Reference: reference, Program: program, Name: "pause"}); err != nil {
			t.Fatal(err)
		}
	}
	one, two := read(t, first), read(t, second)
	if !bytes.Equal(one, two) {
		t.Error("the same program gave two different archives")
	}

	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(first, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || len(config.Config.Entrypoint) != 1 ||
		config.Config.Entrypoint[0] != "/pause" {
		t.Errorf("configuration is %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want one", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	found := map[string]os.FileMode{}
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = header.FileInfo().Mode().Perm()
	}
	if found["pause"] != 0o755 || found["etc/passwd"] != 0o644 {
		t.Errorf("the image holds %v", found)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	if Write(filepath.Join(dir, "x.tar"), Image{Reference: "Not A Name", Program: "/bin/true"}) == nil {
		t.Error("an image without a proper name is written")
	}
	if Write(filepath.Join(dir, "x.tar"), Image{Reference: "a:b", Program: filepath.Join(dir, "none")}) == nil {
		t.Error("an image without a program is written")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v (%v)", entries, err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
