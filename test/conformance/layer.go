package main

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
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// left are the parts of Debian's packages that no image needs.
var left = []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/perl", "usr/lib/valgrind"}

// completed are the files that the packages would have made when they were configured.
var completed = struct {
	copies, links, texts map[string]string
	dirs                 []string
}{
	copies: map[string]string{
		"etc/passwd": "usr/share/base-passwd/passwd.master",
		"etc/group":  "usr/share/base-passwd/group.master",
	},
	links: map[string]string{"usr/bin/awk": "mawk", "usr/bin/nc": "nc.openbsd", "usr/bin/sh": "dash"},
	texts: map[string]string{"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"},
	dirs:  []string{"uploads"}, // where agnhost keeps what it is sent
}

// treeLayer packs a file system of Debian packages, complete with what their configuration makes.
func treeLayer(tree, file string) (v1.Layer, error) {
	return layer(file, func(w *archiver) error {
		err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			name, err := filepath.Rel(tree, path)
			if err != nil || name == "." {
				return err
			}
			if slices.Contains(left, name) {
				return fs.SkipDir
			}
			return w.copy(name, path, entry)
		})
		if err != nil {
			return err
		}
		for _, name := range sorted(completed.copies) {
			if err := w.file(name, filepath.Join(tree, completed.copies[name]), 0o644); err != nil {
				return err
			}
		}
		for _, name := range sorted(completed.texts) {
			text := completed.texts[name]
			if err := w.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text)); err != nil {
				return err
			}
		}
		for _, name := range completed.dirs {
			if err := w.entry(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o777}, nil); err != nil {
				return err
			}
		}
		return w.links(completed.links)
	})
}

// pack makes an image.
func pack(r recipe, base v1.Layer, file string) (v1.Image, error) {
	own, err := layer(file, func(w *archiver) error {
		for _, program := range r.programs {
			name := filepath.Base(program)
			if name == "busybox" {
				name = "bin/busybox" // where its applets are linked to
			}
			if err := w.file(name, program, 0o755); err != nil {
				return err
			}
		}
		for _, name := range sorted(r.files) {
			if err := w.file(name, r.files[name], 0o755); err != nil {
				return err
			}
		}
		if !r.tree {
			if err := w.entry(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil); err != nil {
				return err
			}
		}
		return w.links(r.links)
	})
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{own}
	if r.tree {
		layers = []v1.Layer{base, own}
	}
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return nil, fmt.Errorf("add layers: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = r.command
	return mutate.ConfigFile(image, config)
}

// layer writes a tar file and makes a layer of it.
func layer(file string, fill func(*archiver) error) (v1.Layer, error) {
	out, err := os.Create(file)
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	w := &archiver{tar.NewWriter(out)}
	err = fill(w)
	if err == nil {
		err = w.tar.Close()
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	return tarball.LayerFromFile(file, tarball.WithCompressionLevel(gzip.BestSpeed))
}

// archiver writes a file system that belongs to root and shows no time.
type archiver struct{ tar *tar.Writer }

func (w *archiver) entry(header tar.Header, content io.Reader) error {
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

func (w *archiver) file(name, from string, mode int64) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return w.entry(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}, in)
}

// copy packs what lies in a file system as it is. Devices and sockets are in no package.
func (w *archiver) copy(name, path string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	mode := int64(info.Mode().Perm())
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return fmt.Errorf("pack %s: %w", name, err)
		}
		return w.entry(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
	case info.IsDir():
		if info.Mode()&fs.ModeSticky != 0 {
			mode |= 0o1000
		}
		return w.entry(tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}, nil)
	case info.Mode().IsRegular():
		return w.file(name, path, mode)
	}
	return fmt.Errorf("pack %s: it is no file, directory or link", name)
}

func (w *archiver) links(links map[string]string) error {
	for _, name := range sorted(links) {
		err := w.entry(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: links[name], Mode: 0o777}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
