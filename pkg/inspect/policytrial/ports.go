package policytrial

import (
	"fmt"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// PortSet is some ports of a protocol; ICMP has none, and is there as a whole.
type PortSet struct {
	Protocol model.Protocol
	Ranges   []Range
}

// Range is ports from First to Last, both included.
type Range struct{ First, Last uint16 }

// The ports that there are.
const firstPort, lastPort = 1, 65535

// protocols are all that policies tell apart, in the order in which they are written.
func protocols() []model.Protocol {
	return []model.Protocol{model.TCP, model.UDP, model.SCTP, trace.ICMP}
}

// Whole reports whether it is all ports of the protocol.
func (s PortSet) Whole() bool {
	return s.Protocol == trace.ICMP || len(s.Ranges) == 1 && s.Ranges[0] == Range{firstPort, lastPort}
}

// Has reports whether a port of a protocol is among it.
func (s PortSet) Has(protocol model.Protocol, port uint16) bool {
	return s.Protocol == protocol &&
		(protocol == trace.ICMP || slices.ContainsFunc(s.Ranges, func(r Range) bool { return r.First <= port && port <= r.Last }))
}

// rest are the ports of the protocol that are not among it.
func (s PortSet) rest() (out []Range) {
	next := firstPort
	for _, r := range s.Ranges {
		if int(r.First) > next {
			out = append(out, Range{uint16(next), r.First - 1})
		}
		next = int(r.Last) + 1
	}
	if next <= lastPort {
		out = append(out, Range{uint16(next), lastPort})
	}
	return out
}

func rangesText(all []Range) string {
	texts := make([]string, len(all))
	for i, r := range all {
		if texts[i] = fmt.Sprint(r.First); r.First != r.Last {
			texts[i] += fmt.Sprintf("-%d", r.Last)
		}
	}
	return strings.Join(texts, ",")
}

// String is the set as text: "tcp", "tcp 80,443", "tcp but 80".
func (s PortSet) String() string {
	switch rest := s.rest(); {
	case s.Whole():
		return string(s.Protocol)
	case len(rest) > 0 && len(rest) <= len(s.Ranges):
		return fmt.Sprintf("%s but %s", s.Protocol, rangesText(rest))
	}
	return fmt.Sprintf("%s %s", s.Protocol, rangesText(s.Ranges))
}

// PortsText are some sets as text: "any" where they are everything.
func PortsText(sets []PortSet) string {
	texts, whole := make([]string, len(sets)), 0
	var part *PortSet
	for i, s := range sets {
		if texts[i] = s.String(); s.Whole() {
			whole++
		} else {
			part = &sets[i]
		}
	}
	switch all := len(protocols()); {
	case whole == all:
		return "any"
	case whole == all-1 && part != nil && len(part.rest()) <= len(part.Ranges):
		return fmt.Sprintf("any but %s %s", part.Protocol, rangesText(part.rest()))
	}
	return strings.Join(texts, ", ")
}

// cells are where one thing ends that is said of ports, and another begins: each from its first port to the one before the next.
func cells(starts ...[]uint16) (out []Range) {
	edges := []uint16{firstPort}
	for _, s := range starts {
		edges = append(edges, s...)
	}
	slices.Sort(edges)
	edges = slices.DeleteFunc(slices.Compact(edges), func(e uint16) bool { return e < firstPort })
	for i, e := range edges {
		r := Range{e, lastPort}
		if i+1 < len(edges) {
			r.Last = edges[i+1] - 1
		}
		out = append(out, r)
	}
	return out
}

// join adds a range to sets that are in the order of protocols and ports.
func join(sets []PortSet, protocol model.Protocol, r Range) []PortSet {
	if n := len(sets) - 1; n >= 0 && sets[n].Protocol == protocol {
		ranges := sets[n].Ranges
		if m := len(ranges) - 1; m >= 0 && int(ranges[m].Last)+1 == int(r.First) {
			ranges[m].Last = r.Last
			return sets
		}
		sets[n].Ranges = append(sets[n].Ranges, r)
		return sets
	}
	return append(sets, PortSet{protocol, []Range{r}})
}
