package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fuzzTest is one fuzz test: go test runs only one at a time.
type fuzzTest struct{ pkg, name string }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

// fuzzTests finds the fuzz tests of the packages in a list of lines: directory, import path, and files in brackets.
func fuzzTests(packages string) ([]fuzzTest, error) {
	var found []fuzzTest
	for line := range strings.Lines(packages) {
		fields := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(fields) != 3 {
			return nil, fmt.Errorf("read list of packages: %q", line)
		}
		for file := range strings.FieldsSeq(strings.NewReplacer("[", " ", "]", " ").Replace(fields[2])) {
			source, err := os.ReadFile(filepath.Join(fields[0], file))
			if err != nil {
				return nil, fmt.Errorf("read test: %w", err)
			}
			for _, match := range fuzzFunc.FindAllSubmatch(source, -1) {
				found = append(found, fuzzTest{pkg: fields[1], name: string(match[1])})
			}
		}
	}
	return found, nil
}
