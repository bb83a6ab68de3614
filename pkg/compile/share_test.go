package compile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/compile"
	"github.com/atoll-net/atoll/pkg/model"
)

// TestManyNumbersTakeNothingFromOtherTenants: a tenant gives the name of a rule to any pod thousands of numbers. The pods of others have what the rule says all the same,
// and the tenant's own pods have only the numbers that others give, too. The control is a tenant with few.
func TestManyNumbersTakeNothingFromOtherTenants(t *testing.T) {
	t.Parallel()
	for _, verdict := range []model.Verdict{model.Allow, model.Deny} {
		for _, remote := range []bool{false, true} {
			// The other two tenants' numbers are two, of which the tenant gives one, too.
			for many, counts := range map[int]bool{20: true, maxNamed - 1: true, maxNamed: false, 20_000: false} {
				p := clusterNaming(model.PolicyEgress, verdict)
				in := giving(p, 0, 0)
				in.Remote = [2]bool{remote, remote}
				given := []compile.Given{
					{By: "tenant big", Ports: numbersOf("x", many)},
					{By: "tenant good", Ports: []model.PodPort{{Name: "x", Protocol: model.TCP, Port: 80}}},
					{By: "tenant same", Ports: []model.PodPort{{Name: "x", Protocol: model.TCP, Port: 1000}}},
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
				if closed := slices.Equal(tenants, []string{"tenant big"}); closed != (!counts && verdict == model.Deny) {
					t.Errorf("%s: all ports are denied of the pods of %q", what, tenants)
				}
				if len(matches) > 2*maxNamed {
					t.Errorf("%s: %d ACLs", what, len(matches))
				}
			}
		}
	}
}

// TestManyTenantsShareTheBound: who gives least comes first, and of the others some have nothing. No rule costs more than the bound. A rule that would have to deny
// all ports of more tenants than that denies its peers, whatever the pod.
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
			g := compile.Given{By: fmt.Sprint("tenant ", i)}
			for k := range c.numbers {
				g.Ports = append(g.Ports, model.PodPort{Name: "x", Protocol: model.TCP, Port: uint16((i*c.numbers + k) % 65_536)})
			}
			given = append(given, g)
		}
		given = append(given, compile.Given{By: "tenant few", Ports: []model.PodPort{{Name: "x", Protocol: model.UDP, Port: 7}}})
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

func matchesOf(p model.Policy, in compile.Around) (out []string) {
	for _, acl := range acls(p, in) {
		out = append(out, acl.Match)
	}
	return out
}

// sharesIn are the tenants of which groups are, sorted.
func sharesIn(groups map[compile.Group]compile.Members) (out []string) {
	for _, members := range groups {
		if members.Share != "" {
			out = append(out, members.Share)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
