package compile_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
)

// TestManyNumbersTakeNothingFromOtherTenants: a tenant gives the name of a rule to any pod thousands of numbers. The pods of
// others have what the rule says all the same, and the tenant's own pods have only the numbers that others give, too. The control
// is a tenant with few.
func TestManyNumbersTakeNothingFromOtherTenants(t *testing.T) {
	t.Parallel()
	for _, verdict := range []model.Verdict{model.Allow, model.Deny, model.Pass} {
		for _, remote := range []bool{false, true} {
			// The other two tenants' numbers are two, of which the tenant gives one, too.
			for many, counts := range map[int]bool{20: true, maxNamed - 1: true, maxNamed: false, 20_000: false} {
				p := clusterNaming(model.PolicyEgress, verdict)
				in := giving(p, 0, 0)
				in.Remote = [2]bool{remote, remote}
				given := []compile.Given{
					{Tenant: "tenant big", Ports: numbersOf("x", many)},
					{Tenant: "tenant good", Ports: []model.PodPort{{Name: "x", Protocol: model.TCP, Port: 80}}},
					{Tenant: "tenant same", Ports: []model.PodPort{{Name: "x", Protocol: model.TCP, Port: 1000}}},
				}
				for ask := range compile.Names(p) {
					if remote {
						in.RemoteNamed[ask] = given
					} else {
						in.Named[ask] = given
					}
				}
				what := fmt.Sprintf("%s, of other Networks %v, %d numbers", verdict, remote, many)
				matches := matchesOf(p, in)
				for _, number := range []string{"80", "1000"} {
					if !slices.ContainsFunc(matches, func(m string) bool { return strings.Contains(m, "tcp.dst == "+number+" ") }) {
						t.Errorf("%s: the rule says nothing about port %s of other tenants", what, number)
					}
				}
				if said := compile.Beyond(p, in); (len(said) == 0) != counts {
					t.Errorf("%s: it says %v", what, said)
				}
				tenants := sharesIn(compile.Groups(p, in))
				if closed := slices.Equal(tenants, []string{"tenant big"}); closed != (!counts && verdict != model.Allow) {
					t.Errorf("%s: all ports are denied of the pods of %q", what, tenants)
				}
				if len(matches) > 2*maxNamed {
					t.Errorf("%s: %d ACLs", what, len(matches))
				}
			}
		}
	}
}

// TestManyTenantsShareTheBound: who gives least comes first, and of the others some have nothing. No rule costs more than the
// bound. A rule that would have to deny all ports of more tenants than that denies its peers, whatever the pod.
func TestManyTenantsShareTheBound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tenants, numbers int
		whole            bool
	}{{30, 1000, false}, {2 * maxNamed, 10, true}} {
		tenants, whole := c.tenants, c.whole
		p := clusterNaming(model.PolicyEgress, model.Deny)
		in := giving(p, 0, 0)
		var given []compile.Given
		for i := range tenants {
			g := compile.Given{Tenant: fmt.Sprint("tenant ", i)}
			for k := range c.numbers {
				g.Ports = append(g.Ports, model.PodPort{Name: "x", Protocol: model.TCP, Port: uint16((i*c.numbers + k) % 65_536)})
			}
			given = append(given, g)
		}
		given = append(given, compile.Given{Tenant: "tenant few", Ports: []model.PodPort{{Name: "x", Protocol: model.UDP, Port: 7}}})
		for ask := range compile.Names(p) {
			in.Named[ask] = given
		}
		matches := matchesOf(p, in)
		few := slices.ContainsFunc(matches, func(m string) bool { return strings.Contains(m, "udp.dst == 7 ") })
		if few == whole || len(matches) > 2*(maxNamed+tenants) || whole && len(matches) != 2 {
			t.Errorf("%d tenants: %d ACLs; one is of who gives least: %v", tenants, len(matches), few)
		}
		if beyond := len(sharesIn(compile.Groups(p, in))); !whole && beyond != tenants-4 || whole && beyond != 0 {
			t.Errorf("%d tenants: of %d all ports are denied", tenants, beyond)
		}
	}
}

// TestNoPacketIsPassedAndDenied: of the ACLs of a rule that passes, those that drop are about the pods of tenants of which no
// other is. A rule that also passes by number, or where pods of the Network answer for the cluster's DNS, denies its peers. The
// control is the same rule with few numbers.
func TestNoPacketIsPassedAndDenied(t *testing.T) {
	t.Parallel()
	byNumber := model.PolicyPort{Protocol: model.TCP, First: 443, Last: 443}
	answers := []compile.Door{{Dial: netip.MustParseAddrPort("10.0.0.53:53"), Protocol: model.UDP}}
	for what, c := range map[string]struct {
		many  int
		ports []model.PolicyPort
		doors []compile.Door
		// passed and dropped count the ACLs.
		passed, dropped int
	}{
		"few numbers":            {many: 10, passed: 2 * 10},
		"few numbers and a port": {many: 10, ports: []model.PolicyPort{byNumber}, passed: 2 * 11},
		"too many":               {many: maxNamed + 1, passed: 2 * 2, dropped: 2},
		"too many of two names":  {many: maxNamed + 1, ports: []model.PolicyPort{{Protocol: model.TCP, Name: "y"}}, passed: 2 * 3, dropped: 2},
		"too many and a port":    {many: maxNamed + 1, ports: []model.PolicyPort{byNumber}, dropped: 2},
		"too many, a DNS outside": {
			many: maxNamed + 1, doors: []compile.Door{{Dial: netip.MustParseAddrPort("10.96.0.10:53"), Protocol: model.UDP}}, passed: 2 * 2,
			dropped: 2,
		},
		"too many, a DNS of pods": {many: maxNamed + 1, doors: answers, dropped: 2},
	} {
		p := clusterNaming(model.PolicyEgress, model.Pass)
		r := &p.Rules[model.PolicyEgress][0]
		r.Ports = append(r.Ports, c.ports...)
		in := giving(p, 0, 0)
		in.Doors = c.doors
		for ask := range compile.Names(p) {
			in.Named[ask] = []compile.Given{
				{Tenant: "tenant good", Ports: numbersOf(ask.Name, 1)}, {Tenant: "tenant same", Ports: numbersOf(ask.Name, 1)},
			}
			if big := (compile.Given{Tenant: "tenant big", Ports: numbersOf(ask.Name, c.many)}); ask.Name == "x" {
				in.Named[ask] = append(in.Named[ask], big)
			} else {
				in.Named[ask] = []compile.Given{{Tenant: "tenant big", Ports: numbersOf("y", 1)}, {Tenant: "tenant good", Ports: numbersOf("y", 1)}}
			}
		}
		var passed, dropped []string
		for _, acl := range acls(p, in) {
			if acl.Action == "pass" {
				passed = append(passed, acl.Match)
			} else {
				dropped = append(dropped, acl.Match)
			}
		}
		if len(passed) != c.passed || len(dropped) != c.dropped {
			t.Errorf("%s: %d ACLs pass and %d drop, want %d and %d", what, len(passed), len(dropped), c.passed, c.dropped)
		}
		if len(passed) == 0 || len(dropped) == 0 {
			continue
		}
		for g, members := range compile.Groups(p, in) {
			set := "$" + compile.GroupName(in.Layout, g) + "_"
			passes := slices.ContainsFunc(passed, func(m string) bool { return strings.Contains(m, set) })
			if drops := slices.ContainsFunc(dropped,
				func(m string) bool { return strings.Contains(m, set) }); passes && members.Share != "tenant good" && members.Share != "tenant same" ||
				drops && members.Share != "tenant big" {
				t.Errorf("%s: the group %s is passed (%v), or denied (%v)", what, g, passes, drops)
			}
		}
	}
}

func matchesOf(p model.Policy, in compile.Around) (out []string) {
	for _, acl := range acls(p, in) {
		out = append(out, acl.Match)
	}
	return out
}

// sharesIn are the tenants of whose pods there are groups whatever their ports, sorted.
func sharesIn(groups map[compile.Group]compile.Members) (out []string) {
	for words, members := range groups {
		if members.Share != "" && !strings.Contains(string(words), " port ") {
			out = append(out, members.Share)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
