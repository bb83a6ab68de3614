package chassis

import (
	"net/netip"
	"slices"
	"testing"
)

// TestWhatTheDatabaseTellsOfTheUnderlay reads what ovsdb-tool 3.5 prints.
func TestWhatTheDatabaseTellsOfTheUnderlay(t *testing.T) {
	const printed = `[{"rows":[{"external_ids":["map",[["atoll.dev/addresses","192.0.2.7/24 fd00::7/64"],["a","b"]]],"name":"br-phys"},` +
		`{"external_ids":["map",[["atoll.dev/addresses","198.51.100.1/24"]]],"name":"br-int"}]},` +
		`{"rows":[{"name":"eth1","type":""},{"name":"br-phys","type":"internal"},{"name":"ovn-n2-0","type":"geneve"}]}]`
	got, err := readSwitched(printed)
	if err != nil {
		t.Fatal(err)
	}
	if want := []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("fd00::7/64")}; !slices.Equal(got.addresses, want) {
		t.Errorf("addresses %v, want %v", got.addresses, want)
	}
	if !slices.Equal(got.links, []string{"eth1"}) || !slices.Equal(got.bridges, []string{"br-phys", "br-int"}) {
		t.Errorf("links %q, bridges %q", got.links, got.bridges)
	}
	for _, broken := range []string{
		"", "[]", `[{"error":"no such table"}]`,
		`[{"rows":[{"name":"br-phys","external_ids":["map",[["atoll.dev/addresses","x"]]]}]},{"rows":[]}]`,
	} {
		if _, err := readSwitched(broken); err == nil {
			t.Errorf("%q is taken", broken)
		}
	}
}
