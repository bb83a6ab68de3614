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

// addressed is a Network as routed makes it, that offers its pods' own addresses by face, and wants those of some.
func addressed(name, compatibleWith, wants, subnet string, services ...string) *model.Network {
	m := byFace(routed(name, compatibleWith, "", subnet, services...))
	for i := range m.CompatibleWith {
		m.CompatibleWith[i].Addresses = true
	}
	m.UsesAddressesOf = strings.Fields(wants)
	return m
}

// gotAt is a Network that got all its ranges at a time, in seconds.
func gotAt(m *model.Network, at int64) *model.Network {
	m.Since = map[netip.Prefix]time.Time{}
	for _, r := range testSettings().ranges(m) {
		m.Since[r] = time.Unix(at, 0)
	}
	return m
}

// plain is one that says nothing of addresses.
func plain(name, compatibleWith, uses, subnet string, services ...string) *model.Network {
	return byFace(routed(name, compatibleWith, uses, subnet, services...))
}

// dialled are who dials whose pods by their own addresses, "consumer>provider", among some Networks.
func dialled(n *Networks, all []*model.Network) string {
	var out []string
	for _, m := range all {
		for _, provider := range n.Addressed(m.Name) {
			out = append(out, m.Name+">"+provider)
		}
	}
	return strings.Join(out, " ")
}

func TestWhoseAddressesAreDialled(t *testing.T) {
	t.Parallel()
	const (
		faces = "pods are dialled by the addresses that Kubernetes knows them by, and not by their own: "
		world = "8.8.8.0/24 of Network \"a\" is not for private use, and lies in none of the ranges that Network \"b\" " +
			"lists for it in usesServiceCIDRs"
	)
	flat := func(m *model.Network) *model.Network {
		m.Type = model.Flat
		return m
	}
	for _, test := range []struct {
		name     string
		networks []*model.Network
		// want are who dials whose, and says what the last Network hears.
		want, says string
	}{
		{
			"of one tenant",
			[]*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "", "10.2.0.0/16")},
			"b>a",
			"uses a ByFace Active addresses",
		},
		{
			"not if it is not offered",
			[]*model.Network{plain("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "", "10.2.0.0/16")},
			"", "uses a ByFace Active",
		},
		{
			"nor the other way",
			[]*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "a", "", "10.2.0.0/16")},
			"b>a",
			"serves a ByFace Active, uses a ByFace Active addresses",
		},
		{
			"mutual",
			[]*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), addressed("t/b", "a", "", "10.2.0.0/16")},
			"a>b b>a",
			"serves a ByFace Active addresses, uses a ByFace Active addresses",
		},
		{
			"of another tenant who wants it",
			[]*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), addressed("u/b", "", "a", "10.2.0.0/16")},
			"b>a", "uses a ByFace Active addresses",
		},
		{
			"who only uses it",
			[]*model.Network{plain("u/b", "", "a", "10.2.0.0/16"), addressed("t/a", "b", "", "10.1.0.0/16")},
			"",
			"serves b ByFace Active AddressesNotUsed: " + faces +
				"Network \"b\" is another tenant's, and does not list this one in its usesAddressesOf",
		},
		{
			"who wants what is not offered",
			[]*model.Network{plain("t/a", "b", "", "10.1.0.0/16"), addressed("u/b", "", "a", "10.2.0.0/16")},
			"",
			"uses a ByFace Active AddressesNotOffered: " + faces + "Network \"a\" does not offer them in its compatibleWith",
		},
		{
			"who is not offered anything",
			[]*model.Network{plain("t/a", "", "", "10.1.0.0/16"), addressed("u/b", "", "a", "10.2.0.0/16")},
			"",
			"uses a ByFace Waiting NotOffered: Network \"a\" does not exist, or is not compatible with this one: its owner " +
				"says so in its compatibleWith",
		},
		{
			"of all who want it",
			[]*model.Network{
				addressed("t/a", "*", "", "10.1.0.0/16"), addressed("u/b", "", "a", "10.2.0.0/16"), plain("v/c", "", "", "10.3.0.0/16"),
			},
			"b>a", "",
		},
		{"one of several entries says so", []*model.Network{
			func() *model.Network {
				m := plain("t/a", "b @t", "", "10.1.0.0/16")
				m.CompatibleWith[1].Addresses = true
				return m
			}(), plain("t/b", "", "", "10.2.0.0/16"),
		}, "b>a", "uses a ByFace Active addresses"},
		{
			"the consumer's subnet",
			[]*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "", "10.1.9.0/24")},
			"",
			"uses a ByFace Active AddressConflict: " + faces + "10.1.0.0/16 of Network \"a\" overlaps 10.1.9.0/24 of Network \"b\"",
		},
		{
			"the consumer's Services",
			[]*model.Network{plain("t/b", "", "", "10.2.0.0/16", "10.1.9.0/24"), addressed("t/a", "b", "", "10.1.0.0/16")},
			"",
			"serves b ByFace Active AddressConflict: " + faces + "10.1.0.0/16 of Network \"a\" overlaps 10.1.9.0/24 of Network \"b\"",
		},
		{
			"the default subnet, which both have",
			[]*model.Network{addressed("t/a", "b", "", ""), plain("t/b", "", "", "")},
			"",
			"uses a ByFace Active AddressConflict: " + faces + "10.244.0.0/16 of Network \"a\" overlaps 10.244.0.0/16 of Network \"b\"",
		},
		{
			"the cluster's Services",
			[]*model.Network{addressed("t/a", "b", "", "10.96.8.0/24"), plain("t/b", "", "", "10.2.0.0/16")},
			"",
			"uses a ByFace Active AddressConflict: " + faces + "10.96.8.0/24 of Network \"a\" overlaps 10.96.0.0/16, which is the cluster's own",
		},
		{
			"a flat Network",
			[]*model.Network{
				flat(plain("/z", "", "", "10.1.0.0/24")), addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "", "10.2.0.0/16"),
			},
			"",
			"uses a ByFace Active AddressConflict: " + faces + "10.1.0.0/16 of Network \"a\" overlaps 10.1.0.0/24 of a flat Network",
		},
		{
			"another one's Services that it reaches",
			[]*model.Network{
				gotAt(plain("t/c", "b", "", "10.3.0.0/16", "10.1.9.0/24"), 1), addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "",
					"10.2.0.0/16"),
			},
			"", "uses a ByFace Active AddressConflict: " + faces +
				"10.1.0.0/16 of Network \"a\" overlaps 10.1.9.0/24 of Network \"c\", which had it first, uses c ByFace Active services",
		},
		{
			"one that it is joined to, and serves",
			[]*model.Network{
				addressed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "c", "", "10.2.0.0/16"), gotAt(plain("t/c", "", "", "10.1.9.0/24"), 1),
				plain("/d", "", "", ""),
			},
			"", "",
		},
		{
			"one that it would be joined to, and serves, which got the same later",
			[]*model.Network{
				addressed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "c", "", "10.2.0.0/16"), plain("t/c", "", "", "10.1.9.0/24"), plain("/d", "",
					"", ""),
			},
			"b>a", "",
		},
		{
			"of two the older",
			[]*model.Network{
				addressed("t/a", "c", "", "10.1.0.0/16"), addressed("t/b", "c", "", "10.1.9.0/24"), plain("t/c", "", "", "10.3.0.0/16"),
			},
			"c>a",
			"uses a ByFace Active addresses, uses b ByFace Active AddressConflict: " + faces +
				"10.1.9.0/24 of Network \"b\" overlaps 10.1.0.0/16 of Network \"a\", which had it first",
		},
		{
			"and the younger one's owner hears nothing of the other",
			[]*model.Network{
				addressed("t/a", "c", "", "10.1.0.0/16"), plain("t/c", "", "", "10.3.0.0/16"), addressed("t/b", "c", "", "10.1.9.0/24"),
			},
			"c>a",
			"serves c ByFace Active AddressConflict: " + faces +
				"10.1.9.0/24 of Network \"b\" overlaps what Network \"c\" reaches already in another Network",
		},
		{
			"two that nobody knows both of",
			[]*model.Network{addressed("t/a", "c", "", "10.1.0.0/16"), addressed("t/b", "d", "", "10.1.9.0/24"), plain("t/c", "", "",
				"10.3.0.0/16"), plain("t/d", "", "", "10.3.0.0/16")},
			"c>a d>b", "uses b ByFace Active addresses",
		},
		{
			"another tenant's that are somebody's in the world",
			[]*model.Network{addressed("x/a", "b", "", "8.8.8.0/24"), addressed("t/b", "", "a", "10.2.0.0/16")},
			"", "uses a ByFace Active AddressesNotUsed: " + faces + world,
		},
		{
			"which its owner hears",
			[]*model.Network{addressed("t/b", "", "a", "10.2.0.0/16"), addressed("x/a", "b", "", "8.8.8.0/24")},
			"", "serves b ByFace Active AddressesNotUsed: " + faces + world,
		},
		{
			"a part of which is",
			[]*model.Network{addressed("x/a", "b", "", "8.0.0.0/6"), addressed("t/b", "", "a", "172.20.0.0/16")},
			"", "uses a ByFace Active AddressesNotUsed: " + faces + strings.ReplaceAll(world, "8.8.8.0/24", "8.0.0.0/6"),
		},
		{
			"which are named",
			[]*model.Network{addressed("x/a", "b", "", "8.8.8.0/24"), takes(addressed("t/b", "", "a", "10.2.0.0/16"), "a 8.8.0.0/16")},
			"b>a", "uses a ByFace Active addresses",
		},
		{
			"of one tenant, somebody's in the world",
			[]*model.Network{addressed("t/a", "b", "", "8.8.8.0/24"), plain("t/b", "", "", "10.2.0.0/16")},
			"b>a", "uses a ByFace Active addresses",
		},
		{
			"joined, they are known anyhow",
			[]*model.Network{routed("t/a", "b", "b", "10.1.0.0/16"), routed("u/b", "a", "a", "10.2.0.0/16")},
			"",
			"serves a Routed Active addresses, uses a Routed Active addresses",
		},
		{
			"mode Routed that only one asks for, and addresses as well",
			[]*model.Network{addressed("u/b", "", "a",
				"10.2.0.0/16"), func() *model.Network {
				m := addressed("t/a", "b", "", "10.1.0.0/16")
				m.CompatibleWith[0].Mode = model.Routed
				return m
			}()},
			"b>a",
			"serves b ByFace Active addresses NotJoined: it is by face: Network \"b\" is another tenant's, and does not ask for mode Routed of " +
				"this one in its compatibleWith",
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
			if got := dialled(n, test.networks); got != test.want {
				t.Errorf("dialled are %q, want %q", got, test.want)
			}
			if got := statusesOf(n, test.networks[len(test.networks)-1].Name); got != test.says {
				t.Errorf("says %q\nwant %q", got, test.says)
			}
		})
	}
}

// A subnet that is not listed any more, and has pods still, keeps a provider's addresses out until they have gone.
func TestAddressesThatAreKept(t *testing.T) {
	t.Parallel()
	n := New(testSettings())
	all := []*model.Network{addressed("t/a", "b", "", "10.1.0.0/16"), plain("t/b", "", "", "10.2.0.0/16"), plain("t/c", "", "", "10.3.0.0/16")}
	all[2].Type = model.Flat
	for _, m := range all {
		n.Set(m.Name, m)
	}
	for _, step := range []struct {
		name, keeps, told, want string
	}{
		{"b", "10.1.3.0/24", "[a b]", ""},
		{"b", "10.1.3.0/24", "[]", ""},
		{"b", "", "[a b]", "b>a"},
		{"c", "10.1.4.0/24", "[a b]", ""},
		{"c", "", "[a b]", "b>a"},
		{"a", "10.2.0.0/24", "[]", "b>a"},
	} {
		told := n.Keep(step.name, prefixes(strings.Fields(step.keeps)...))
		if got := dialled(n, all); fmt.Sprint(told) != step.told || got != step.want {
			t.Errorf("%s keeps %q: dialled are %q, want %q; told are %v, want %s", step.name, step.keeps, got, step.want, told, step.told)
		}
	}
}

// Whatever came before, whose addresses are dialled is what it is from the beginning, and whoever is concerned is told.
func TestAddressesDependOnTheStateAlone(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	settings := testSettings()
	settings.Taken = prefixes("10.4.0.0/16")
	rapid.Check(t, func(t *rapid.T) {
		n, now, keeps := New(settings), map[string]*model.Network{}, map[string][]netip.Prefix{}
		subnet := rapid.SampledFrom([]string{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.7.0/24", "10.1.2.0/24"})
		draw := func(name string) *model.Network {
			m := network(rapid.SampledFrom([]string{"t/", "t/", "u/"}).Draw(t, "tenant")+name, "", "a b c")
			for _, other := range names {
				if other == name {
					continue
				}
				p := model.CompatiblePeer{Network: other, Mode: model.ByFace, Addresses: true}
				switch rapid.IntRange(0, 3).Draw(t, name+other) {
				case 0:
					p.Mode = model.Routed
				case 1:
					p.Addresses = false
				case 2:
					continue
				}
				m.CompatibleWith = append(m.CompatibleWith, p)
				if rapid.Bool().Draw(t, "wants "+other) {
					m.UsesAddressesOf = append(m.UsesAddressesOf, other)
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "flat") == 0 {
				m.Type = model.Flat
			}
			m.Created = time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0)
			m.Subnets = []model.Subnet{{Name: "a", CIDRs: prefixes(subnet.Draw(t, "subnet"))}}
			if rapid.IntRange(0, 3).Draw(t, "Services") == 0 {
				m.ServiceCIDRs = prefixes("10.3.9.0/24")
			}
			if rapid.Bool().Draw(t, "later") {
				gotAt(m, int64(rapid.IntRange(0, 4).Draw(t, "since")))
			}
			if rapid.Bool().Draw(t, "names ranges") {
				m.UsesServiceCIDRs = map[string][]netip.Prefix{rapid.SampledFrom(names).Draw(t, "ranges of"): prefixes("10.3.0.0/16")}
			}
			return m
		}
		says := func(n *Networks, name string) string {
			statuses, asked := n.Statuses(name)
			return fmt.Sprint(statuses, asked, n.Providers(name), n.Consumers(name), n.Addressed(name), n.Ranged(name))
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := map[string]string{}
			for _, name := range names {
				before[name] = says(n, name)
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			var told []string
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				told = n.Set(name, nil)
				delete(now, name)
			case 1:
				keeps[name] = nil
				if rapid.Bool().Draw(t, "keeps") {
					keeps[name] = prefixes(subnet.Draw(t, "kept"))
				}
				told = n.Keep(name, keeps[name])
			default:
				now[name] = draw(name)
				told = n.Set(name, now[name])
			}
			fresh := New(settings)
			for _, name := range names {
				fresh.Keep(name, keeps[name])
				if now[name] != nil {
					fresh.Set(name, now[name])
				}
			}
			for _, name := range names {
				got := says(n, name)
				if want := says(fresh, name); got != want {
					t.Fatalf("%s is\n%s, and from the beginning\n%s", name, got, want)
				}
				if got != before[name] && !slices.Contains(told, name) {
					t.Fatalf("%s is not told that it is\n%s after\n%s", name, got, before[name])
				}
			}
		}
	})
}

// statusesOf are a Network's relations with others, in words.
func statusesOf(n *Networks, name string) string {
	statuses, _ := n.Statuses(name)
	var says []string
	for _, s := range statuses {
		text := fmt.Sprintf("%s %s %s %s", map[bool]string{true: "uses", false: "serves"}[s.Uses], s.Network, s.Mode, s.State)
		if s.Addresses {
			text += " addresses"
		}
		if s.ServiceAddresses {
			text += " services"
		}
		if s.Problem.Reason != "" {
			message, _, _ := strings.Cut(s.Problem.Message, ": give")
			text += " " + s.Problem.Reason + ": " + message
		}
		says = append(says, text)
	}
	return strings.Join(says, ", ")
}
