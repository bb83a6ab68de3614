package decide_test

import (
	"fmt"
	"testing"
)

// TestANetworkSaysLittleAtATime: however many of its subnets are wrong, and its status has them all. The control is one with few.
// When they are mended one after the other, the rest are said.
func TestANetworkSaysLittleAtATime(t *testing.T) {
	overlapping := func(n, from int) []string {
		words := []string{"first", "10.0.0.0/24"}
		for i := from; i < n; i++ {
			words = append(words, fmt.Sprint("a", i), "10.0.0.0/24")
		}
		return words
	}
	w := newWorld()
	for _, c := range []struct {
		n, from, told int
	}{{3, 0, 3}, {64, 3, 3 + 8}, {64, 11, 3 + 16}, {64, 60, 3 + 16 + 4}} {
		red := network("red", overlapping(c.n, c.from)...)
		red.Generation = int64(c.n + c.from)
		w.setNetwork(red)
		w.settle()
		if got := w.eventsOf("red"); len(got) != c.told {
			t.Errorf("subnets %d to %d overlap the first: %d Events, want %d", c.from, c.n, len(got), c.told)
		}
	}
}
