package between

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// The product's rule says the same of who reaches whom as the oracle, of a scene and after it has changed, in whatever order it
// hears of Networks that were made in the same second, or one after another.
func TestTheProductAgreesOnEdges(t *testing.T) {
	const seeds = 300
	for seed := range uint64(seeds) {
		scene := Draw(seed, nodes)
		rule := compatible.New(compatible.Settings{
			Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}, Default: "default",
		})
		age := func(i int) time.Time { return time.Unix(int64(i)/(1+int64(seed%4)), 0) }
		random := rand.New(rand.NewPCG(seed, 3))
		for _, s := range []Scene{scene, scene.Change(seed)} {
			var known []Known
			for i, n := range s.Networks {
				if seed%2 == 1 {
					n = worldwide(n, random)
				}
				k := Known{Network: n, Created: age(i)}
				// Some got their ranges later than others that are younger.
				if random.IntN(2) == 0 {
					k.Since = map[netip.Prefix]time.Time{}
					for _, r := range n.Plan.ranges() {
						k.Since[r] = age(random.IntN(2 * len(s.Networks)))
					}
				}
				known = append(known, k)
			}
			for i := range known {
				i = (i*3 + int(seed)) % len(known)
				rule.Set(known[i].Name, asModel(known[i]))
			}
			got := map[Edge]bool{}
			for _, n := range known {
				for _, provider := range rule.Providers(n.Name) {
					got[Edge{Provider: provider, Consumer: n.Name}] = rule.JoinedTo(provider, n.Name)
				}
			}
			dialled, ranged := map[Edge]bool{}, map[Edge]bool{}
			for e := range got {
				if got[e] || slices.Contains(rule.Addressed(e.Consumer), e.Provider) {
					dialled[e] = true
				}
				if rule.DialsServices(e.Consumer, e.Provider) {
					ranged[e] = true
				}
			}
			if want := Dialled(known); !maps.Equal(dialled, want) {
				t.Fatalf("seed %d: own addresses are dialled on %v, want %v, of %v", seed, dialled, want, s.Networks)
			}
			if want := Ranged(known); !maps.Equal(ranged, want) {
				t.Fatalf("seed %d: Services are dialled by addresses of their own on %v, want %v, of %v", seed, ranged, want, s.Networks)
			}
			if want := Edges(known); !maps.Equal(got, want) {
				t.Fatalf("seed %d: the product has %v, want %v, of %v", seed, got, want, s.Networks)
			}
		}
	}
}

// worldwide has the addresses of one plan be somebody's in the world, and most of those who use others name them.
func worldwide(n Network, random *rand.Rand) Network {
	if n.Plan.Name == "like none" {
		n.Plan.Subnet = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	}
	n.UsesServiceCIDRs = maps.Clone(n.UsesServiceCIDRs)
	for _, other := range slices.Concat(n.Uses, n.UsesAddressesOf) {
		if random.IntN(3) > 0 {
			n.UsesServiceCIDRs[other] = append(slices.Clone(n.UsesServiceCIDRs[other]), netip.MustParsePrefix("203.0.112.0/22"))
		}
	}
	return n
}

// asModel is a Network as the product reads it.
func asModel(n Known) *model.Network {
	m := &model.Network{
		Name: n.Name, UID: n.Name, Created: n.Created, Type: model.VPC, Tenant: n.Tenant, ServiceCIDRs: n.Plan.Services, Uses: n.Uses,
		UsesAddressesOf:  n.UsesAddressesOf,
		UsesServiceCIDRs: n.UsesServiceCIDRs, Since: n.Since,
	}
	m.Subnets = []model.Subnet{{Name: "a", CIDRs: n.Plan.Subnet}}
	for _, p := range n.CompatibleWith {
		peer := model.CompatiblePeer{Network: p.Network, Tenant: p.Tenant, All: p.All, Mode: model.ByFace, Addresses: p.Addresses}
		if p.Routed {
			peer.Mode = model.Routed
		}
		m.CompatibleWith = append(m.CompatibleWith, peer)
	}
	return m
}
