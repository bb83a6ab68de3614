package main

import (
	"strings"
	"testing"
)

func TestProfilesAreForThisMachineOnly(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:6060":     "not a loopback address",
		"[::]:6060":        "not a loopback address",
		"10.0.0.1:6060":    "not a loopback address",
		":6060":            "not an address",
		"localhost:6060":   "not an address",
		"127.0.0.1":        "not an address",
		"example.com:6060": "not an address",
	} {
		if err := servePprof(t.Context(), address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that says %q", address, err, want)
		}
	}
}
