package main

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// keptImages is how many sets of images are kept. One is some 100 MB.
const keptImages = 3

// reuse links images into b.out. It takes those that dir has of the very same parts, and builds the others. It returns the images.
func (b builder) reuse(ctx context.Context, recipes []recipe, dir string) ([]built, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Two runs at once would write the same files.
	unlock, err := parts.Lock(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	source := sha256.Sum256([]byte(b.source))
	// Programs stay where they were built, by each source tree apart: Go links one anew only when something of it has changed.
	b.compiled = filepath.Join(dir, "programs-"+hex.EncodeToString(source[:6]))
	if err := os.MkdirAll(b.compiled, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := b.adopt(recipes); err != nil {
		return nil, fmt.Errorf("copy programs: %w", err)
	}
	key, err := b.key(ctx, recipes)
	if err != nil {
		return nil, err
	}
	kept, out := filepath.Join(dir, "images-"+key), b.out
	var all []built
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		if b.out, err = os.MkdirTemp(dir, ".images-*"); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		defer os.RemoveAll(b.out)
		if all, err = b.buildEach(ctx, recipes); err != nil {
			return nil, err
		}
		if err := os.Rename(b.out, kept); err != nil {
			return nil, fmt.Errorf("keep images: %w", err)
		}
	}
	if err := errors.Join(parts.Keep(kept, "images-*", keptImages), link(kept, out)); err != nil {
		return nil, err
	}
	return all, nil
}

// adopt copies the programs of make build to where an image's are built, unless newer ones are there: they are linked in the same way. Go
// looks whether they are what the source gives, and otherwise links them anew.
func (b builder) adopt(recipes []recipe) error {
	dir := filepath.Join(b.compiled, "bin-"+runtime.GOARCH)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, r := range recipes {
		for _, p := range r.Programs {
			made, place := filepath.Join(b.source, "bin", path.Base(p)), filepath.Join(dir, path.Base(p))
			info, err := os.Stat(made)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if there, err := os.Stat(place); err == nil && !info.ModTime().After(there.ModTime()) {
				continue
			}
			if _, err := buildinfo.ReadFile(made); err != nil {
				continue // not whole, or nothing of Go's, which Go would not replace
			}
			content, err := os.ReadFile(made)
			if err != nil {
				return err
			}
			if err := errors.Join(os.WriteFile(place+".new", content, 0o755), os.Rename(place+".new", place)); err != nil {
				return err
			}
		}
	}
	return nil
}

// buildEach builds images one after another.
func (b builder) buildEach(ctx context.Context, recipes []recipe) (all []built, err error) {
	for _, r := range recipes {
		done, err := b.build(ctx, r)
		if err != nil {
			return nil, err
		}
		all = append(all, done)
	}
	return all, nil
}

// key is a sum of all that images are made of: their list, programs, files and packages.
func (b builder) key(ctx context.Context, recipes []recipe) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, b.epoch)
	add := func(file string) error {
		content, err := os.Open(file)
		if err != nil {
			return err
		}
		defer content.Close()
		fmt.Fprintln(sum, filepath.Base(file))
		_, err = io.Copy(sum, content)
		return err
	}
	for _, file := range []string{listFile, "images/unpack"} {
		if err := add(filepath.Join(b.source, file)); err != nil {
			return "", fmt.Errorf("sum the parts of images: %w", err)
		}
	}
	for _, r := range recipes {
		architectures, err := r.architectures()
		if err != nil {
			return "", err
		}
		copied, err := r.copied(b.source)
		if err != nil {
			return "", err
		}
		for _, place := range slices.Sorted(maps.Keys(copied)) {
			fmt.Fprintln(sum, place)
			if err := add(copied[place]); err != nil {
				return "", fmt.Errorf("sum the parts of images: %w", err)
			}
		}
		for _, architecture := range architectures {
			fmt.Fprintln(sum, r.Name, architecture)
			if err := b.addParts(ctx, r, architecture, sum, add); err != nil {
				return "", fmt.Errorf("sum the parts of image %s: %w", r.Name, err)
			}
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// addParts adds an image's programs, and the names of its packages, which hold their versions.
func (b builder) addParts(ctx context.Context, r recipe, architecture string, sum io.Writer, add func(string) error) error {
	if len(r.Programs) > 0 {
		dir, err := b.compile(ctx, architecture, r.Programs)
		if err != nil {
			return err
		}
		for _, p := range r.Programs {
			if err := add(filepath.Join(dir, path.Base(p))); err != nil {
				return err
			}
		}
	}
	if len(r.Packages) == 0 {
		return nil
	}
	debs, fetched, err := b.packages(ctx, architecture, r.Packages)
	if err != nil {
		return err
	}
	fmt.Fprintln(sum, fetched.Unix())
	for _, deb := range debs {
		fmt.Fprintln(sum, filepath.Base(deb))
	}
	return nil
}

// link makes the files of a directory known in another one.
func link(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("find images: %w", err)
	}
	for _, file := range files {
		place := filepath.Join(to, file.Name())
		if err := os.RemoveAll(place); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(from, file.Name()), place); err != nil {
			return fmt.Errorf("link images: %w", err)
		}
	}
	return nil
}
