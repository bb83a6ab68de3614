package main

import (
	"bytes"
	"context"
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

// fuzzOne runs one fuzz test; a second time, and says so, if the first failed for the reason that its time was over.
func (r *runner) fuzzOne(ctx context.Context, out *result, test fuzzTest) error {
	for again := false; ; again = true {
		var printed bytes.Buffer
		once := result{name: out.name, out: &printed}
		err := r.goTest(ctx, &once, "-run=^$", "-fuzz=^"+test.name+"$", "-fuzztime="+r.fuzzTime.String(), test.pkg)
		if err == nil && once.failed > 0 && !again && overtime(printed.String()) {
			fmt.Fprintf(out.out, "again %s %s: its workers did not end in time\n", test.pkg, test.name)
			continue
		}
		out.add(once)
		if _, copyErr := printed.WriteTo(out.out); err == nil {
			err = copyErr
		}
		return err
	}
}

// overtime tells Go's fuzzer that failed because its own time was over, which happens on a machine that is busy, from one
// that found an input: then it says where it has written that.
func overtime(printed string) bool {
	return strings.Contains(printed, "context deadline exceeded") && !strings.Contains(printed, "Failing input written")
}
