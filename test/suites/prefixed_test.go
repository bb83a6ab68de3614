package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestBeside has two suites wait for each other, so that one after the other would never end. A third one begins when the second has ended.
func TestBeside(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	r := &runner{out: &printed}
	met, ended := make(chan struct{}), false
	results := r.beside(t.Context(), []lane{
		{{name: "first", run: func(_ context.Context, r *runner, out *result) error {
			fmt.Fprint(r.out, "half a ")
			met <- struct{}{}
			fmt.Fprintln(r.out, "line")
			out.record("one", nil)
			fmt.Fprint(r.out, "no end")
			return nil
		}}},
		{{name: "second", run: func(_ context.Context, r *runner, out *result) error {
			fmt.Fprintln(r.out, "whole")
			<-met
			out.record("two", errors.New("broken"))
			ended = true
			return nil
		}}, {name: "third", run: func(_ context.Context, _ *runner, out *result) error {
			if !ended {
				out.record("three", errors.New("it begins before the second has ended"))
			}
			out.record("three", nil)
			return nil
		}}},
	})
	if len(results) != 3 || results[0].name != "first" || results[0].passed != 1 || results[1].failed != 1 || results[2].failed != 0 ||
		results[2].passed != 1 {
		t.Errorf("results %+v", results)
	}
	for _, line := range []string{
		"first        half a line", "first        no end", "first        ok    one", "second       whole", "second       FAIL  two",
		"third        ok    three",
	} {
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
	r.beside(t.Context(), []lane{{{name: "alone", run: func(_ context.Context, r *runner, _ *result) error {
		fmt.Fprintln(r.out, "a line")
		return nil
	}}}})
	if printed.String() != "\n== alone\na line\n" {
		t.Errorf("printed %q", printed.String())
	}
}

func TestLanes(t *testing.T) {
	t.Parallel()
	lanes, err := lanesOf("integration,e2e+conformance")
	if err != nil || len(lanes) != 2 || len(lanes[0]) != 1 || len(lanes[1]) != 2 || lanes[1][1].name != "conformance" {
		t.Errorf("%v, %v", lanes, err)
	}
	if _, err := lanesOf("e2e+nothing"); err == nil {
		t.Error("there is a suite nothing")
	}
}
