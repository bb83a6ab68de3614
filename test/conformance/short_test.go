//go:build e2e

package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/atoll-net/atoll/test/sandbox"
)

// TestShort runs the short list on a sandbox of its own, with the pods of the tests in either kind of Network. It needs
// root and bin/ (make build).
//
//	ATOLL_E2E_BIN=DIR go test -tags e2e ...  takes the programs from another directory than bin/
func TestShort(t *testing.T) {
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := cmp.Or(os.Getenv("ATOLL_E2E_BIN"), filepath.Join(source, "bin"))
	o := options{
		out: os.Stdout, list: "short", focus: regexp.MustCompile(""), procs: 6, reports: filepath.Join(source, "bin/conformance/short"),
		sandbox: sandbox.Options{
			Name: "atollconf", State: "/var/lib/atoll-sandbox-conformance", Source: source, Bin: bin, Program: filepath.Join(bin, "atoll-sandbox"),
			Overlay: sandbox.OverlaySingle,
		},
	}
	c, err := o.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	for _, n := range []network{defaultNetwork, vpcNetwork} {
		t.Run(string(n), func(t *testing.T) {
			v, err := c.test(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range v.specs {
				t.Run(s.spec, func(t *testing.T) {
					switch {
					case !s.passed && !s.excepted():
						t.Error(s.failure)
					case s.passed && s.excepted():
						t.Errorf("it passed, but is an exception: %s", s.reason)
					}
				})
			}
		})
	}
}
