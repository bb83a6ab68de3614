package main

import (
	"io/fs"
	"maps"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/atoll-net/atoll/images/image"
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
func treeLayer(tree, scratch string) (v1.Layer, error) {
	layer := image.Layer{
		Tree: tree, Omit: left, Files: map[string]string{}, Texts: completed.texts, Dirs: map[string]fs.FileMode{}, Links: completed.links,
	}
	for name, from := range completed.copies {
		layer.Files[name] = filepath.Join(tree, from)
	}
	for _, name := range completed.dirs {
		layer.Dirs[name] = 0o777
	}
	return image.PackLayer(layer, scratch)
}

// pack makes an image.
func pack(r recipe, base v1.Layer, scratch string) (v1.Image, error) {
	layer := image.Layer{Programs: maps.Clone(r.files), Dirs: map[string]fs.FileMode{}, Links: r.links}
	if layer.Programs == nil {
		layer.Programs = map[string]string{}
	}
	for _, program := range r.programs {
		name := filepath.Base(program)
		if name == "busybox" {
			name = "bin/busybox" // where its applets are linked to
		}
		layer.Programs[name] = program
	}
	if !r.tree {
		layer.Dirs["tmp"] = 0o777 | fs.ModeSticky
	}
	own, err := image.PackLayer(layer, scratch)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{own}
	if r.tree {
		layers = []v1.Layer{base, own}
	}
	return image.Assemble(image.Content{Platform: image.Own(), Config: r.command}, layers)
}
