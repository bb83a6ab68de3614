package model_test

import (
	"net/netip"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestPortNumber: hosts of a range have different numbers, which OVN takes, and a number never changes: it would send packets
// astray while a cluster is upgraded.
func TestPortNumber(t *testing.T) {
	for _, c := range []struct {
		prefix, address string
		want            int
	}{
		{"10.0.0.0/24", "10.0.0.1", 1},
		{"10.0.0.0/24", "10.0.0.254", 254},
		{"10.0.0.7/24", "10.0.0.9", 9},
		{"10.0.0.128/25", "10.0.0.130", 2},
		{"10.0.0.0/16", "10.0.127.255", 32767},
		{"10.0.0.0/16", "10.0.128.0", 1},
		{"10.0.0.0/16", "10.0.255.255", 1},
		{"10.0.0.0/31", "10.0.0.0", 32767},
		{"fd00::/64", "fd00::2", 2},
		{"fd00::/64", "fd00::ffff:ffff:ffff:ffff", 15},
		{"fd00::10/124", "fd00::1f", 15},
	} {
		if got := model.PortNumber(netip.MustParsePrefix(c.prefix), netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s of %s: %d, want %d", c.address, c.prefix, got, c.want)
		}
	}
	in := netip.MustParsePrefix("10.64.0.0/17")
	seen := map[int]bool{}
	for a := in.Addr().Next(); in.Contains(a.Next()); a = a.Next() {
		n := model.PortNumber(in, a)
		if n < 1 || n > 32767 || seen[n] {
			t.Fatalf("%s: %d", a, n)
		}
		seen[n] = true
	}
}
