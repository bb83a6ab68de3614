package portholes

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// guestNIC is an interface in a Network with one address.
func guestNIC(network, own, face string) attachment.NIC {
	return attachment.NIC{
		Network: network, NetworkUID: uidOf(network),
		Addresses: []netip.Prefix{netip.MustParsePrefix(own + "/24")},
		Faces:     []netip.Addr{netip.MustParseAddr(face)},
	}
}

// uidOf is the UID of a Network of these tests.
func uidOf(network string) string { return "uid-of-" + network }

func TestGuests(t *testing.T) {
	t.Parallel()
	type came struct{ container, network, own, face string }
	for _, test := range []struct {
		name  string
		came  []came
		left  []string
		red   []string
		none  bool
		blue  []string
		count int
	}{
		{name: "nobody", none: true},
		{
			name: "two Networks with the same addresses",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "blue", "10.0.0.5", "100.64.0.2"}},
			red:  []string{"10.0.0.5 100.64.0.1"}, blue: []string{"10.0.0.5 100.64.0.2"}, count: 2,
		},
		{
			name: "a new sandbox before the old one has gone",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "red", "10.0.0.5", "100.64.0.1"}},
			red:  []string{"10.0.0.5 100.64.0.1"}, count: 1,
		},
		{
			name: "the old sandbox has gone",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "red", "10.0.0.5", "100.64.0.1"}},
			left: []string{"c1"}, red: []string{"10.0.0.5 100.64.0.1"}, count: 1,
		},
		{
			name: "the last has gone",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}},
			left: []string{"c1"}, none: true,
		},
		{
			name: "a face that another Network's pod has",
			came: []came{{"c1", "blue", "10.0.0.6", "100.64.0.1"}, {"c2", "red", "10.0.0.5", "100.64.0.1"}},
			blue: []string{"10.0.0.6 100.64.0.1"}, count: 2,
		},
		{
			name: "a second face for an address",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "red", "10.0.0.5", "100.64.0.2"}},
			red:  []string{"10.0.0.5 100.64.0.1"}, count: 1,
		},
		{
			name: "a second address for a face, whose first has gone",
			came: []came{{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "red", "10.0.0.6", "100.64.0.1"}},
			left: []string{"c1"}, red: []string{"10.0.0.6 100.64.0.1"}, count: 1,
		},
		{
			name: "one that comes again keeps its place",
			came: []came{
				{"c1", "red", "10.0.0.5", "100.64.0.1"}, {"c2", "red", "10.0.0.6", "100.64.0.1"}, {"c1", "red", "10.0.0.5", "100.64.0.1"},
			},
			red: []string{"10.0.0.5 100.64.0.1"}, count: 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := newGuests()
			for _, c := range test.came {
				g.put(c.container, "eth0", guestNIC(c.network, c.own, c.face))
			}
			for _, container := range test.left {
				g.remove(container)
			}
			for network, want := range map[string][]string{"red": test.red, "blue": test.blue} {
				doors, _ := g.of(uidOf(network))
				if diff := cmp.Diff(want, texts(doors)); diff != "" {
					t.Errorf("%s: -want +got:\n%s", network, diff)
				}
			}
			if _, some := g.of(uidOf("red")); some == test.none && len(test.red) > 0 {
				t.Errorf("has guests: %t", some)
			}
			if got := len(g.networks()); got != test.count {
				t.Errorf("%d Networks have guests, want %d", got, test.count)
			}
		})
	}
}

func texts(doors []porthole.Pod) []string {
	var out []string
	for _, d := range doors {
		out = append(out, d.Own.String()+" "+d.Face.String())
	}
	return out
}
