package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// generated makes what is generated anew in a directory of its own and compares it with what the repository holds.
func (r *runner) generated(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "atoll-generated-")
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	generator, err := r.tool(ctx, "controller-gen")
	if err != nil {
		return err
	}
	const types = "pkg/apis/atoll/v1alpha1"
	_, err = r.output(ctx, ".", generator, "object", "crd", "paths=./"+types,
		"output:object:dir="+dir, "output:crd:dir="+dir)
	if err != nil {
		return err
	}
	const rows = "zz_generated.rows.go"
	if err := r.silent(ctx, ".", "go", "run", "./test/rowgen", filepath.Join(dir, rows)); err != nil {
		return err
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return fmt.Errorf("list generated files: %w", err)
	}
	var stale []string
	for _, file := range made {
		held := types
		switch {
		case filepath.Ext(file) == ".yaml":
			held = "dist/crds"
		case filepath.Base(file) == rows:
			held = "pkg/ovn/nb"
		}
		held = filepath.Join(held, filepath.Base(file))
		want, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read generated file: %w", err)
		}
		if got, err := os.ReadFile(held); err != nil || !bytes.Equal(got, want) {
			stale = append(stale, held)
		}
	}
	if len(stale) > 0 {
		return errors.New("run `make generate`: out of date are " + strings.Join(stale, ", "))
	}
	return nil
}
