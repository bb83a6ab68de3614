package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// complete returns what a file system's programs and libraries need and the file system lacks. A list of packages that lacks a
// library makes programs that do not start.
func complete(root string) error {
	there := map[string]bool{}
	needs := map[string][]string{} // by what is needed
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		there[entry.Name()] = true
		if !entry.Type().IsRegular() {
			return nil
		}
		binary, err := elf.Open(path)
		var other *elf.FormatError
		if errors.As(err, &other) || errors.Is(err, io.EOF) { // it is too short for a program
			return nil
		}
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		defer binary.Close()
		libraries, err := binary.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("look at %s: %w", path, err)
		}
		if loader := interpreter(binary); loader != "" {
			if _, err := os.Stat(filepath.Join(root, loader)); err != nil {
				needs[loader] = append(needs[loader], entry.Name())
			}
		}
		for _, library := range libraries {
			needs[library] = append(needs[library], entry.Name())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for libraries: %w", err)
	}
	var lacking []string
	for library, users := range needs {
		if !there[library] {
			lacking = append(lacking, fmt.Sprintf("%s (for %s)", library, strings.Join(users, ", ")))
		}
	}
	if len(lacking) > 0 {
		slices.Sort(lacking)
		return fmt.Errorf("no listed package has %s", strings.Join(lacking, "; "))
	}
	return nil
}

// interpreter is the loader that a program names; none if it is static.
func interpreter(binary *elf.File) string {
	section := binary.Section(".interp")
	if section == nil {
		return ""
	}
	data, err := section.Data()
	if err != nil {
		return "" // a section without content names nothing
	}
	return strings.TrimRight(string(data), "\x00")
}

// machines are what programs say that they are for.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// static tells why a program is not one that runs by itself on an architecture.
func static(program, architecture string) error {
	binary, err := elf.Open(program)
	if err != nil {
		return fmt.Errorf("look at %s: %w", program, err)
	}
	defer binary.Close()
	if want, known := machines[architecture]; known && binary.Machine != want {
		return fmt.Errorf("%s is for %s, not for %s", filepath.Base(program), binary.Machine, architecture)
	}
	if loader := interpreter(binary); loader != "" {
		return fmt.Errorf("%s is not static: it wants %s", filepath.Base(program), loader)
	}
	return nil
}
