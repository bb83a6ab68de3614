package nodes

import (
	"fmt"
	"net/netip"
	"testing"
)

// TestWhoWentFirstIsForgotten: of more nodes than are remembered it is those that went last who have their addresses again.
func TestWhoWentFirstIsForgotten(t *testing.T) {
	t.Parallel()
	const more = 10
	s := &Stage{former: map[string]formerAddresses{}}
	goes := func(i int) {
		s.remember(&node{name: fmt.Sprintf("n%04d", i), addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}})
	}
	goes(0)
	for i := range maxFormer + more - 1 {
		goes(i + 1)
		if i == maxFormer/2 {
			goes(0) // It came again meanwhile, and is none of the first now.
		}
	}
	if len(s.former) != maxFormer {
		t.Errorf("%d are remembered, want %d", len(s.former), maxFormer)
	}
	for i := range maxFormer + more {
		_, remembered := s.former[fmt.Sprintf("n%04d", i)]
		if want := i == 0 || i > more; remembered != want {
			t.Errorf("node %d is remembered: %t, want %t", i, remembered, want)
		}
	}
}
