package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/atoll-net/atoll/images/image"
)

// push pushes what was built, with the tag of its version and further ones.
func push(ctx context.Context, dir, registry string, tags []string, out io.Writer) error {
	if registry == "" {
		return errors.New("push where to? make push REGISTRY=registry.example.com/atoll")
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return fmt.Errorf("find images: %w", err)
	}
	if len(archives) == 0 {
		return fmt.Errorf("find images: none in %s; make images builds them", dir)
	}
	scratch, err := os.MkdirTemp(dir, ".push-*")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(scratch)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, archive := range archives {
		index, version, err := image.ReadArchive(archive, scratch)
		if err != nil {
			return err
		}
		digest, err := index.Digest()
		if err != nil {
			return fmt.Errorf("sum %s: %w", archive, err)
		}
		repository := strings.TrimRight(registry, "/") + "/" + strings.TrimSuffix(filepath.Base(archive), ".tar")
		for _, tag := range slices.Compact(append([]string{version}, tags...)) {
			reference := repository + ":" + tag
			if err := image.Push(ctx, reference, index); err != nil {
				return err
			}
			fmt.Fprintf(table, "%s\t%s\n", reference, digest)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = fmt.Fprintf(out, "\nnext  name these in your kustomization: docs/install.md\n")
	return err
}
