package match

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// String is the selector as text: the same for selectors that have the same requirements, in whatever order, and for no
// others. It is written as kubectl writes selectors: app in (a,b), tier=web, !legacy.
func (s Selector) String() string {
	var words []string
	for _, r := range s.Requirements {
		words = append(words, r.String())
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

// String is the requirement as text.
func (r Requirement) String() string {
	key := word(r.Key)
	values := make([]string, 0, len(r.Values))
	for _, v := range r.Values {
		values = append(values, word(v))
	}
	slices.Sort(values)
	values = slices.Compact(values)
	list := "(" + strings.Join(values, ",") + ")"
	switch {
	case r.Op == In && len(values) == 1:
		return key + "=" + values[0]
	case r.Op == In:
		return key + " in " + list
	case r.Op == NotIn:
		return key + " notin " + list
	case r.Op == Exists:
		return key
	}
	return "!" + key
}

// word is a key or value as it is if Kubernetes would take it for one, else between quotes, so that no text of a tenant
// passes for another selector.
func word(s string) string {
	for _, c := range s {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./", c)
		if !plain {
			return strconv.Quote(s)
		}
	}
	return cmp.Or(s, `""`)
}
