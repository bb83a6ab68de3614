package image

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations by which an archive names what is in it: the first is OCI's, for the tag (image-spec, annotations.md), the second is what
// containerd calls an image that it imports.
const (
	refName       = "org.opencontainers.image.ref.name"
	containerName = "io.containerd.image.name"
)

// Index is one name for the images of several platforms.
func Index(images []v1.Image, annotations map[string]string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		file, err := image.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("make index: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: file.OS, Architecture: file.Architecture, Variant: file.Variant}},
		})
	}
	annotated, ok := mutate.Annotations(index, annotations).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("make index: annotations make something else of it")
	}
	return annotated, nil
}

// WriteArchive writes an index and all that belongs to it as an archive in OCI's image layout (image-spec, image-layout.md). The
// archive names the image by the reference, with its tag. The file appears complete or not at all.
func WriteArchive(file string, index v1.ImageIndex, reference, tag string) error {
	scratch, err := os.MkdirTemp(filepath.Dir(file), ".layout-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer os.RemoveAll(scratch)
	root, err := layout.Write(scratch, empty.Index)
	if err == nil {
		err = root.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: tag, containerName: reference}))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return appear(file, func(w io.Writer) error {
		files := archiver{tar.NewWriter(w)}
		// WalkDir goes in the order of names.
		err := filepath.WalkDir(scratch, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(scratch, path)
			if err != nil || name == "." {
				return err
			}
			if entry.IsDir() {
				return files.dir(name, 0o755)
			}
			return files.file(name, path, 0o644)
		})
		if err != nil {
			return err
		}
		return files.tar.Close()
	})
}

// ReadArchive reads the one index of an archive that WriteArchive made, and its tag. What it holds must have the sums
// by which it is called. It lies in the directory scratch, which must live as long as the index is used.
func ReadArchive(file, scratch string) (index v1.ImageIndex, tag string, err error) {
	refuse := func(err error) (v1.ImageIndex, string, error) { return nil, "", fmt.Errorf("read %s: %w", file, err) }
	in, err := os.Open(file)
	if err != nil {
		return refuse(err)
	}
	defer in.Close()
	dir, err := os.MkdirTemp(scratch, "layout-*")
	if err != nil {
		return refuse(err)
	}
	if err := extract(in, dir); err != nil {
		return refuse(err)
	}
	root, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return refuse(err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		return refuse(err)
	}
	if len(manifest.Manifests) != 1 || !manifest.Manifests[0].MediaType.IsIndex() {
		return refuse(fmt.Errorf("it holds %d images, not one for all platforms", len(manifest.Manifests)))
	}
	descriptor := manifest.Manifests[0]
	if index, err = root.ImageIndex(descriptor.Digest); err != nil {
		return refuse(err)
	}
	return index, descriptor.Annotations[refName], nil
}

// extract writes the files of a layout into a directory. It refuses files that do not belong to a layout, and blobs that do not
// match their digest.
func extract(from io.Reader, dir string) error {
	for files := tar.NewReader(from); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(header.Name) {
			return fmt.Errorf("%q is outside of it", header.Name)
		}
		target := filepath.Join(dir, path.Clean(header.Name))
		switch header.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(target, 0o755)
		case tar.TypeReg:
			err = keep(target, header.Name, files)
		default:
			err = fmt.Errorf("%q is neither file nor directory", header.Name)
		}
		if err != nil {
			return err
		}
	}
}

func keep(target, name string, content io.Reader) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), content)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	if want, isBlob := strings.CutPrefix(name, "blobs/"); isBlob && want != fmt.Sprintf("sha256/%x", sum.Sum(nil)) {
		return fmt.Errorf("%s has another sum", name)
	}
	return nil
}
