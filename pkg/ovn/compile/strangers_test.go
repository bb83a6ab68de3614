package compile_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// What comes from faces is kept out of every Network whose pods have faces, but for what is its own pods'.
func TestStrangers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cidrs []string
		// match is what the row drops; empty: there is none.
		match string
	}{
		"elsewhere": {[]string{"10.0.0.0/24"}, "(ip4.src == 100.64.0.0/10 || ip6.src == fd64:a701::/64) && !flags.loopback"},
		"among faces": {
			[]string{"100.96.0.0/11", "fd00:10::/64"},
			"(ip4.src == 100.64.0.0/11 || ip6.src == fd64:a701::/64) && !flags.loopback",
		},
		"all of a family": {[]string{"100.64.0.0/10"}, "ip6.src == fd64:a701::/64 && !flags.loopback"},
		"around all":      {[]string{"100.0.0.0/8", "fd64:a701::/64"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := model.Network{Name: "red", UID: "uid", Type: model.VPC, Subnets: []model.Subnet{{Name: "a"}}}
			for _, cidr := range test.cidrs {
				n.Subnets[0].CIDRs = append(n.Subnets[0].CIDRs, netip.MustParsePrefix(cidr))
			}
			l, problems := compile.Plan(n, cluster())
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, faced := range []bool{true, false} {
				l.Faces = faced
				var got []string
				for _, row := range compile.Network(l, faces()).Rows {
					if acl, ok := row.(*nb.ACL); ok && acl.Direction == "to-lport" && acl.Action == "drop" {
						match, _, _ := strings.Cut(acl.Match, " /*")
						got = append(got, match)
					}
				}
				want := test.match
				if !faced {
					want = ""
				}
				if strings.Join(got, ", ") != want {
					t.Errorf("faces %t: drops %q, want %q", faced, got, want)
				}
			}
		})
	}
}
