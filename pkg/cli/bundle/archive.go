package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Manifest says what is in an archive and what is not.
type Manifest struct {
	// Created is when it was made, Version that of the program.
	Created time.Time `json:"created"`
	Version string    `json:"version"`
	// Files are all others of the archive, sorted.
	Files []File `json:"files"`
	// Missing is what is not there, in the order in which it was asked for.
	Missing []Missing `json:"missing"`
}

// File is one of the archive's.
type File struct {
	Name string `json:"name"`
	// What it has, in words.
	What  string `json:"what"`
	Bytes int    `json:"bytes"`
	// Items counts objects or rows, where it has some.
	Items int `json:"items,omitempty"`
	// Cut says what of it is left out, and why.
	Cut string `json:"cut,omitempty"`
}

// Missing is something that is not in the archive.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// archive holds files until they are written.
type archive struct {
	clean    cleaner
	manifest Manifest
	texts    map[string][]byte
	// size is that of all files, in bytes.
	size int
}

// miss says that something is not there.
func (a *archive) miss(what string, why error) {
	a.manifest.Missing = append(a.manifest.Missing, Missing{what, a.clean.text(why.Error())})
}

// add puts a text into the archive, as far as there is room.
func (a *archive) add(f File, text []byte) {
	if room := maxArchive - a.size; len(text) > room {
		text = text[:room]
		f.Cut = join(f.Cut, fmt.Sprintf("the archive may have %d MiB before it is compressed", maxArchive>>20))
	}
	f.Bytes = len(text)
	a.size += len(text)
	a.texts[f.Name] = text
	a.manifest.Files = append(a.manifest.Files, f)
}

func join(a, b string) string { return strings.TrimPrefix(a+"; "+b, "; ") }

// objects puts values into the archive as YAML, each cleaned, at most so many.
func (a *archive) objects(f File, all []any) {
	f.Items = len(all)
	if len(all) > maxObjects {
		f.Cut = fmt.Sprintf("%d of %d are there", maxObjects, len(all))
		all = all[:maxObjects]
	}
	var out bytes.Buffer
	for _, one := range all {
		text, err := a.yaml(one)
		if err != nil {
			a.miss(f.What, err)
			continue
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	a.add(f, out.Bytes())
}

// yaml is a value without secrets.
func (a *archive) yaml(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("write an object: %w", err)
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("write an object: %w", err)
	}
	a.clean.object(object)
	if text, err = yaml.Marshal(object); err != nil {
		return nil, fmt.Errorf("write an object: %w", err)
	}
	return text, nil
}

// write writes the archive: manifest.json first, then files by their names, below a directory.
func (a *archive) write(to io.Writer, dir string) error {
	slices.SortFunc(a.manifest.Files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	manifest, err := json.MarshalIndent(a.manifest, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	zipped := gzip.NewWriter(to)
	out := tar.NewWriter(zipped)
	put := func(name string, text []byte) error {
		header := &tar.Header{Name: path.Join(dir, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.manifest.Created, Typeflag: tar.TypeReg}
		if err := out.WriteHeader(header); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if _, err := out.Write(text); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return nil
	}
	if err := put("manifest.json", append(manifest, '\n')); err != nil {
		return err
	}
	for _, f := range a.manifest.Files {
		if err := put(f.Name, a.texts[f.Name]); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}
