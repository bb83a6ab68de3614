package image

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Layer is one layer of an image's file system. All in it belongs to root. Names in the image have no slash at their beginning. What is
// below Tree comes first; the rest replaces what it has under the same name.
type Layer struct {
	// Tree is a directory with files, directories and links as the image has them. It may be empty.
	Tree string
	// Omit are names below Tree that the image lacks, with all that is below them.
	Omit []string
	// Dirs are directories, with their modes; a sticky one has fs.ModeSticky.
	Dirs map[string]fs.FileMode
	// Files are copies of files, which anybody may read.
	Files map[string]string
	// Programs are copies of files, which anybody may run.
	Programs map[string]string
	// Texts are files, by what is in them.
	Texts map[string]string
	// Links are symbolic links, by what they point to.
	Links map[string]string
}

// pack writes the layer, compressed, into a file of the directory scratch, which must live as long as the result is used.
func (l Layer) pack(scratch string) (_ v1.Layer, err error) {
	out, err := os.CreateTemp(scratch, "layer-*.tar.gz")
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	compressed := gzip.NewWriter(out) // its header has no name and no time
	w := archiver{tar.NewWriter(compressed)}
	err = l.write(w)
	for _, c := range []io.Closer{w.tar, compressed, out} {
		if closing := c.Close(); err == nil {
			err = closing
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	layer, err := tarball.LayerFromFile(out.Name(), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	return layer, nil
}

func (l Layer) write(w archiver) error {
	own := map[string]func(name string) error{}
	for name, mode := range l.Dirs {
		own[name] = func(name string) error { return w.dir(name, mode) }
	}
	for name, from := range l.Files {
		own[name] = func(name string) error { return w.file(name, from, 0o644) }
	}
	for name, from := range l.Programs {
		own[name] = func(name string) error { return w.file(name, from, 0o755) }
	}
	for name, text := range l.Texts {
		own[name] = func(name string) error {
			return w.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
		}
	}
	for name, target := range l.Links {
		own[name] = func(name string) error { return w.link(name, target) }
	}
	if l.Tree != "" {
		if err := l.writeTree(w, own); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("pack %q: no name of a file in an image", name)
		}
		if err := own[name](name); err != nil {
			return err
		}
	}
	return nil
}

// writeTree packs the tree but for what is replaced.
func (l Layer) writeTree(w archiver, replaced map[string]func(string) error) error {
	return filepath.WalkDir(l.Tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(l.Tree, path)
		if err != nil || name == "." {
			return err
		}
		_, other := replaced[name]
		switch {
		case slices.Contains(l.Omit, name):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case other && !entry.IsDir():
			return nil
		}
		return w.copy(name, path, entry)
	})
}

// archiver writes a file system that belongs to root and shows no time.
type archiver struct{ tar *tar.Writer }

func (w archiver) entry(header tar.Header, content io.Reader) error {
	if err := w.tar.WriteHeader(&header); err != nil {
		return fmt.Errorf("pack %s: %w", header.Name, err)
	}
	if content != nil {
		if _, err := io.Copy(w.tar, content); err != nil {
			return fmt.Errorf("pack %s: %w", header.Name, err)
		}
	}
	return nil
}

func (w archiver) dir(name string, mode fs.FileMode) error {
	return w.entry(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: tarMode(mode)}, nil)
}

func (w archiver) link(name, target string) error {
	return w.entry(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

func (w archiver) file(name, from string, mode fs.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("pack %s: %s is no file", name, from)
	}
	return w.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: tarMode(mode), Size: info.Size()}, in)
}

// copy packs what lies in a file system as it is. Devices and sockets are in no package.
func (w archiver) copy(name, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return w.link(name, target)
	case info.IsDir():
		return w.dir(name, info.Mode())
	case info.Mode().IsRegular():
		return w.file(name, path, info.Mode())
	}
	return fmt.Errorf("pack %s: it is no file, directory or link", name)
}

// tarMode is a mode as tar has it. Nothing in an image changes who runs it: bits for another user or group are left out.
func tarMode(mode fs.FileMode) int64 {
	out := int64(mode.Perm())
	if mode&fs.ModeSticky != 0 {
		out |= 0o1000
	}
	return out
}
