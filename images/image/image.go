// Package image packs files into container images, without a container runtime or a Dockerfile, and hands them to registries.
//
// In flow programs and trees of files, out flow images: in archives that containerd imports, in archives of OCI's image layout, and in
// registries. The same files give the same bytes: no time, no owner and no machine shows in them.
package image

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Content is what an image is made of.
type Content struct {
	// Layers are its file system, the lowest first.
	Layers []Layer
	// Platform is what its programs run on.
	Platform v1.Platform
	// Config says how they are run.
	Config v1.Config
	// Created is what the image says of its age; zero if it says nothing.
	Created time.Time
}

// Pack makes an image of its content. The layers lie in the directory scratch, which must live as long as the image is used.
func Pack(content Content, scratch string) (v1.Image, error) {
	layers := make([]v1.Layer, len(content.Layers))
	for i, l := range content.Layers {
		var err error
		if layers[i], err = l.pack(scratch); err != nil {
			return nil, err
		}
	}
	return Assemble(content, layers)
}

// Assemble is Pack for layers that were packed before, in the place of the content's.
func Assemble(content Content, layers []v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	whole, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("add layers: %w", err)
	}
	file, err := whole.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = content.Platform.OS, content.Platform.Architecture, content.Platform.Variant
	file.Config = content.Config
	file.Created = v1.Time{Time: content.Created.UTC()}
	if whole, err = mutate.ConfigFile(whole, file); err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return whole, nil
}

// PackLayer packs a layer that several images share (Assemble).
func PackLayer(layer Layer, scratch string) (v1.Layer, error) { return layer.pack(scratch) }

// Own is the platform of this machine's Linux.
func Own() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// Image is an image of a program, which is its entry point, for this machine.
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

// Write packs the image and writes its archive, as containerd imports it. The file appears complete or not at all.
func Write(path string, image Image) error {
	tag, err := name.NewTag(image.Reference)
	if err != nil {
		return fmt.Errorf("parse image name: %w", err)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(path), ".image-*")
	if err != nil {
		return fmt.Errorf("make image archive: %w", err)
	}
	defer os.RemoveAll(scratch)
	programs := map[string]string{image.Name: image.Program}
	maps.Copy(programs, image.Others)
	packed, err := Pack(Content{
		Layers: []Layer{{
			Dirs:     map[string]fs.FileMode{"etc": 0o755, "tmp": 0o777 | fs.ModeSticky},
			Texts:    map[string]string{"etc/passwd": accounts},
			Programs: programs,
		}},
		Platform: Own(),
		Config:   v1.Config{Entrypoint: []string{"/" + image.Name}, Env: []string{"PATH=/"}, WorkingDir: "/"},
	}, scratch)
	if err != nil {
		return fmt.Errorf("pack image %s: %w", image.Reference, err)
	}
	return WriteAll(path, map[name.Tag]v1.Image{tag: packed})
}

// WriteAll writes images into one archive, as containerd imports it. The file appears complete or not at all.
func WriteAll(path string, images map[name.Tag]v1.Image) error {
	return appear(path, func(w io.Writer) error {
		references := make(map[name.Reference]v1.Image, len(images))
		for tag, image := range images {
			references[tag] = image
		}
		return tarball.MultiRefWrite(references, w)
	})
}

// appear writes a file that is there complete or not at all.
func appear(path string, write func(io.Writer) error) error {
	partial, err := os.CreateTemp(filepath.Dir(path), ".archive-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(partial.Name()) // fails when the rename was done
	err = write(partial)
	if err == nil {
		err = partial.Chmod(0o644)
	}
	if closing := partial.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(partial.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
