package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"sigs.k8s.io/yaml"
)

// list is images/images.yaml, which explains its fields.
type list struct {
	Repository string   `json:"repository"`
	Source     string   `json:"source"`
	Images     []recipe `json:"images"`
}

// recipe says what is in an image.
type recipe struct {
	Name        string            `json:"name"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Licenses    string            `json:"licenses"`
	Platforms   []string          `json:"platforms"`
	Programs    []string          `json:"programs"`
	Packages    []string          `json:"packages"`
	Links       map[string]string `json:"links"`
	Files       map[string]string `json:"files"`
	User        string            `json:"user"`
	Entrypoint  []string          `json:"entrypoint"`
}

// listFile is the list, in a source tree.
const listFile = "images/images.yaml"

// readList reads the list of a source tree.
func readList(source string) (list, error) {
	var l list
	text, err := os.ReadFile(filepath.Join(source, listFile))
	if err != nil {
		return l, fmt.Errorf("read list of images: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &l); err != nil {
		return l, fmt.Errorf("parse list of images: %w", err)
	}
	return l, nil
}

// architectures that the image is for: Linux is the only system.
func (r recipe) architectures() ([]string, error) {
	var out []string
	for _, platform := range r.Platforms {
		system, arch, _ := strings.Cut(platform, "/")
		switch {
		case platform == "own":
			arch = runtime.GOARCH
		case system != "linux" || arch == "":
			return nil, fmt.Errorf("read list of images: %s is for %q, not for linux/ARCHITECTURE", r.Name, platform)
		}
		out = append(out, arch)
	}
	return out, nil
}

// copied are the files of the source tree that the image has, by their names in it.
func (r recipe) copied(source string) (map[string]string, error) {
	out := map[string]string{}
	for place, dir := range r.Files {
		entries, err := os.ReadDir(filepath.Join(source, dir))
		if err != nil {
			return nil, fmt.Errorf("list files of image %s: %w", r.Name, err)
		}
		for _, entry := range entries {
			if entry.Type() != fs.ModeDir {
				out[path.Join(place, entry.Name())] = filepath.Join(source, dir, entry.Name())
			}
		}
	}
	return out, nil
}
