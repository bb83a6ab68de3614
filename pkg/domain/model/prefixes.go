package model

import (
	"net/netip"
	"slices"
)

// Outermost are the prefixes of a list that lie in no other of it, sorted: ranges that do not overlap.
func Outermost(list []netip.Prefix) []netip.Prefix {
	sorted := make([]netip.Prefix, 0, len(list))
	for _, p := range list {
		sorted = append(sorted, p.Masked())
	}
	slices.SortFunc(sorted, netip.Prefix.Compare)
	var out []netip.Prefix
	for _, p := range sorted {
		// The wider one of two that overlap begins no later, so that the last one kept is the only candidate.
		if n := len(out); n == 0 || !out[n-1].Contains(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}
