package install

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/atoll-net/atoll/dist"
)

const (
	// DefaultOverlay is what is installed when nobody names another.
	DefaultOverlay = "ha"
	// overlaysDir holds the overlays, one directory each.
	overlaysDir = "overlays"
	// existingOVN is the overlay without OVN, which is all of dist/default.
	existingOVN = "existing-ovn"
	// sourceOverlay begins what a person calls a source that is an overlay.
	sourceOverlay = "overlay "
)

// Source is what is installed: one of the overlays that the program brings along, or a directory with a kustomization.
type Source struct {
	// Overlay is one of Overlays. It does not count when there is a Dir.
	Overlay string
	// Dir is a kustomization of the user's own.
	Dir string
}

func (s Source) String() string {
	if s.Dir != "" {
		return "directory " + s.Dir
	}
	return sourceOverlay + s.Overlay
}

// Overlays are the names of the overlays that the program brings along, sorted.
func Overlays() []string {
	names := []string{existingOVN}
	entries, err := fs.ReadDir(dist.Files, overlaysDir)
	if err != nil {
		return names
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// Render makes the objects of a source, in the order of its kustomization. An error names the overlays that there are, or what is
// wrong with the kustomization.
func Render(s Source) ([]*unstructured.Unstructured, error) {
	if s.Dir != "" {
		return kustomize(filesys.MakeFsOnDisk(), s.Dir)
	}
	if !slices.Contains(Overlays(), s.Overlay) {
		return nil, fmt.Errorf("no overlay %q: choose one of %s, or your own kustomization with -k", s.Overlay, strings.Join(Overlays(), ", "))
	}
	dir := path.Join(overlaysDir, s.Overlay)
	if s.Overlay == existingOVN {
		dir = "default"
	}
	files, err := embedded()
	if err != nil {
		return nil, err
	}
	return kustomize(files, "/"+dir)
}

// embedded is the tree that the program brings along, as kustomize reads it.
func embedded() (filesys.FileSystem, error) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(dist.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := dist.Files.ReadFile(name)
		if err != nil {
			return err
		}
		return files.WriteFile("/"+name, content)
	})
	if err != nil {
		return nil, fmt.Errorf("read the manifests in the program: %w", err)
	}
	return files, nil
}

// kustomize runs kustomize in one directory.
func kustomize(files filesys.FileSystem, dir string) ([]*unstructured.Unstructured, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err != nil {
		return nil, fmt.Errorf("build kustomization %s: %w", dir, err)
	}
	var out []*unstructured.Unstructured
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("read %s of kustomization %s: %w", r.CurId(), dir, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, fmt.Errorf("read %s of kustomization %s: %w", r.CurId(), dir, err)
		}
		out = append(out, o)
	}
	return out, nil
}

// YAML is the objects as kubectl reads them.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var out []byte
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, fmt.Errorf("print %s: %w", nameOf(o), err)
		}
		out = append(append(out, "---\n"...), text...)
	}
	return out, nil
}
