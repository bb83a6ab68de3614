// Package image packs programs into container images without a registry, a container runtime or a Dockerfile.
//
// In flow statically linked programs, out flow image archives that containerd imports. The same programs give
// the same archive, byte for byte: no time and no machine shows in it.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is an image of a program, which is its entry point.
type Image struct {
	// Reference is the image's name, with its tag.
	Reference string
	// Program is the statically linked executable; it lies in the image at /<Name>.
	Program, Name string
	// Others are further programs, by their names.
	Others map[string]string
}

// accounts give container runtimes a name for the users that images commonly run as.
const accounts = "root:x:0:0:root:/:/\nnobody:x:65534:65534:nobody:/:/\n"

// Write packs the image and writes its archive. The file appears complete or not at all.
func Write(path string, image Image) error {
	tag, err := name.NewTag(image.Reference)
	if err != nil {
		return fmt.Errorf("parse image name: %w", err)
	}
	packed, err := pack(image)
	if err != nil {
		return err
	}
	partial, err := os.CreateTemp(filepath.Dir(path), ".image-*")
	if err != nil {
		return fmt.Errorf("make image archive: %w", err)
	}
	defer os.Remove(partial.Name()) // fails when the rename was done
	err = tarball.Write(tag, packed, partial)
	if closing := partial.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write image archive %s: %w", path, err)
	}
	return nil
}

func pack(image Image) (v1.Image, error) {
	program, err := os.ReadFile(image.Program)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	programs := map[string][]byte{image.Name: program}
	for name, path := range image.Others {
		if programs[name], err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
	}
	content, err := layer(programs)
	if err != nil {
		return nil, err
	}
	packed, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, fmt.Errorf("pack layer of %s: %w", image.Reference, err)
	}
	whole, err := mutate.AppendLayers(empty.Image, packed)
	if err != nil {
		return nil, fmt.Errorf("pack image %s: %w", image.Reference, err)
	}
	file, err := whole.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image %s: %w", image.Reference, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{"/" + image.Name}, Env: []string{"PATH=/"}, WorkingDir: "/"}
	whole, err = mutate.ConfigFile(whole, file)
	if err != nil {
		return nil, fmt.Errorf("configure image %s: %w", image.Reference, err)
	}
	return whole, nil
}

// layer is the image's file system as a tar file.
func layer(programs map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	type entry struct {
		header  tar.Header
		content []byte
	}
	entries := []entry{
		{tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(accounts)},
		{tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil},
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		entries = append(entries, entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, programs[name]})
	}
	for _, e := range entries {
		e.header.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", e.header.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	return out.Bytes(), nil
}
