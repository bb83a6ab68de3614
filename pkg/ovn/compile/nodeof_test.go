package compile_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestNodeOf: what a node has is found again in its rows, in any order, by its name and its Network alone.
func TestNodeOf(t *testing.T) {
	t.Parallel()
	l := compile.Layout{Name: "default", UID: "uid-default", Subnets: []compile.SubnetLayout{{Name: "pods"}}}
	had := model.NodeNetwork{
		NodeUID: "uid-n1", Network: "default", NetworkUID: "uid-default", MAC: compile.NodeMAC("n1"),
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.244.0.2/24"), netip.MustParsePrefix("fd00:244::2/64")},
		Faces:     []netip.Prefix{netip.MustParsePrefix("100.64.0.0/23"), netip.MustParsePrefix("fd64:a701::/119")},
	}
	rows := compile.Node(l, "n1", had).Rows
	reversed := []nb.Row{rows[2], rows[1], rows[0]}
	for _, test := range []struct {
		name, network, node string
		rows                []nb.Row
		found               bool
	}{
		{"all", "uid-default", "n1", rows, true},
		{"in another order", "uid-default", "n1", reversed, true},
		{"another Network of the name", "uid-other", "n1", rows, false},
		{"another node", "uid-default", "n2", rows, false},
		{"no port", "uid-default", "n1", rows[1:], false},
		{"nothing", "uid-default", "n1", nil, false},
	} {
		got, found := compile.NodeOf(test.network, test.node, test.rows)
		if found != test.found {
			t.Errorf("%s: found %t, want %t", test.name, found, test.found)
		}
		if !found {
			continue
		}
		want := had
		want.MAC, want.Addresses = "", []netip.Prefix{netip.MustParsePrefix("10.244.0.2/32"), netip.MustParsePrefix("fd00:244::2/128")}
		if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
