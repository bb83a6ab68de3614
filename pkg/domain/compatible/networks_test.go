package compatible

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func testSettings() Settings {
	return Settings{Faces: prefixes("100.64.0.0/10", "fd64:a701::/64"), DefaultSubnet: netip.MustParsePrefix("10.244.0.0/16")}
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// network is one of type vpc: "tenant/name", whom it is compatible with ("@T" a tenant, "*" all), and whom it uses.
func network(name, compatibleWith, uses string) *model.Network {
	tenant, name, _ := strings.Cut(name, "/")
	m := &model.Network{Name: name, Tenant: tenant, Type: model.VPC, Uses: strings.Fields(uses)}
	for peer := range strings.FieldsSeq(compatibleWith) {
		switch {
		case peer == "*":
			m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{All: true})
		case peer[0] == '@':
			m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Tenant: peer[1:]})
		default:
			m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Network: peer})
		}
	}
	return m
}

func TestWhoReachesWhom(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		networks []*model.Network
		// want is "consumer>provider" of each.
		want string
	}{
		{"nobody by default", []*model.Network{network("t/a", "", ""), network("t/b", "", "")}, ""},
		{"one direction", []*model.Network{network("t/a", "b", ""), network("t/b", "", "")}, "b>a"},
		{"mutual", []*model.Network{network("t/a", "b", ""), network("t/b", "a", "")}, "a>b b>a"},
		{"not transitive", []*model.Network{network("t/a", "b", ""), network("t/b", "c", ""), network("t/c", "", "")}, "b>a c>b"},
		{"not itself", []*model.Network{network("t/a", "* a", "a")}, ""},
		{"another tenant's must want it", []*model.Network{network("t/a", "b", ""), network("u/b", "", "")}, ""},
		{"and be wanted", []*model.Network{network("t/a", "", ""), network("u/b", "", "a")}, ""},
		{"both want it", []*model.Network{network("t/a", "b", ""), network("u/b", "", "a")}, "b>a"},
		{"the cluster's own are one owner's", []*model.Network{network("/a", "b", ""), network("/b", "", "")}, "b>a"},
		{"and not everybody's", []*model.Network{network("/a", "*", ""), network("u/b", "", "")}, ""},
		{"all of the tenant", []*model.Network{network("t/a", "*", ""), network("t/b", "", ""), network("u/c", "", "")}, "b>a"},
		{"all who ask", []*model.Network{network("t/a", "*", ""), network("u/c", "", "a")}, "c>a"},
		{
			"another tenant as a whole",
			[]*model.Network{network("t/a", "@u", ""), network("u/b", "", "a"), network("u/c", "", ""), network("t/d", "", "")},
			"b>a",
		},
		{"the own tenant as a whole", []*model.Network{network("t/a", "@t", ""), network("t/b", "", ""), network("u/c", "", "")}, "b>a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := New(testSettings())
			for _, m := range test.networks {
				n.Set(m.Name, m)
			}
			if got := edges(n, test.networks); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func edges(n *Networks, all []*model.Network) string {
	var out []string
	for _, consumer := range all {
		for _, provider := range n.Providers(consumer.Name) {
			out = append(out, consumer.Name+">"+provider)
			if !n.Reaches(consumer.Name, provider) || !slices.Contains(n.Consumers(provider), consumer.Name) {
				out = append(out, "and its provider does not know")
			}
		}
	}
	return strings.Join(out, " ")
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	with := func(m *model.Network, subnet string, services ...string) *model.Network {
		if subnet != "" {
			m.Subnets = []model.Subnet{{Name: "a", CIDRs: prefixes(subnet)}}
		}
		m.ServiceCIDRs = prefixes(services...)
		return m
	}
	flat := func(m *model.Network) *model.Network {
		m.Type = model.Flat
		return m
	}
	for _, test := range []struct {
		name     string
		networks []*model.Network
		want     string
		// says is what the status of the Network called last says of the others.
		says string
	}{
		{
			"the same subnets",
			[]*model.Network{with(network("t/a", "b", ""), "10.0.0.0/24"), with(network("t/b", "", ""), "10.0.0.0/24")},
			"b>a",
			"uses a Active",
		},
		{
			"a consumer that has faces",
			[]*model.Network{network("t/a", "b", ""), with(network("t/b", "", ""), "100.100.0.0/16")},
			"",
			"uses a Refused AddressConflict: 100.100.0.0/16 of Network \"b\" overlaps 100.64.0.0/10",
		},
		{
			"a provider that has faces",
			[]*model.Network{with(network("t/a", "b", ""), "100.100.0.0/16"), network("t/b", "", "")},
			"",
			"uses a Refused AddressConflict: 100.100.0.0/16 of Network \"a\" overlaps 100.64.0.0/10",
		},
		{
			"a provider whose Services have faces",
			[]*model.Network{network("t/b", "", ""), with(network("t/a", "b", ""), "", "100.100.0.0/16")},
			"",
			"serves b Refused AddressConflict: 100.100.0.0/16 of Network \"a\" overlaps 100.64.0.0/10",
		},
		{
			"flat ones are named",
			[]*model.Network{flat(network("t/b", "", "")), network("t/a", "b", "")},
			"",
			"serves b Refused FlatNetwork: Network \"b\" is flat",
		},
		{"flat ones are not meant by all", []*model.Network{flat(network("t/b", "", "")), network("t/a", "*", "")}, "", ""},
		{
			"nobody of that name",
			[]*model.Network{network("t/a", "b", "c")},
			"",
			"serves b Waiting NotUsed: Network \"b\" does not exist | uses c Waiting NotOffered: Network \"c\" does not exist",
		},
		{
			"somebody who does not want it",
			[]*model.Network{network("u/b", "", ""), network("v/c", "", ""), network("t/a", "b", "c")},
			"",
			"serves b Waiting NotUsed: Network \"b\" does not exist | uses c Waiting NotOffered: Network \"c\" does not exist",
		},
		{"who is offered something is not told", []*model.Network{network("t/a", "b", ""), network("u/b", "", "")}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := New(testSettings())
			for _, m := range test.networks {
				n.Set(m.Name, m)
			}
			if got := edges(n, test.networks); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			statuses, _ := n.Statuses(test.networks[len(test.networks)-1].Name)
			says := strings.Split(test.says, " | ")
			for i, s := range statuses {
				text := strings.TrimSuffix(fmt.Sprintf("%s %s %s %s: %s", map[bool]string{true: "uses", false: "serves"}[s.Uses], s.Network, s.State,
					s.Problem.Reason, s.Problem.Message), " : ")
				if i >= len(says) || says[i] == "" || !strings.HasPrefix(text, says[i]) {
					t.Errorf("says %q", text)
				}
			}
			if want := len(says); test.says != "" && len(statuses) != want {
				t.Errorf("says %d things, want %d", len(statuses), want)
			}
		})
	}
}

// TestOrderDoesNotMatter: who reaches whom follows from the Networks as they are in the end, and whoever something else is true
// of is named.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		draw := func(name string) *model.Network {
			if rapid.IntRange(0, 5).Draw(t, "gone") == 0 {
				return nil
			}
			some := func(from []string, label string) string {
				return strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, 2, rapid.ID[string]).Draw(t, label), " ")
			}
			m := network(rapid.SampledFrom([]string{"t/", "u/", "/"}).Draw(t, "tenant")+name, some(append(names, "@t", "@u", "*"), "compatible"),
				some(names, "uses"))
			m.ServiceCIDRs = rapid.SampledFrom([][]netip.Prefix{nil, nil, prefixes("10.7.0.0/16"), prefixes("10.7.1.0/24")}).Draw(t, "services")
			m.Created = time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "age")), 0)
			for _, other := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(t, "ranges of") {
				m.UsesServiceCIDRs = map[string][]netip.Prefix{other: prefixes("10.7.0.0/16")}
			}
			for _, r := range m.ServiceCIDRs {
				if rapid.Bool().Draw(t, "later") {
					m.Since = map[netip.Prefix]time.Time{r: time.Unix(int64(rapid.IntRange(0, 4).Draw(t, "since")), 0)}
				}
			}
			if rapid.IntRange(0, 7).Draw(t, "flat") == 0 {
				m.Type = model.Flat
			}
			return m
		}
		known := map[string]*model.Network{}
		n := New(testSettings())
		views := func(n *Networks) map[string]string {
			out := map[string]string{}
			for _, name := range names {
				statuses, asked := n.Statuses(name)
				out[name] = fmt.Sprint(n.Providers(name), n.Consumers(name), n.Ranged(name), statuses, asked)
			}
			return out
		}
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			m := draw(name)
			before := views(n)
			changed := n.Set(name, m)
			if known[name] = m; m == nil {
				delete(known, name)
			}
			for other, now := range views(n) {
				if now != before[other] && !slices.Contains(changed, other) {
					t.Fatalf("%s is another, and not named: %s, before %s", other, now, before[other])
				}
			}
		}
		fresh := New(testSettings())
		for _, name := range slices.Backward(names) {
			if m := known[name]; m != nil {
				fresh.Set(name, m)
			}
		}
		if diff := cmp.Diff(views(fresh), views(n)); diff != "" {
			t.Fatal(diff)
		}
	})
}
