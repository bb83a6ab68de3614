package compatible

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// takes has a Network name the ranges in which its pods dial Services of others: "provider range".
func takes(m *model.Network, named ...string) *model.Network {
	if m.UsesServiceCIDRs == nil {
		m.UsesServiceCIDRs = map[string][]netip.Prefix{}
	}
	for _, text := range named {
		provider, r, _ := strings.Cut(text, " ")
		m.UsesServiceCIDRs[provider] = append(m.UsesServiceCIDRs[provider], prefixes(r)...)
	}
	return m
}

// ranged are who dials whose Services by addresses of their own ranges, "consumer>provider", among some Networks.
func ranged(n *Networks, all []*model.Network) string {
	var out []string
	for _, m := range all {
		for _, provider := range n.Ranged(m.Name) {
			if !n.DialsServices(m.Name, provider) {
				out = append(out, "and that is not so of each")
			}
			out = append(out, m.Name+">"+provider)
		}
	}
	return strings.Join(out, " ")
}

func TestWhoseServicesAreDialledByTheirOwnAddresses(t *testing.T) {
	t.Parallel()
	const only = "Services are dialled by their ClusterIPs, and not by addresses of the Network's own ranges: "
	const notNamed = "it is by face: 203.0.113.0/24 of Network \"a\" lies in none of the ranges that Network \"b\", which is another " +
		"tenant's, lists for it in usesServiceCIDRs"
	flat := func(m *model.Network) *model.Network {
		m.Type = model.Flat
		return m
	}
	thief := func(services ...string) *model.Network { return plain("x/thief", "v", "", "10.66.0.0/16", services...) }
	victim := func(named ...string) *model.Network { return takes(plain("t/v", "", "thief", "10.2.0.0/16"), named...) }
	for _, test := range []struct {
		name     string
		networks []*model.Network
		// want are who dials whose, and says what the last Network hears.
		want, says string
	}{
		{
			"of one tenant",
			[]*model.Network{plain("t/a", "b", "", "10.1.0.0/16", "10.8.0.0/24"), plain("t/b", "", "", "10.2.0.0/16")},
			"b>a",
			"uses a ByFace Active services",
		},
		{
			"of another tenant, who is used",
			[]*model.Network{thief("203.0.113.0/24"), victim()},
			"", "uses thief ByFace Active ServiceCIDRsOffered: " + only +
				"Network \"thief\" is another tenant's, has 203.0.113.0/24, and this one does not list it in its usesServiceCIDRs",
		},
		{
			"which its owner hears",
			[]*model.Network{victim(), thief("203.0.113.0/24")},
			"", "serves v ByFace Active ServiceCIDRsNotUsed: " + only +
				"Network \"v\" is another tenant's, and does not list this one in its usesServiceCIDRs",
		},
		{
			"of another tenant, in a range that is named",
			[]*model.Network{thief("203.0.113.0/24"), victim("thief 203.0.113.0/24")},
			"v>thief",
			"uses thief ByFace Active services",
		},
		{
			"in a part of one",
			[]*model.Network{thief("203.0.113.0/24"), victim("thief 203.0.0.0/16")},
			"v>thief",
			"uses thief ByFace Active services",
		},
		{
			"who names it need not use it besides",
			[]*model.Network{thief("203.0.113.0/24"), takes(plain("t/v", "", "", "10.2.0.0/16"), "thief 203.0.113.0/24")},
			"v>thief",
			"uses thief ByFace Active services",
		},
		{
			"in more than is named",
			[]*model.Network{thief("203.0.112.0/23"), victim("thief 203.0.113.0/24")},
			"", "uses thief ByFace Active ServiceCIDRsNotUsed: " + only +
				"203.0.112.0/23 of Network \"thief\" lies in none of the ranges that Network \"v\" lists for it in usesServiceCIDRs",
		},
		{
			"in one more than is named",
			[]*model.Network{thief("203.0.113.0/24", "fd00:8::/64"), victim("thief 203.0.113.0/24")},
			"", "uses thief ByFace Active ServiceCIDRsNotUsed: " + only +
				"fd00:8::/64 of Network \"thief\" lies in none of the ranges that Network \"v\" lists for it in usesServiceCIDRs",
		},
		{
			"in a range that is named for another",
			[]*model.Network{thief("203.0.113.0/24"), victim("a 203.0.113.0/24")},
			"", "uses a ByFace Waiting NotOffered: Network \"a\" does not exist, or is not compatible with this one: its owner says so in its " +
				"compatibleWith, uses thief ByFace Active ServiceCIDRsOffered: " +
				only + "Network \"thief\" is another tenant's, has 203.0.113.0/24, and this one does not list it in its usesServiceCIDRs",
		},
		{
			"own addresses are not these",
			[]*model.Network{addressed("x/thief", "v", "", "10.66.0.0/16", "203.0.113.0/24"), addressed("t/v", "", "thief", "10.2.0.0/16")},
			"", "uses thief ByFace Active addresses ServiceCIDRsOffered: " + only +
				"Network \"thief\" is another tenant's, has 203.0.113.0/24, and this one does not list it in its usesServiceCIDRs",
		},
		{
			"and a conflict of addresses is worse than that",
			[]*model.Network{addressed("x/thief", "v", "", "10.2.7.0/24", "203.0.113.0/24"), addressed("t/v", "", "thief", "10.2.0.0/16")},
			"",
			"uses thief ByFace Active AddressConflict: pods are dialled by the addresses that Kubernetes knows them by, and not by their own: " +
				"10.2.7.0/24 of Network \"thief\" overlaps 10.2.0.0/16 of Network \"v\"",
		},
		{
			"the cluster's own, though it is named",
			[]*model.Network{thief("10.96.8.0/24"), victim("thief 10.96.8.0/24")},
			"", "uses thief ByFace Active AddressConflict: " + only +
				"10.96.8.0/24 of Network \"thief\" overlaps 10.96.0.0/16, which is the cluster's own",
		},
		{
			"a flat Network's, though it is named",
			[]*model.Network{flat(plain("/z", "", "", "10.128.0.0/16")), thief("10.128.7.0/24"), victim("thief 10.128.7.0/24")},
			"", "uses thief ByFace Active AddressConflict: " + only + "10.128.7.0/24 of Network \"thief\" overlaps 10.128.0.0/16 of a flat Network",
		},
		{
			"the consumer's subnet, though it is named",
			[]*model.Network{victim("thief 10.2.7.0/24"), thief("10.2.7.0/24")},
			"", "serves v ByFace Active AddressConflict: " + only + "10.2.7.0/24 of Network \"thief\" overlaps 10.2.0.0/16 of Network \"v\"",
		},
		{
			"the consumer's subnet, of one tenant",
			[]*model.Network{plain("t/a", "b", "", "", "10.7.0.0/16"), plain("t/b", "", "", "10.7.1.0/24")},
			"", "uses a ByFace Active AddressConflict: " + only + "10.7.0.0/16 of Network \"a\" overlaps 10.7.1.0/24 of Network \"b\"",
		},
		{
			"the default subnet",
			[]*model.Network{plain("t/a", "b", "", "10.1.0.0/16", "10.244.9.0/24"), plain("t/b", "", "", "")},
			"", "uses a ByFace Active AddressConflict: " + only + "10.244.9.0/24 of Network \"a\" overlaps 10.244.0.0/16 of Network \"b\"",
		},
		{
			"of two providers the older",
			[]*model.Network{
				plain("t/a", "c", "", "", "10.7.0.0/16"), plain("t/b", "c", "", "", "10.7.1.0/24"), plain("t/c", "", "", "10.3.0.0/16"),
			},
			"c>a", "uses a ByFace Active services, uses b ByFace Active AddressConflict: " + only +
				"10.7.1.0/24 of Network \"b\" overlaps 10.7.0.0/16 of Network \"a\", which had it first",
		},
		{
			"but if the younger had it first",
			[]*model.Network{
				gotAt(plain("t/b", "c", "", "", "10.7.1.0/24"), 200), plain("t/c", "", "",
					"10.3.0.0/16"), gotAt(plain("t/a", "c", "", "", "10.7.0.0/16"), 300),
			},
			"c>b", "serves c ByFace Active AddressConflict: " + only +
				"10.7.0.0/16 of Network \"a\" overlaps what Network \"c\" reaches already in another Network",
		},
		{
			"an older Network that got it a moment ago, of which its status does not say yet",
			[]*model.Network{gotAt(plain("t/b", "c", "", "", "10.7.1.0/24"), 200), plain("t/c", "", "", "10.3.0.0/16"), func() *model.Network {
				m := gotAt(plain("t/a", "c", "", ""), 1)
				m.ServiceCIDRs = prefixes("10.7.0.0/16")
				return m
			}()},
			"c>b", "serves c ByFace Active AddressConflict: " + only +
				"10.7.0.0/16 of Network \"a\" overlaps what Network \"c\" reaches already in another Network",
		},
		{
			"pods' own addresses, which are older",
			[]*model.Network{
				addressed("t/a", "c", "", "10.7.0.0/16"), plain("t/b", "c", "", "10.1.0.0/16", "10.7.1.0/24"), plain("t/c", "", "", "10.3.0.0/16"),
			},
			"", "uses a ByFace Active addresses, uses b ByFace Active AddressConflict: " + only +
				"10.7.1.0/24 of Network \"b\" overlaps 10.7.0.0/16 of Network \"a\", which had it first",
		},
		{
			"of one that it is joined to, and serves",
			[]*model.Network{
				plain("t/a", "b", "", "10.1.0.0/16", "10.7.0.0/24"), routed("t/b", "c", "", "10.2.0.0/16"), gotAt(plain("t/c", "", "", "10.7.0.0/16"),
					1), plain("/d", "", "", ""),
			},
			"", "",
		},
		{
			"joined, they are known anyhow",
			[]*model.Network{routed("t/a", "b", "", "10.1.0.0/16", "10.8.0.0/24"), routed("t/b", "a", "", "10.2.0.0/16")},
			"b>a", "serves a Routed Active addresses, uses a Routed Active addresses services",
		},
		{
			"joined to another tenant's, in a range that is named",
			[]*model.Network{
				routed("x/a", "b", "b", "10.1.0.0/16", "203.0.113.0/24"), takes(routed("t/b", "a", "", "10.2.0.0/16"), "a 203.0.113.0/24"),
			},
			"b>a", "serves a Routed Active addresses, uses a Routed Active addresses services",
		},
		{
			"joined to another tenant's, which has a range that nobody named",
			[]*model.Network{routed("x/a", "b", "b", "10.1.0.0/16", "203.0.113.0/24"), routed("t/b", "a", "a", "10.2.0.0/16")},
			"", "serves a ByFace Active NotJoined: " + notNamed + ", uses a ByFace Active NotJoined: " + notNamed + "; " +
				only + "Network \"a\" is another tenant's, has 203.0.113.0/24, and this one does not list it in its usesServiceCIDRs",
		},
		{
			"joined to another tenant's, which has the cluster's own, though it is named",
			[]*model.Network{routed("x/a", "b", "b", "10.1.0.0/16", "10.96.8.0/24"), takes(routed("t/b", "a", "", "10.2.0.0/16"), "a 10.96.0.0/16")},
			"", "serves a Routed Refused AddressConflict: 10.96.8.0/24 of Network \"a\" overlaps 10.96.0.0/16, which is the cluster's own, and " +
				"mode Routed would lead there what pods of another tenant's Network send, uses a Routed Refused AddressConflict: 10.96.8.0/24 of " +
				"Network \"a\" overlaps 10.96.0.0/16, which is the cluster's own, and mode Routed would lead there what pods of " +
				"another tenant's Network send",
		},
		{
			"joined to one that took what another had",
			[]*model.Network{
				gotAt(routed("t/a", "c", "", "10.66.0.0/16"), 300), gotAt(addressed("t/b", "c", "", "10.66.7.0/24"), 200), plain("t/c", "", "",
					"10.3.0.0/16"),
			},
			"",
			"uses a Routed Refused AddressConflict: 10.66.0.0/16 of Network \"a\" overlaps 10.66.7.0/24 of Network \"b\", which Network \"c\" " +
				"reaches, too, uses b ByFace Active addresses",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			settings := testSettings()
			settings.Taken = prefixes("10.96.0.0/16")
			n := New(settings)
			for _, m := range test.networks {
				n.Set(m.Name, m)
			}
			if got := ranged(n, test.networks); got != test.want {
				t.Errorf("dialled are %q, want %q", got, test.want)
			}
			if got := statusesOf(n, test.networks[len(test.networks)-1].Name); got != test.says {
				t.Errorf("says %q\nwant %q", got, test.says)
			}
		})
	}
}

// What a hostile Network says of itself, when it got its ranges last, takes from nobody what they dial, and gets from another
// tenant's no address that they have not named. Whatever the worlds, its own age, and what it offers and asks for.
func TestAHostileNetworkTakesNothing(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		settings := testSettings()
		settings.Taken = prefixes("10.96.0.0/16", "172.18.0.0/16")
		ranges := rapid.SampledFrom([]string{
			"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.1.2.0/24", "203.0.113.0/24", "203.0.112.0/22", "172.18.0.0/24", "10.96.8.0/24",
			"10.128.7.0/24",
		})
		modes := rapid.SampledFrom([]model.CompatibilityMode{model.ByFace, model.ByFace, model.Routed})
		draw := func(name string, others []string) *model.Network {
			m := network(name, "", strings.Join(others, " "))
			for _, other := range others {
				if rapid.IntRange(0, 2).Draw(t, name+" and "+other) > 0 {
					m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{
						Network: other, Mode: modes.Draw(t, "mode"), Addresses: rapid.Bool().Draw(t, "addresses"),
					})
				}
				if rapid.Bool().Draw(t, "wants "+other) {
					m.UsesAddressesOf = append(m.UsesAddressesOf, other)
				}
				if rapid.Bool().Draw(t, "names "+other) {
					takes(m, other+" "+ranges.Draw(t, "named"))
				}
			}
			m.Created = time.Unix(int64(rapid.IntRange(0, 9).Draw(t, "created")), 0)
			m.Subnets = []model.Subnet{{Name: "a", CIDRs: prefixes(ranges.Draw(t, "subnet"))}}
			if rapid.Bool().Draw(t, "Services") {
				m.ServiceCIDRs = prefixes(ranges.Draw(t, "services"))
			}
			return gotAt(m, int64(rapid.IntRange(0, 9).Draw(t, "since")))
		}
		n := New(settings)
		flat := network("/flat", "", "")
		flat.Type, flat.Subnets = model.Flat, []model.Subnet{{Name: "a", CIDRs: prefixes("10.128.0.0/16")}}
		n.Set("flat", flat)
		known := map[string]*model.Network{}
		for _, name := range names {
			known[name] = draw(rapid.SampledFrom([]string{"t/", "u/"}).Draw(t, "tenant")+name,
				append(slices.DeleteFunc(slices.Clone(names), func(o string) bool { return o == name }), "thief"))
			n.Set(name, known[name])
		}
		dials := func(name string) string {
			others := func(some []string) []string {
				return slices.DeleteFunc(some, func(o string) bool { return o == "thief" })
			}
			return fmt.Sprint(others(n.Providers(name)), others(n.Addressed(name)), others(n.Ranged(name)), others(n.Joined(name)))
		}
		before := map[string]string{}
		for _, name := range names {
			before[name] = dials(name)
		}
		thief := gotAt(draw("x/thief", names), 10)
		n.Set("thief", thief)
		for _, name := range names {
			if now := dials(name); now != before[name] {
				t.Fatalf("%s reaches and dials %s, and %s before the thief came: %+v", name, now, before[name], thief)
			}
			everybodys := append(prefixes("10.128.0.0/16"), settings.Taken...)
			agreed := append(prefixes("10.0.0.0/8", "172.16.0.0/12"), known[name].UsesServiceCIDRs["thief"]...)
			if n.JoinedTo(name, "thief") || slices.Contains(n.Addressed(name), "thief") {
				for _, r := range n.subnets("thief") {
					if !within(r, agreed) {
						t.Fatalf("%s dials pods of the thief in %s, and names %v", name, r, known[name].UsesServiceCIDRs)
					}
				}
			}
			if n.JoinedTo(name, "thief") {
				for _, r := range n.ranges["thief"] {
					if with, overlaps := overlapping(r, everybodys); overlaps {
						t.Fatalf("%s is joined to the thief, which has %s of %s", name, r, with)
					}
				}
			}
			if !n.DialsServices(name, "thief") {
				continue
			}
			r := thief.ServiceCIDRs[0]
			if !slices.ContainsFunc(known[name].UsesServiceCIDRs["thief"],
				func(named netip.Prefix) bool { return named.Bits() <= r.Bits() && named.Overlaps(r) }) {
				t.Fatalf("%s dials the thief's Services in %s, and names %v", name, r, known[name].UsesServiceCIDRs)
			}
			if with, overlaps := overlapping(r, append(everybodys, n.ranges[name]...)); overlaps {
				t.Fatalf("%s dials the thief's Services in %s, which overlaps %s", name, r, with)
			}
			for _, other := range names {
				var theirs []netip.Prefix
				if slices.Contains(n.Addressed(name), other) || n.JoinedTo(name, other) {
					theirs = slices.Clone(n.subnets(other))
				}
				if n.DialsServices(name, other) || n.JoinedTo(name, other) {
					theirs = append(theirs, known[other].ServiceCIDRs...)
				}
				if with, overlaps := overlapping(r, theirs); other != name && overlaps {
					t.Fatalf("%s dials the thief's Services in %s, and %s of Network %s", name, r, with, other)
				}
			}
		}
	})
}
