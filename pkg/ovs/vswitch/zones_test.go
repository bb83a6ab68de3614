package vswitch

import (
	"maps"
	"testing"
)

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]map[uint16]Zone{
		"":                {},
		"default limit=0": {},
		"default limit=0\nzone=10,limit=60,count=59\nzone=17,limit=60,count=60\n": {10: {59, 60}, 17: {60, 60}},
		"default limit=0 zone=3,limit=4294967295,count=0 zone=x,limit=1,count=1":  {3: {0, 4294967295}},
	} {
		if got := parseLimits(text); !maps.Equal(got, want) {
			t.Errorf("%q is read as %v, want %v", text, got, want)
		}
	}
	for zone, full := range map[Zone]bool{{59, 60}: false, {60, 60}: true, {61, 60}: true, {0, 0}: false, {5, 0}: false} {
		if zone.Full() != full {
			t.Errorf("%+v is full: %t", zone, !full)
		}
	}
}
