package compile

import (
	"cmp"
	"slices"
)

// span is a range of ports, both ends included.
type span struct{ first, last uint16 }

// joined sorts ranges and joins those that overlap or touch.
func joined(in []span) []span {
	slices.SortFunc(in, func(a, b span) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	var out []span
	for _, s := range in {
		if s.first > s.last {
			continue
		}
		if n := len(out); n > 0 && int(s.first) <= int(out[n-1].last)+1 {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}
