package compile_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// A Network that uses others has no row of its own for it: its switches hold access lists of the providers, which these have
// while they serve anybody. ovn-northd computes everything anew when such a row comes or goes (TestAConsumerIsIncremental of
// package decide).
func TestConsumersHoldRowsOfProviders(t *testing.T) {
	t.Parallel()
	lay := func(name string) compile.Layout {
		n := model.Network{Name: name, UID: "uid of " + name, Type: model.VPC}
		for subnet, cidr := range map[string]string{"a": "10.0.0.0/24", "b": "10.0.1.0/24"} {
			n.Subnets = append(n.Subnets, model.Subnet{Name: subnet, CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}})
		}
		l, problems := compile.Plan(n, cluster())
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		l.Faces = true
		return l
	}
	home := func(name string) compile.Home { return compile.Home{Name: name, UID: "uid of " + name} }
	lent := map[string]*nb.ACL{}
	for _, provider := range []string{"first", "second"} {
		facts := compile.PeerRows(lay(provider), compile.Peers{Offers: true}, faces())
		for _, row := range facts.Rows {
			if acl, ok := row.(*nb.ACL); ok {
				lent[acl.UUID] = acl
			}
			if group, ok := row.(*nb.PortGroup); ok &&
				slices.ContainsFunc(facts.Members, func(m nb.Member) bool { return m.Row == nb.RefOf(group) && m.Column == nb.ColumnPorts }) {
				t.Errorf("what %s has for others judges at a port", provider)
			}
		}
	}
	for _, test := range []struct {
		what  string
		peers compile.Peers
		// How many access lists of each kind a switch holds: that of a pod and itself, one for each provider and IP family, one for each family.
		itself, passing, refusing int
	}{
		{"a consumer", compile.Peers{Uses: []compile.Home{home("first")}}, 1, 2, 2},
		{"a consumer of two", compile.Peers{Uses: []compile.Home{home("first"), home("second")}}, 1, 4, 2},
		{"who also serves", compile.Peers{Offers: true, Uses: []compile.Home{home("second")}}, 1, 2, 2},
	} {
		l := lay("consumer")
		facts := compile.PeerRows(l, test.peers, faces())
		known := map[string]*nb.ACL{}
		for _, row := range facts.Rows {
			acl, isACL := row.(*nb.ACL)
			if !test.peers.Offers {
				t.Errorf("%s has a row of its own: %+v", test.what, row)
			}
			if isACL {
				known[acl.UUID] = acl
			}
		}
		bySwitch := map[nb.Ref][3]int{}
		for _, m := range facts.Members {
			if m.Row.Table != nb.TableLogicalSwitch || m.Column != nb.ColumnACLs {
				continue
			}
			acl := lent[m.Value]
			if acl == nil {
				acl = known[m.Value]
			}
			if acl == nil {
				t.Fatalf("%s holds what no provider has: %v", test.what, m)
			}
			count := bySwitch[m.Row]
			switch {
			case acl.Action == "allow-related" && acl.Tier == compile.TierBaseline:
				count[0]++
			case acl.Action == "pass" && acl.Direction == "from-lport":
				count[1]++
			case acl.Action == "reject" && acl.Direction == "from-lport":
				count[2]++
			}
			bySwitch[m.Row] = count
		}
		if len(bySwitch) != len(l.Subnets) {
			t.Errorf("%s: %d of %d switches judge", test.what, len(bySwitch), len(l.Subnets))
		}
		for sw, got := range bySwitch {
			if want := [3]int{test.itself, test.passing, test.refusing}; got != want {
				t.Errorf("%s, %v: %v access lists, want %v", test.what, sw, got, want)
			}
		}
	}
}
