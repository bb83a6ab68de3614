package world

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/porthole"
)

// peer is a vpc Network that is compatible with others.
func peer(name string, consumers ...string) *model.Network {
	m := &model.Network{
		Name: name, UID: uidOf(name), Type: model.VPC, Tenant: "acme",
		Subnets: []model.Subnet{{Name: "a", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}},
	}
	for _, c := range consumers {
		m.CompatibleWith = append(m.CompatibleWith, model.CompatiblePeer{Network: c})
	}
	return m
}

// parts are a Network's parts, and who reaches whom, in words.
func parts(t *testing.T, w *World, names ...string) (out []string) {
	t.Helper()
	for _, name := range names {
		spec, err := w.Porthole(uidOf(name))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s consumer=%t provider=%t", name, spec.Consumer, spec.Provider))
	}
	return append(out, pairs(w)...)
}

func pairs(w *World) (out []string) {
	host, _ := w.Host()
	for _, c := range host.Compatible {
		out = append(out, c.Consumer+" reaches "+c.Provider)
	}
	slices.Sort(out)
	return out
}

func TestPartsOfNetworks(t *testing.T) {
	t.Parallel()
	nothing := []string{"a consumer=false provider=false", "b consumer=false provider=false"}
	related := []string{"a consumer=false provider=true", "b consumer=true provider=false", "uid-of-b reaches uid-of-a"}
	for _, step := range []struct {
		name string
		do   func(w *World)
		want []string
	}{
		{"compatible", func(*World) {}, related},
		{"no longer", func(w *World) { w.SetNetwork(peer("a")) }, nothing},
		{"with one that does not exist", func(w *World) { w.SetNetwork(peer("a", "c")) }, nothing},
		{"another tenant's, who does not ask for it", func(w *World) {
			b := peer("b")
			b.Tenant = "other"
			w.SetNetwork(b)
		}, nothing},
		{"a consumer that has faces of its own", func(w *World) {
			b := peer("b")
			b.Subnets[0].CIDRs[0] = netip.MustParsePrefix("100.64.0.0/16")
			w.SetNetwork(b)
		}, nothing},
		{"the range of faces becomes what the consumer has", func(w *World) {
			infra := w.infra
			infra.Faces = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
			w.SetInfrastructure(infra)
		}, nothing},
		{"other settings", func(w *World) {
			infra := w.infra
			infra.MaxConnections = 5
			w.SetInfrastructure(infra)
		}, related},
		{"one more of its name, and the first one goes", func(w *World) {
			anew := peer("b")
			anew.UID = "anew"
			w.SetNetwork(anew)
			w.DropNetwork(uidOf("b"))
			w.SetNetwork(peer("b"))
			w.DropNetwork("anew")
		}, related},
	} {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld()
			w.SetNetwork(peer("a", "b"))
			w.SetNetwork(peer("b"))
			step.do(w)
			if got := parts(t, w, "a", "b"); !slices.Equal(got, step.want) {
				t.Errorf("got %q, want %q", got, step.want)
			}
		})
	}
}

// TestServicesOfProvidersLeadNowhereElse: an address that no Service of a provider has is nobody's outside either.
func TestServicesOfProvidersLeadNowhereElse(t *testing.T) {
	t.Parallel()
	w := testWorld()
	for i, m := range []*model.Network{peer("a", "b"), peer("b")} {
		m.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.9%d.0.0/16", i))}
		w.SetNetwork(m)
	}
	expect := func(when, name, want string) {
		t.Helper()
		spec, err := w.Porthole(uidOf(name))
		if got := fmt.Sprint(spec.ServiceRanges, spec.Addressed); err != nil || got != want {
			t.Errorf("%s: %s has %s (error %v), want %s", when, name, got, err, want)
		}
	}
	expect("of one tenant", "a", "[10.90.0.0/16] []")
	expect("of one tenant", "b", "[10.91.0.0/16] [10.90.0.0/16]")
	// Of another tenant's Network that it only uses, it does not lose an address.
	b := peer("b")
	b.Tenant, b.Uses = "other", []string{"a"}
	w.SetNetwork(b)
	expect("of another tenant, used", "b", "[] []")
	b = peer("b")
	b.Tenant, b.UsesServiceCIDRs = "other", map[string][]netip.Prefix{"a": {netip.MustParsePrefix("10.90.0.0/16")}}
	w.SetNetwork(b)
	expect("of another tenant, named", "b", "[] [10.90.0.0/16]")
}

// TestAddressesOfProvidersLeadNowhereElse: where pods of a provider are dialled by their own addresses, one that no pod has is
// nobody's outside; where they are not, the provider's subnets mean what they meant before.
func TestAddressesOfProvidersLeadNowhereElse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(a, b *model.Network, infra *Infrastructure)
		want string
	}{
		{"offered", func(_, _ *model.Network, _ *Infrastructure) {}, "[10.8.0.0/24 fd00:8::/64]"},
		{"not offered", func(a, _ *model.Network, _ *Infrastructure) { a.CompatibleWith[0].Addresses = false }, "[]"},
		{"the consumer's own", func(_, b *model.Network, _ *Infrastructure) {
			b.Subnets[0].CIDRs = []netip.Prefix{netip.MustParsePrefix("fd00:8::/64")}
		}, "[]"},
		{"another tenant's that does not want it", func(_, b *model.Network, _ *Infrastructure) {
			b.Tenant, b.Uses = "other", []string{"a"}
		}, "[]"},
		{"another tenant's that does", func(_, b *model.Network, _ *Infrastructure) {
			b.Tenant, b.UsesAddressesOf = "other", []string{"a"}
		}, "[10.8.0.0/24 fd00:8::/64]"},
		{"of the range of Gateways", func(_, _ *model.Network, infra *Infrastructure) {
			infra.Gateways = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16")}
		}, "[]"},
		{"of the infrastructure", func(_, _ *model.Network, infra *Infrastructure) {
			infra.Others = []netip.Prefix{netip.MustParsePrefix("10.8.0.7/32")}
		}, "[]"},
		{"of load balancers", func(_, _ *model.Network, infra *Infrastructure) {
			infra.Balancers = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/28")}
		}, "[]"},
		{"closed to all", func(_, _ *model.Network, infra *Infrastructure) {
			infra.Closed = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/28")}
		}, "[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld()
			a, b, infra := peer("a", "b"), peer("b"), w.infra
			a.Subnets[0].CIDRs = []netip.Prefix{netip.MustParsePrefix("10.8.0.0/24"), netip.MustParsePrefix("fd00:8::/64")}
			a.CompatibleWith[0].Addresses = true
			test.do(a, b, &infra)
			w.SetInfrastructure(infra)
			w.SetNetwork(a)
			w.SetNetwork(b)
			spec, err := w.Porthole(uidOf("b"))
			if got := fmt.Sprint(spec.Addressed); err != nil || got != test.want {
				t.Errorf("b's porthole has %s (error %v), want %s", got, err, test.want)
			}
			if spec, err := w.Porthole(uidOf("a")); err != nil || len(spec.Addressed) > 0 {
				t.Errorf("a's porthole has %v (error %v)", spec.Addressed, err)
			}
		})
	}
}

// TestOnlyOneOfANameIsMeant: one that was made anew under its name takes the place of the last one, which has no part in anything
// while it is still known.
func TestOnlyOneOfANameIsMeant(t *testing.T) {
	t.Parallel()
	w := testWorld()
	w.SetNetwork(peer("a", "b"))
	w.SetNetwork(peer("b"))
	anew := peer("b")
	anew.UID = "anew"
	w.SetNetwork(anew)
	want := []string{"a consumer=false provider=true", "b consumer=false provider=false", "anew reaches uid-of-a"}
	if got := parts(t, w, "a", "b"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.DropNetwork("anew")
	w.DropNetwork(uidOf("b"))
	if got := pairs(w); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

// TestPeersDoNotDependOnHistory: Networks that come, change and go in any order leave what a fresh start has.
func TestPeersDoNotDependOnHistory(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	random := rand.New(rand.NewPCG(1, 2))
	w := testWorld()
	for range 500 {
		name := names[random.IntN(len(names))]
		if random.IntN(4) == 0 {
			w.DropNetwork(uidOf(name))
		} else {
			w.SetNetwork(peer(name, names[random.IntN(len(names))], names[random.IntN(len(names))]))
		}
		fresh := testWorld()
		for _, m := range w.networks {
			fresh.SetNetwork(m)
		}
		if got, want := pairs(w), pairs(fresh); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

// BenchmarkPeers: what the node's side costs with 1,000 consumers of one Network, and a change of one of them.
func BenchmarkPeers(b *testing.B) {
	w := testWorld()
	shared := peer("shared")
	shared.CompatibleWith = []model.CompatiblePeer{{Tenant: "acme"}}
	w.SetNetwork(shared)
	for i := range 1000 {
		w.SetNetwork(peer(fmt.Sprintf("n%d", i)))
	}
	var host porthole.Host
	for i := 0; b.Loop(); i++ {
		m := peer("n7")
		m.Generation = int64(i)
		w.SetNetwork(m)
		host, _ = w.Host()
	}
	if len(host.Compatible) != 1000 {
		b.Errorf("%d pairs", len(host.Compatible))
	}
}
