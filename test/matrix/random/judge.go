package random

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Seen is what was observed of a path.
type Seen struct {
	Result wire.Result
	// Witnesses are the UIDs of the pods that recorded the path's token.
	Witnesses []string
	// Clients are the addresses that it came from, as they saw it.
	Clients []netip.Addr
}

// Judge says what is wrong with a path, and nothing where it is as it must be. Leaked: it was heard by somebody who must
// not hear it, which waiting does not mend.
func Judge(p Path, s Seen) (wrong string, leaked bool) {
	for _, by := range s.Witnesses {
		if !slices.Contains(p.May, by) {
			return "seen by " + by, true
		}
	}
	answered := s.Result.Answered && p.Protocol != wire.ICMP
	switch {
	case answered && !slices.Contains(p.May, s.Result.Answerer.UID):
		return fmt.Sprintf("%s answered", s.Result.Answerer), true
	case len(p.May) == 0 && (s.Result.Answered || s.Result.Connected):
		return "somebody answered", true
	case len(p.May) == 0, p.Open && !s.Result.Answered:
		return "", false
	case !s.Result.Answered:
		return "no answer: " + s.Result.Error, false
	case len(s.Witnesses) == 0, answered && !slices.Contains(s.Witnesses, s.Result.Answerer.UID):
		return "answered, and not seen by who was meant", false
	}
	return "", false
}

// Count sums up paths by way and by what must become of them.
func Count(paths []Path) string {
	type key struct {
		way  Way
		open bool
	}
	counts := map[key]int{}
	for _, p := range paths {
		counts[key{p.Way, len(p.May) > 0}]++
	}
	var words []string
	for _, way := range []Way{ByAddress, ByFace, ByService} {
		words = append(words,
			fmt.Sprintf("%d by %s (%d of them closed)", counts[key{way, true}]+counts[key{way, false}], way, counts[key{way, false}]))
	}
	return fmt.Sprintf("%d paths: %s", len(paths), strings.Join(words, ", "))
}
