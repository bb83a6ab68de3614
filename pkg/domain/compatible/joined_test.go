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

// routed is a Network as network makes it, that asks for mode Routed, with one subnet and perhaps service ranges.
func routed(name, compatibleWith, uses, subnet string, services ...string) *model.Network {
	m := network(name, compatibleWith, uses)
	for i := range m.CompatibleWith {
		m.CompatibleWith[i].Mode = model.Routed
	}
	if subnet != "" {
		m.Subnets = []model.Subnet{{Name: "a", CIDRs: prefixes(subnet)}}
	}
	m.ServiceCIDRs = prefixes(services...)
	m.Created = time.Unix(int64(m.Name[0]), 0)
	return m
}

// byFace says the same by faces.
func byFace(m *model.Network) *model.Network {
	for i := range m.CompatibleWith {
		m.CompatibleWith[i].Mode = model.ByFace
	}
	return m
}

func TestWhoIsJoined(t *testing.T) {
	t.Parallel()
	const (
		world = "it is by face: 8.8.8.0/24 of Network \"a\" lies in none of the ranges that Network \"b\", which is another tenant's, " +
			"lists for it in usesServiceCIDRs"
		services = "it is by face: 10.9.0.0/24 of Network \"b\" lies in none of the ranges that Network \"a\", which is another tenant's, " +
			"lists for it in usesServiceCIDRs"
	)
	for _, test := range []struct {
		name     string
		networks []*model.Network
		// want are the edges and the pairs that are joined; says what the last Network hears.
		want, says string
	}{
		{
			"one direction",
			[]*model.Network{routed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "", "", "10.2.0.0/16")},
			"b>a a-b",
			"uses a Routed Active",
		},
		{
			"by face",
			[]*model.Network{byFace(routed("t/a", "b", "", "10.1.0.0/16")), routed("t/b", "", "", "10.2.0.0/16")},
			"b>a",
			"uses a ByFace Active",
		},
		{
			"mutual, one asks",
			[]*model.Network{byFace(routed("t/a", "b", "", "10.1.0.0/16")), routed("t/b", "a", "", "10.2.0.0/16")},
			"a>b b>a a-b", "serves a Routed Active, uses a Routed Active",
		},
		{
			"the same subnets",
			[]*model.Network{routed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "", "", "10.1.2.0/24")},
			"",
			"uses a Routed Refused AddressConflict: 10.1.0.0/16 of Network \"a\" overlaps 10.1.2.0/24 of Network \"b\"",
		},
		{
			"the default subnet",
			[]*model.Network{routed("t/a", "b", "", ""), routed("t/b", "", "", "")},
			"",
			"uses a Routed Refused AddressConflict: 10.244.0.0/16 of Network \"a\" overlaps 10.244.0.0/16 of Network \"b\"",
		},
		{
			"the other direction goes on by face",
			[]*model.Network{routed("t/a", "b", "", "10.1.0.0/16"), byFace(routed("t/b", "a", "", "10.1.0.0/16"))},
			"a>b",
			"uses a Routed Refused AddressConflict: 10.1.0.0/16 of Network \"a\" overlaps 10.1.0.0/16 of Network \"b\", serves a ByFace Active",
		},
		{
			"a service range in a subnet of the provider's, which only mode Routed minds",
			[]*model.Network{routed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "", "", "10.2.0.0/16", "10.1.9.0/24")},
			"",
			"uses a Routed Refused AddressConflict: 10.1.0.0/16 of Network \"a\" overlaps 10.1.9.0/24 of Network \"b\"",
		},
		{
			"faces",
			[]*model.Network{routed("t/a", "b", "", "100.64.3.0/24"), routed("t/b", "", "", "10.2.0.0/16")},
			"",
			"uses a Routed Refused AddressConflict: 100.64.3.0/24 of Network \"a\" overlaps 100.64.0.0/10, the range of faces, by which it would " +
				"know the pods of Network \"b\"",
		},
		{
			"another tenant's that only uses it",
			[]*model.Network{routed("u/b", "", "a", "10.2.0.0/16"), routed("t/a", "b", "", "10.1.0.0/16")},
			"b>a",
			"serves b ByFace Active NotJoined: it is by face: Network \"b\" is another tenant's, and does not ask for mode Routed of " +
				"this one in its compatibleWith",
		},
		{
			"another tenant's that asks for it, too, though it serves nobody",
			[]*model.Network{routed("u/b", "a", "a", "10.2.0.0/16"), routed("t/a", "b", "", "10.1.0.0/16")},
			"b>a a-b",
			"serves b Routed Active",
		},
		{
			"another tenant's that has what is somebody's in the world",
			[]*model.Network{routed("u/b", "a", "a", "10.2.0.0/16"), routed("t/a", "b", "b", "8.8.8.0/24")},
			"b>a a>b",
			"serves b ByFace Active NotJoined: " + world + ", uses b ByFace Active NotJoined: " + world,
		},
		{
			"which is named",
			[]*model.Network{takes(routed("u/b", "a", "", "10.2.0.0/16"), "a 8.8.8.0/24"), routed("t/a", "b", "b", "8.8.8.0/24")},
			"b>a a>b a-b",
			"serves b Routed Active, uses b Routed Active",
		},
		{
			"another tenant's, which reaches nobody's Services",
			[]*model.Network{routed("u/b", "a", "a", "10.2.0.0/16", "10.9.0.0/24"), routed("t/a", "b", "", "10.1.0.0/16")},
			"b>a a-b",
			"serves b Routed Active",
		},
		{
			"another tenant's, which does",
			[]*model.Network{routed("u/b", "a", "a", "10.2.0.0/16", "10.9.0.0/24"), routed("t/a", "b", "b", "10.1.0.0/16")},
			"b>a a>b",
			"serves b ByFace Active NotJoined: " + services + ", uses b ByFace Active NotJoined: " + services +
				"; Services are dialled by their ClusterIPs, and not by addresses of the Network's own ranges: " +
				"Network \"b\" is another tenant's, has 10.9.0.0/24, and this one does not list it in its usesServiceCIDRs",
		},
		{
			"two that a third is joined to",
			[]*model.Network{routed("t/a", "c", "", "10.1.0.0/16"), routed("t/b", "c", "", "10.1.0.0/16"), routed("t/c", "", "", "10.3.0.0/16")},
			"c>a a-c",
			"uses b Routed Refused AddressConflict: 10.1.0.0/16 of Network \"b\" overlaps 10.1.0.0/16 of Network \"a\", which Network \"c\" " +
				"reaches, too, uses a Routed Active",
		},
		{
			"and the second's owner hears nothing of the first",
			[]*model.Network{routed("t/a", "c", "", "10.1.0.0/16"), routed("t/c", "b", "b", "10.3.0.0/16"), routed("u/b", "c", "", "10.1.0.0/16")},
			"c>a a-c",
			"serves c Routed Refused AddressConflict: 10.1.0.0/16 overlaps what Network \"c\" reaches already in another Network",
		},
		{
			"the Services of one that is reached by face",
			[]*model.Network{
				byFace(routed("t/a", "c", "", "10.1.0.0/16", "10.9.0.0/16")), routed("t/b", "c", "", "10.9.1.0/24"), routed("t/c", "", "",
					"10.3.0.0/16"),
			},
			"c>a",
			"uses b Routed Refused AddressConflict: 10.9.1.0/24 of Network \"b\" overlaps 10.9.0.0/16 of Network \"a\", which Network \"c\" " +
				"reaches, too, uses a ByFace Active",
		},
		{
			"not passed on: two that have the same, by way of a third",
			[]*model.Network{
				routed("t/a", "b", "", "10.1.0.0/16"), routed("t/b", "c", "", "10.2.0.0/16"), routed("t/c", "d", "", "10.3.0.0/16"), routed("t/d", "",
					"", "10.1.0.0/16"),
			},
			"b>a c>b d>c a-b b-c c-d", "uses c Routed Active",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := New(testSettings())
			for _, m := range test.networks {
				n.Set(m.Name, m)
			}
			if got := edgesAndJoints(n, test.networks); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			var says []string
			statuses, _ := n.Statuses(test.networks[len(test.networks)-1].Name)
			for _, s := range statuses {
				word := "serves"
				if s.Uses {
					word = "uses"
				}
				text := fmt.Sprintf("%s %s %s %s", word, s.Network, s.Mode, s.State)
				if s.Problem.Reason != "" {
					message, _, _ := strings.Cut(s.Problem.Message, ", and mode")
					message, _, _ = strings.Cut(message, ": give")
					text += " " + s.Problem.Reason + ": " + message
				}
				says = append(says, text)
			}
			if got := strings.Join(says, ", "); got != test.says {
				t.Errorf("says %q, want %q", got, test.says)
			}
		})
	}
}

func edgesAndJoints(n *Networks, all []*model.Network) string {
	out := strings.Fields(edges(n, all))
	for _, m := range all {
		for _, other := range n.Joined(m.Name) {
			if !n.JoinedTo(other, m.Name) {
				out = append(out, "and "+other+" does not know")
			}
			if m.Name < other {
				out = append(out, m.Name+"-"+other)
			}
		}
	}
	return strings.Join(out, " ")
}

// No more than MaxJoined Networks are joined, the older pairs first, and they say how many they are.
func TestJoinedAreBounded(t *testing.T) {
	t.Parallel()
	n := New(testSettings())
	name := func(i int) string { return fmt.Sprintf("n%02d", i) }
	chain := func(i int) *model.Network {
		m := routed("t/"+name(i), name(i+1), "", fmt.Sprintf("10.%d.0.0/16", i))
		m.Created = time.Unix(int64(i), 0)
		return m
	}
	// The younger ones come first to be known.
	for i := MaxJoined + 1; i >= 0; i-- {
		n.Set(name(i), chain(i))
	}
	if got := n.JoinedInAll(name(0)); got != MaxJoined {
		t.Errorf("%d are joined, want %d", got, MaxJoined)
	}
	last := name(MaxJoined)
	if n.Reaches(last, name(MaxJoined-1)) || n.JoinedInAll(last) != 2 {
		t.Errorf("beyond the bound %s reaches its provider, and %d are joined to it, itself among them", last, n.JoinedInAll(last))
	}
	statuses, _ := n.Statuses(name(MaxJoined - 1))
	if statuses[0].State != model.CompatibilityRefused || statuses[0].Problem.Reason != model.ReasonTooManyJoined {
		t.Errorf("the owner hears %+v", statuses)
	}
	// One goes, and the pair that had no place has it.
	changed := n.Set(name(0), nil)
	if !n.Reaches(last, name(MaxJoined-1)) || !slices.Contains(changed, last) || !slices.Contains(changed, name(1)) {
		t.Errorf("when one has gone, %s does not reach its provider; %v are told", last, changed)
	}
}

// The bound is a setting: with a lesser one the older pairs stay joined, and the others are refused.
func TestTheBoundOnJoinedIsASetting(t *testing.T) {
	t.Parallel()
	for bound, want := range map[int]string{0: "d>c c>b b>a", 4: "d>c c>b b>a", 3: "c>b b>a", 2: "d>c b>a"} {
		settings := testSettings()
		settings.MaxJoined = bound
		n := New(settings)
		for i, name := range []string{"a", "b", "c", "d"} {
			m := routed("t/"+name, string(rune('b'+i)), "", fmt.Sprintf("10.%d.0.0/16", i))
			m.Created = time.Unix(int64(i), 0)
			n.Set(name, m)
		}
		var got []string
		for _, pair := range []string{"d>c", "c>b", "b>a"} {
			if consumer, provider, _ := strings.Cut(pair, ">"); n.Reaches(consumer, provider) && n.JoinedTo(consumer, provider) {
				got = append(got, pair)
			}
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("of at most %d: %q, want %q", bound, text, want)
		}
	}
}

// Whatever came before, what is joined is what it is from the beginning, and whoever is concerned is told.
func TestJoinedDependOnTheStateAlone(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		settings := testSettings()
		settings.MaxJoined = rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "at most")
		n, now := New(settings), map[string]*model.Network{}
		draw := func(name string) *model.Network {
			m := network(rapid.SampledFrom([]string{"t/", "t/", "u/"}).Draw(t, "tenant")+name, "", "a b c d")
			for _, other := range names {
				if other == name {
					continue
				}
				switch rapid.IntRange(0, 3).Draw(t, name+other) {
				case 0:
					m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Network: other, Mode: model.Routed})
				case 1:
					m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Network: other})
				}
			}
			m.Created = time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0)
			m.Subnets = []model.Subnet{
				{
					Name: "a",
					CIDRs: prefixes(
						rapid.SampledFrom([]string{"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16", "10.4.0.0/16", "10.1.2.0/24", "8.8.8.0/24"}).Draw(t,
							"subnet")),
				},
			}
			if rapid.IntRange(0, 3).Draw(t, "Services") == 0 {
				m.ServiceCIDRs = prefixes("10.5.0.0/24")
			}
			if rapid.Bool().Draw(t, "names ranges") {
				m.UsesServiceCIDRs = map[string][]netip.Prefix{
					rapid.SampledFrom(names).Draw(t, "ranges of"): prefixes(rapid.SampledFrom([]string{"8.8.0.0/16", "10.5.0.0/16"}).Draw(t, "named")),
				}
			}
			return m
		}
		says := func(n *Networks, name string) string {
			statuses, asked := n.Statuses(name)
			return fmt.Sprint(statuses, asked, n.Providers(name), n.Consumers(name), n.Joined(name), n.JoinedInAll(name))
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			before := map[string]string{}
			for _, name := range names {
				before[name] = says(n, name)
			}
			name := rapid.SampledFrom(names).Draw(t, "name")
			var m *model.Network
			if rapid.IntRange(0, 3).Draw(t, "goes") > 0 {
				m = draw(name)
			}
			told := n.Set(name, m)
			if now[name] = m; m == nil {
				delete(now, name)
			}
			fresh := New(settings)
			for _, name := range names {
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
