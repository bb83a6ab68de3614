package compile_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Datagrams are refused at addresses that mean something only while a load balancer leads from them, but for those of the
// Network's own pods and those that answer questions for names.
func TestUnserved(t *testing.T) {
	t.Parallel()
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, text := range texts {
			out = append(out, netip.MustParsePrefix(text))
		}
		return out
	}
	const udp = "udp && ct.new && !ct.dnat && "
	for name, test := range map[string]struct {
		cidrs, services []netip.Prefix
		virtual         compile.Virtual
		want            []string
	}{
		"nothing": {cidrs: prefixes("10.0.0.0/24")},
		"both families": {
			cidrs: prefixes("10.0.0.0/24"),
			virtual: compile.Virtual{
				Ranges: prefixes("100.64.0.0/10", "10.96.0.0/16", "fd96::/112"), Asked: []netip.Addr{
					netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd96::a"),
				},
			},
			want: []string{
				"reject " + udp + "(ip4.dst == {10.96.0.0/16, 100.64.0.0/10} || ip6.dst == fd96::/112)",
				"pass udp.dst == 53 && (ip4.dst == 10.96.0.10 || ip6.dst == fd96::a)",
			},
		},
		"a subnet among them": {
			cidrs: prefixes("10.96.128.0/17"), virtual: compile.Virtual{Ranges: prefixes("10.96.0.0/16")},
			want: []string{"reject " + udp + "ip4.dst == 10.96.0.0/17"},
		},
		"service ranges of its own": {
			cidrs: prefixes("10.0.0.0/24"), services: prefixes("172.20.0.0/24"), virtual: compile.Virtual{Ranges: prefixes("198.18.0.0/16")},
			want: []string{"reject " + udp + "ip4.dst == 198.18.0.0/16", "reject " + udp + "ip4.dst == 172.20.0.0/24"},
		},
		"nodes in service ranges of its own": {
			cidrs: prefixes("10.0.0.0/24"), services: prefixes("172.20.0.0/29", "fd00:8::/126"),
			virtual: compile.Virtual{Hosts: []netip.Addr{netip.MustParseAddr("172.20.0.1"), netip.MustParseAddr("fd00:8::2")}},
			want:    []string{"reject " + udp + "(ip4.dst == {172.20.0.0, 172.20.0.2/31, 172.20.0.4/30} || ip6.dst == {fd00:8::/127, fd00:8::3})"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := model.Network{
				Name: "red", UID: "uid", Type: model.VPC, Subnets: []model.Subnet{{Name: "a", CIDRs: test.cidrs}}, ServiceCIDRs: test.services,
			}
			l, problems := compile.Plan(n, cluster())
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			l.Faces, l.Virtual = true, test.virtual
			facts := compile.Network(l, nil)
			var got []string
			hung := map[string]bool{}
			for _, m := range facts.Members {
				hung[m.Value] = true
			}
			for _, row := range facts.Rows {
				if acl, is := row.(*nb.ACL); is && *acl.Name == nb.Unserved {
					match, _, _ := strings.Cut(acl.Match, " /*")
					got = append(got, acl.Action+" "+match)
					if !hung[acl.UUID] || acl.Options["apply-after-lb"] != "true" {
						t.Errorf("%s is not asked after load balancing", match)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A consumer has its providers' row about their service ranges on its own switches, and no row more.
func TestUnservedOfAProvider(t *testing.T) {
	t.Parallel()
	n := model.Network{
		Name: "blue", UID: "uid-blue", Type: model.VPC, Subnets: []model.Subnet{
			{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}},
		},
	}
	consumer, _ := compile.Plan(n, cluster())
	n = model.Network{
		Name: "red", UID: "uid-red", Type: model.VPC, Subnets: []model.Subnet{
			{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}},
		},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("172.20.0.0/24")},
	}
	provider, _ := compile.Plan(n, cluster())
	var row string
	for _, r := range compile.Network(provider, nil).Rows {
		if acl, is := r.(*nb.ACL); is && *acl.Name == nb.Unserved {
			row = acl.UUID
		}
	}
	home := compile.Home{Name: "red", UID: "uid-red"}
	facts := compile.PeerRows(consumer, compile.Peers{Uses: []compile.Home{home}, Ranged: []compile.Home{home}}, faces())
	for _, m := range facts.Members {
		if m.Value == row && row != "" {
			return
		}
	}
	t.Errorf("the row %q does not hang on the consumer's switches: %v", row, facts.Members)
}
