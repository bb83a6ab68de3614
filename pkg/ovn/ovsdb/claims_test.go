package ovsdb

import (
	"slices"
	"testing"
)

// TestUnasked: what the northbound database asks for stays, for which the encapsulations are kept; all else is nobody's.
func TestUnasked(t *testing.T) {
	for _, c := range []struct {
		row             furtherRow
		chassis, encaps []string
	}{
		{furtherRow{}, nil, nil},
		{furtherRow{Further: []string{"a"}}, []string{"a"}, nil},
		{furtherRow{Further: []string{"a", "b"}, Encaps: []string{"e"}}, []string{"a", "b"}, []string{"e"}},
		{furtherRow{Encaps: []string{"e"}}, nil, []string{"e"}},
		{furtherRow{Further: []string{"a"}, Encaps: []string{"e"}, Asked: []string{"a"}}, nil, nil},
		{furtherRow{Further: []string{"a", "b"}, Encaps: []string{"e"}, Asked: []string{"a"}}, []string{"b"}, nil},
	} {
		chassis, encaps := c.row.unasked()
		if !slices.Equal(chassis, c.chassis) || !slices.Equal(encaps, c.encaps) {
			t.Errorf("of %+v chassis %v and encapsulations %v are unasked, want %v and %v", c.row, chassis, encaps, c.chassis, c.encaps)
		}
	}
}
