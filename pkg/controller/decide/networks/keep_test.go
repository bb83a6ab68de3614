package networks

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide/cluster"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestIncludes(t *testing.T) {
	tests := []struct {
		name       string
		one, other model.CompatiblePeer
		want       bool
	}{
		{"the same", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{Network: "red"}, true},
		{"another Network", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{Network: "blue"}, false},
		{"all, and one", model.CompatiblePeer{All: true}, model.CompatiblePeer{Network: "red"}, true},
		{"all, and a tenant's", model.CompatiblePeer{All: true}, model.CompatiblePeer{Tenant: "acme"}, true},
		{"one, and all", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{All: true}, false},
		{"a tenant's, and all", model.CompatiblePeer{Tenant: "acme"}, model.CompatiblePeer{Tenant: "acme", All: true}, false},
		{"a Network of a tenant's name", model.CompatiblePeer{Tenant: "acme"}, model.CompatiblePeer{Network: "acme"}, false},
		{
			"routed, and by faces",
			model.CompatiblePeer{Network: "red", Mode: model.Routed},
			model.CompatiblePeer{Network: "red", Mode: model.ByFace},
			true,
		},
		{
			"by faces, and routed",
			model.CompatiblePeer{Network: "red", Mode: model.ByFace},
			model.CompatiblePeer{Network: "red", Mode: model.Routed},
			false,
		},
		{"no mode, and by faces", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{Network: "red", Mode: model.ByFace}, true},
		{"with addresses, and without", model.CompatiblePeer{Network: "red", Addresses: true}, model.CompatiblePeer{Network: "red"}, true},
		{"without addresses, and with", model.CompatiblePeer{Network: "red"}, model.CompatiblePeer{Network: "red", Addresses: true}, false},
		{
			"routed, and with addresses by faces",
			model.CompatiblePeer{Network: "red", Mode: model.Routed},
			model.CompatiblePeer{Network: "red", Addresses: true},
			false,
		},
		{"all by faces, and one routed", model.CompatiblePeer{All: true}, model.CompatiblePeer{Network: "red", Mode: model.Routed}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := includes(test.one, test.other); got != test.want {
				t.Errorf("includes(%+v, %+v) = %v", test.one, test.other, got)
			}
		})
	}
}

// keeper is a Stage that knows the cluster's default subnet alone.
func keeper() *Stage {
	return &Stage{World: World{Cluster: &cluster.Cluster{Settings: cluster.Settings{Subnet: netip.MustParsePrefix("10.128.0.0/14")}}}}
}

func subnet(name, cidr string) model.Subnet {
	return model.Subnet{Name: name, CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}
}

func TestKeepSubnets(t *testing.T) {
	a, b, c := subnet("a", "10.0.0.0/24"), subnet("b", "10.0.0.0/16"), subnet("c", "10.1.0.0/24")
	other := subnet("a", "10.2.0.0/24")
	broken := model.Subnet{Name: "d", Error: "no CIDR"}
	waiting := func(name string) model.Subnet { return model.Subnet{Name: name, Waits: true} }
	list := func(s ...model.Subnet) []model.Subnet { return s }
	standard := subnet("default", "10.128.0.0/14")
	tests := []struct {
		name              string
		before, now, want []model.Subnet
		adds, ends        bool
	}{
		{"the same", list(a, b), list(a, b), list(a, b), false, false},
		{"one comes", list(a), list(c, a), list(a, waiting("c")), true, false},
		{"one goes", list(a, c), list(c), list(c), false, true},
		{"one with other addresses", list(a, c), list(other, c), list(c, waiting("a")), true, true},
		{"another order", list(a, b), list(b, a), list(a, b), true, false},
		{"one that waits", list(a, waiting("c")), list(a, c), list(a, waiting("c")), true, false},
		{"one that waits goes", list(a, waiting("c")), list(a), list(a), false, false},
		{"what nobody can read", list(a), list(a, broken), list(a, broken), false, false},
		{"what nobody could read goes", list(a, broken), list(a), list(a), false, false},
		{"the default one, which is listed now", nil, list(standard), list(standard), false, false},
		{"another one than the default one", nil, list(a), list(waiting("a")), true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := keeper()
			before, now := &model.Network{Subnets: test.before}, &model.Network{Subnets: test.now}
			kept, adds, ends := keepSubnets(s.listed(before), s.listed(now))
			if !reflect.DeepEqual(kept, test.want) || adds != test.adds || ends != test.ends {
				t.Errorf("keeps %+v, adds %v, ends %v", kept, adds, ends)
			}
		})
	}
	if kept, d := keeper().keep(nil, &model.Network{}); !reflect.DeepEqual(kept.Subnets, list(waiting("default"))) || !d.subnets || d.ends {
		t.Errorf("of a new Network that lists no subnet it keeps %+v: %+v", kept.Subnets, d)
	}
}

// TestKeepAllowsNoMoreThanEither: whatever an owner changes, what is kept of it was there before, and is wanted now. What adds
// nothing is kept whole.
func TestKeepAllowsNoMoreThanEither(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 0))
	some := func(all ...string) (out []string) {
		for _, one := range all {
			if dice.IntN(2) == 0 {
				out = append(out, one)
			}
		}
		return out
	}
	prefixes := func(all ...string) (out []netip.Prefix) {
		for _, one := range some(all...) {
			out = append(out, netip.MustParsePrefix(one))
		}
		return out
	}
	draw := func() *model.Network {
		n := &model.Network{
			Name: "acme", Uses: some("red", "blue"), UsesAddressesOf: some("red", "blue"), ServiceCIDRs: prefixes("10.8.0.0/24", "10.9.0.0/24"),
			UsesServiceCIDRs: map[string][]netip.Prefix{},
		}
		for _, name := range some("red", "blue") {
			n.UsesServiceCIDRs[name] = prefixes("8.8.8.0/24", "9.9.9.0/24")
		}
		for _, name := range some("a", "b") {
			n.Subnets = append(n.Subnets, subnet(name, []string{"10.0.0.0/24", "10.0.1.0/24"}[dice.IntN(2)]))
		}
		for _, name := range some("red", "blue", "") {
			mode := []model.CompatibilityMode{model.ByFace, model.Routed}[dice.IntN(2)]
			n.CompatibleWith = append(n.CompatibleWith, model.CompatiblePeer{
				Network: name, All: name == "", Addresses: dice.IntN(2) == 0, Mode: mode,
			})
		}
		return n
	}
	within := func(what string, kept, of *model.Network) {
		t.Helper()
		all := slices.ContainsFunc(kept.Uses, func(p string) bool { return !slices.Contains(of.Uses, p) }) ||
			slices.ContainsFunc(kept.UsesAddressesOf, func(p string) bool { return !slices.Contains(of.UsesAddressesOf, p) }) ||
			slices.ContainsFunc(kept.ServiceCIDRs, func(r netip.Prefix) bool { return !slices.Contains(of.ServiceCIDRs, r) }) ||
			slices.ContainsFunc(kept.CompatibleWith, func(p model.CompatiblePeer) bool {
				return !slices.ContainsFunc(of.CompatibleWith, func(o model.CompatiblePeer) bool { return includes(o, p) })
			}) ||
			slices.ContainsFunc(kept.Subnets, func(s model.Subnet) bool {
				return !s.Waits && !slices.ContainsFunc(keeper().listed(of), func(o model.Subnet) bool { return sameRows(o, s) })
			})
		for provider, ranges := range kept.UsesServiceCIDRs {
			all = all || slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return !slices.Contains(of.UsesServiceCIDRs[provider], r) })
		}
		if all {
			t.Fatalf("what is kept\n%+v\nis more than what %s\n%+v", kept, what, of)
		}
	}
	for range 20000 {
		before, now := draw(), draw()
		kept, d := keeper().keep(before, now)
		if d.adds() {
			within("was there", kept, before)
		}
		within("is wanted", kept, now)
		again, more := keeper().keep(kept, now)
		if more.ends || more.adds() != d.adds() || !reflect.DeepEqual(kept.CompatibleWith, again.CompatibleWith) {
			t.Fatalf("kept of\n%+v\nand\n%+v\nis\n%+v\nand the next time\n%+v: %+v", before, now, kept, again, more)
		}
		if _, d := keeper().keep(now, now); d != (delta{}) {
			t.Fatalf("what does not change is %+v: %+v", d, now)
		}
	}
}

// TestKeepKnowsProvidersWithoutRanges: who names a provider in usesServiceCIDRs uses it, whatever the ranges.
func TestKeepKnowsProvidersWithoutRanges(t *testing.T) {
	none, some := &model.Network{}, &model.Network{UsesServiceCIDRs: map[string][]netip.Prefix{"red": nil}}
	if kept, d := keeper().keep(none, some); !d.peers || len(kept.UsesServiceCIDRs) > 0 {
		t.Errorf("a provider that comes: %+v, kept %v", d, kept.UsesServiceCIDRs)
	}
	if _, d := keeper().keep(some, none); !d.ends || d.adds() {
		t.Errorf("a provider that goes: %+v", d)
	}
}

// TestBudgetIsBounded: however a tenant adds and ends, what is granted to it comes as often as a budget allows.
func TestBudgetIsBounded(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		b := newBudget(3)
		start := time.Unix(6000, 0)
		now, granted, last := start, 0, time.Time{}
		for range 300 {
			now = now.Add(time.Duration(dice.IntN(2000)) * time.Millisecond)
			b.turn(now)
			if dice.IntN(2) == 0 {
				b.spend("acme")
				continue
			}
			if !b.grants("acme") {
				continue
			}
			b.spend("acme")
			if now.Sub(last) >= changesTogether {
				last = now
				granted++
			}
		}
		if most := 3 + int(now.Sub(start)/changeEvery); granted > most {
			t.Fatalf("seed %d: %d changes were granted in %s, want at most %d", seed, granted, now.Sub(start), most)
		}
		b.turn(now.Add(24 * time.Hour))
		if len(b.spent) > 0 {
			t.Fatalf("seed %d: a day later the budget knows %+v", seed, b.spent)
		}
	}
}

// TestNobodyWaitsForLong: whoever has ended very much adds something ten minutes later.
func TestNobodyWaitsForLong(t *testing.T) {
	b := newBudget(3)
	now := time.Unix(6000, 0)
	for range 100 {
		now = now.Add(changesTogether)
		b.turn(now)
		b.spend("acme")
	}
	if b.grants("acme") {
		t.Error("after 100 endings nothing waits")
	}
	b.turn(now.Add(longestWait + changesTogether))
	if !b.grants("acme") {
		t.Errorf("%s after 100 endings a change still waits until %s", longestWait, b.opens("acme"))
	}
}
