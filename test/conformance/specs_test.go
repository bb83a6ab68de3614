package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	listed, err := os.ReadFile("testdata/list.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := parseList(string(listed))
	if len(all) != strings.Count(string(listed), ".go:") {
		t.Fatalf("read %d specs: %q", len(all), all)
	}
	short, err := choose(all, "short", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	full, err := choose(all, "full", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	policies, err := choose(all, "netpol", regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range short {
		if !slices.Contains(full, name) && !slices.Contains(policies, name) {
			t.Errorf("the short list has %q, which no other has", name)
		}
	}
	for _, name := range full {
		if strings.Contains(name, "[Feature:") || strings.Contains(name, "[sig-apps]") {
			t.Errorf("the full list has %q", name)
		}
	}
	for _, name := range all {
		want := strings.HasPrefix(name, "[sig-network] Netpol")
		if got := slices.Contains(policies, name); got != want {
			t.Errorf("the list of policies has %q: %t", name, got)
		}
	}
	if _, err := choose(all[:1], "full", regexp.MustCompile("")); err == nil {
		t.Error("nobody is told that a selection chooses nothing")
	}
	if _, err := choose(all, "full", regexp.MustCompile("no such spec")); err == nil {
		t.Error("nobody is told that nothing is chosen")
	}
	// Ginkgo searches in the suite's name, a space, and the spec's.
	focus := regexp.MustCompile(focusOn(short))
	for _, name := range all {
		if got := focus.MatchString("Kubernetes e2e suite " + name); got != slices.Contains(short, name) {
			t.Errorf("the focus matches %q: %t", name, got)
		}
	}
}

func TestWatch(t *testing.T) {
	printed, err := os.ReadFile("testdata/output.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := newWatcher(&out,
		[]string{"[sig-network] DNS should work [Conformance]", "[sig-network] HostPort works", "[sig-node] Probes should work"},
		exceptions{{Spec: "HostPort", Reason: "no host ports"}})
	for piece := range slices.Chunk(printed, 7) { // it comes in pieces of any size
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	const want = "  1/3  ok      0.278s  [sig-network] DNS should work [Conformance]\n" +
		"  2/3  fail  300.001s  [sig-network] HostPort works\n" +
		"  3/3  FAIL    2.500s  [sig-node] Probes should work\n"
	if out.String() != want {
		t.Errorf("shows\n%swant\n%s", out.String(), want)
	}
}
