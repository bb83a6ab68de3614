package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestBeside has two suites wait for each other, so that one after the other would never end.
func TestBeside(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	r := &runner{out: &printed}
	met := make(chan struct{})
	results := r.beside(t.Context(), []suite{
		{name: "first", run: func(_ context.Context, r *runner, out *result) error {
			fmt.Fprint(r.out, "half a ")
			met <- struct{}{}
			fmt.Fprintln(r.out, "line")
			out.record("one", nil)
			fmt.Fprint(r.out, "no end")
			return nil
		}},
		{name: "second", run: func(_ context.Context, r *runner, out *result) error {
			fmt.Fprintln(r.out, "whole")
			<-met
			out.record("two", errors.New("broken"))
			return nil
		}},
	})
	if len(results) != 2 || results[0].name != "first" || results[0].passed != 1 || results[1].failed != 1 {
		t.Errorf("results %+v", results)
	}
	for _, line := range []string{"first        half a line", "first        no end", "first        ok    one", "second       whole", "second       FAIL  two"} {
		if !strings.Contains("\n"+printed.String(), "\n"+line+"\n") {
			t.Errorf("no line %q in\n%s", line, printed.String())
		}
	}
}

// TestAloneHasNoPrefix: one suite prints as it is.
func TestAloneHasNoPrefix(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	r := &runner{out: &printed}
	r.beside(t.Context(), []suite{{name: "alone", run: func(_ context.Context, r *runner, _ *result) error {
		fmt.Fprintln(r.out, "a line")
		return nil
	}}})
	if printed.String() != "\n== alone\na line\n" {
		t.Errorf("printed %q", printed.String())
	}
}
