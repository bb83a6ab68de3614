package capture

import (
	"net/netip"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// TestSpecOf: all that a user asks for is taken, and what is no prefix is an error.
func TestSpecOf(t *testing.T) {
	t.Parallel()
	asked := api.PodCaptureSpec{
		Interface: "eth0", Direction: "in", SnapLength: 100, Prefixes: []string{"10.0.0.0/24", "2001:db8::1/128"}, Ports: []uint16{80},
		Protocols: []string{"tcp"}, Count: 3, Bytes: 1000,
	}
	want := Spec{
		Interface: "eth0", Direction: In, SnapLength: 100, Count: 3, Bytes: 1000, Filter: Filter{
			Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("2001:db8::1/128")}, Ports: []uint16{80},
			Protocols: []string{"tcp"},
		},
	}
	if got, err := SpecOf(asked); err != nil || !got.Equal(want) || got.Check() != nil {
		t.Errorf("it is %+v, %v, want %+v", got, err, want)
	}
	asked.Prefixes = append(asked.Prefixes, "10.0.0.1")
	if got, err := SpecOf(asked); err == nil {
		t.Errorf("an address is taken for a prefix: %+v", got)
	}
}
