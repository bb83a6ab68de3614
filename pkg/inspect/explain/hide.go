package explain

import (
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/visibility"
)

// toldBySight removes from an explanation what the asker may not see. Whether the packet arrives stays as it is.
func toldBySight(s *visibility.Limits, e Explanation) Explanation {
	hide := func(hops []Hop) []Hop {
		out := make([]Hop, 0, len(hops))
		for _, h := range hops {
			if h.Network != "" && !s.Networks[h.Network] || s.Tells(h.What) {
				h.Node, h.Network, h.What = "", "", visibility.HiddenStep
				if !h.OK {
					h.Next = visibility.HiddenNext
				}
			} else if s.Tells(h.Next) {
				h.Next = visibility.HiddenNext
			}
			// Whose steps they are, is one step.
			if last := len(out) - 1; last >= 0 && h.What == visibility.HiddenStep && out[last].What == visibility.HiddenStep && out[last].OK {
				out[last].OK, out[last].Next, out[last].Layer = h.OK, h.Next, h.Layer
				continue
			}
			out = append(out, h)
		}
		return out
	}
	var ways []Way
	for _, w := range e.Ways {
		w.There, w.Back = hide(w.There), hide(w.Back)
		if s.Tells(w.To) {
			w.To = "somebody else"
		}
		if s.Tells(w.Dialled) {
			w.Dialled = ""
		}
		if s.Tells(w.SeenAs) {
			w.SeenAs = ""
		}
		// The number of endpoints of a Service is its owner's secret: equal ways become one.
		if !slices.ContainsFunc(ways, func(other Way) bool { return sameWay(other, w) }) {
			ways = append(ways, w)
		}
	}
	// The names of changing nodes and Networks may belong to other tenants.
	if len(e.Changing) > 0 {
		e.Changing = []string{visibility.HiddenChange}
	}
	e.Ways, e.Sources = ways, e.Sources+"; what belongs to others is not told"
	e.Drift = slices.DeleteFunc(slices.Clone(e.Drift), func(d drift.Difference) bool {
		mine := s.Namespaces[d.Owner.Namespace] || d.Owner.Namespace == "" && s.Networks[d.Owner.Name]
		return !mine || s.Tells(strings.Join([]string{d.Owner.String(), d.Object, d.Want, d.Have}, " "))
	})
	return e
}

func sameWay(a, b Way) bool {
	return a.Dialled == b.Dialled && a.To == b.To && a.SeenAs == b.SeenAs && a.Reached == b.Reached && slices.Equal(a.There, b.There) &&
		slices.Equal(a.Back, b.Back)
}
