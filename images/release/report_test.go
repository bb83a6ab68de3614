package main

import (
	"strings"
	"testing"
	"time"
)

// TestReport: what a person reads fits a terminal, and says what comes next.
func TestReport(t *testing.T) {
	digest := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	all := []built{
		{name: "atoll", stamp: stamp{version: "v0.1.0", created: time.Unix(1e9, 0).UTC()}, archive: "bin/images/atoll.tar", digest: digest(
			"1"), size: 123456789, fetched: time.Unix(1.1e9, 0).UTC(), platforms: []builtPlatform{
			{name: "linux/amd64", digest: digest("2"), size: 61728394}, {name: "linux/arm64", digest: digest("3"), size: 61728395},
		}},
		{
			name: "ovn", stamp: stamp{version: "v0.1.0"}, archive: "bin/images/ovn.tar", digest: digest("4"), size: 7e6,
			fetched: time.Unix(1.2e9, 0).UTC(), platforms: []builtPlatform{{name: "linux/amd64", digest: digest("5"), size: 6.9e6}},
		},
	}
	const want = `IMAGE  PLATFORM     SIZE      DIGEST               FILE
atoll  linux/amd64  61.7 MB   sha256:222222222222  
atoll  linux/arm64  61.7 MB   sha256:333333333333  
atoll  index        123.5 MB  sha256:111111111111  bin/images/atoll.tar
ovn    linux/amd64  6.9 MB    sha256:555555555555  
ovn    index        7.0 MB    sha256:444444444444  bin/images/ovn.tar

version   v0.1.0 of 9 September 2001
packages  Debian's, fetched 9 November 2004; make images FRESH=1 fetches what is newest
contents  bin/images/*.spdx.json
next      make push REGISTRY=registry.example.com/atoll
`
	var out strings.Builder
	if err := report(&out, all, "bin/images"); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
