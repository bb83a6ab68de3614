package visible

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/compatible"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// askers are red, which offers its names to blue, with a range of its own Services', green, which only red reaches, and strict, which blue
// reaches, too. All but strict admit every namespace.
func askers() map[string]Asker {
	networks := map[string]*model.Network{}
	peers := compatible.New(compatible.Settings{Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}})
	for name, consumer := range map[string]string{"red": "blue", "blue": "", "green": "red", "strict": "blue"} {
		n := &model.Network{Name: name, UID: "uid-" + name, Type: model.VPC, Infra: model.InfraServices}
		if name != "strict" {
			n.Allowed = &match.Selector{}
		}
		if consumer != "" {
			n.CompatibleWith = []model.CompatiblePeer{{Network: consumer}}
		}
		if name == "red" {
			n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16")}
		}
		networks[name] = n
		peers.Set(name, n)
	}
	out := map[string]Asker{}
	for name, n := range networks {
		out[name] = Asker{Looker: Looker{Network: n}, Networks: networks, Peers: peers}
	}
	return out
}

func TestWhatANameStandsFor(t *testing.T) {
	a := func(texts ...string) (out []netip.Addr) {
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	own := &model.ServiceAddresses{Network: "red", NetworkUID: "uid-red", Addresses: a("10.9.0.1")}
	former := &model.ServiceAddresses{Network: "red", NetworkUID: "uid-former", Addresses: a("10.9.0.1")}
	forged := &model.ServiceAddresses{Network: "red", NetworkUID: "uid-red", Addresses: a("192.0.2.1")}
	for _, test := range []struct {
		what, network, home string
		behind              bool
		own                 *model.ServiceAddresses
		itself              bool
		provider            string
		addresses           []netip.Addr
		reaches             map[string]Reach
	}{
		{
			what: "at home", network: "red", home: "red", own: own, itself: true, addresses: a("10.9.0.1", "fd96::1"),
			reaches: map[string]Reach{"red": ByOwnAddress, "blue": Unreached, "green": Unreached},
		},
		{what: "addresses of a former Network", network: "red", home: "red", own: former, itself: true, addresses: a("10.96.0.1", "fd96::1")},
		{what: "addresses that somebody forged", network: "red", home: "red", own: forged, itself: true, addresses: a("10.96.0.1", "fd96::1")},
		{
			what: "of a provider", network: "blue", home: "red", own: own, provider: "red", addresses: a("10.9.0.1", "fd96::1"),
			reaches: map[string]Reach{"blue": Unreached, "red": ByFace, "green": Unreached, "gone": Unreached, "strict": Unreached},
		},
		{
			what: "of a provider, with endpoints here", network: "blue", home: "red", behind: true, itself: true, provider: "red",
			addresses: a("10.96.0.1", "fd96::1"), reaches: map[string]Reach{"blue": ByOwnAddress, "red": ByFace},
		},
		{
			what: "of the strict one", network: "blue", home: "strict", provider: "strict", addresses: a("10.96.0.1", "fd96::1"),
			reaches: map[string]Reach{"strict": ByFace, "red": ByFace},
		},
		{what: "of a consumer", network: "red", home: "blue"},
		{what: "of a provider's provider", network: "blue", home: "green"},
		{
			what: "of another, with endpoints here", network: "blue", home: "green", behind: true, itself: true,
			addresses: a("10.96.0.1", "fd96::1"), reaches: map[string]Reach{"blue": ByOwnAddress, "red": Unreached},
		},
	} {
		asker := askers()[test.network]
		s := Named{
			Key:     model.ServiceKey{Namespace: "team", Name: "web"},
			Service: Service{Namespace: namespace(model.LabelNetwork, test.home), Home: test.home, Behind: test.behind},
			// One of each IP family.
			ClusterIPs: a("10.96.0.1", "fd96::1"), Own: test.own,
		}
		got := asker.Knows(s)
		if provider := got.Provider; got.Itself != test.itself || (provider == nil) != (test.provider == "") ||
			provider != nil && provider.Name != test.provider {
			t.Errorf("%s: %+v", test.what, got)
		}
		if !got.Any() {
			continue
		}
		if addresses := asker.Addresses(s, got); !slices.Equal(addresses, test.addresses) {
			t.Errorf("%s: stands for %v, want %v", test.what, addresses, test.addresses)
		}
		for network, want := range test.reaches {
			if reach := asker.Reaches(s, got, network); reach != want {
				t.Errorf("%s: endpoints in %s are reached %d, want %d", test.what, network, reach, want)
			}
		}
	}
}

// The Kubernetes API's name is there with access to the infrastructure, and is nobody's offer.
func TestTheNameOfTheAPI(t *testing.T) {
	api := Named{Key: APIKey(), Service: Service{Namespace: namespace()}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")}}
	asker := askers()["blue"]
	knows := asker.Knows(api)
	if got := asker.Addresses(api, knows); !knows.Itself || knows.Provider != nil || !slices.Equal(got, api.ClusterIPs) {
		t.Errorf("infraAccess services: %+v, %v", knows, got)
	}
	asker.Subnets = []model.Subnet{{CIDRs: []netip.Prefix{netip.MustParsePrefix("fd00::/64")}}}
	if got := asker.Addresses(api, knows); !slices.Equal(got, []netip.Addr{model.APIAddress6()}) {
		t.Errorf("of IPv6 alone: %v", got)
	}
	asker.Infra = model.InfraNone
	if knows := asker.Knows(api); knows.Any() {
		t.Errorf("infraAccess none: %+v", knows)
	}
}

func TestHost(t *testing.T) {
	for address, want := range map[string]string{"10.0.0.5": "10-0-0-5", "fd00::5": "fd00--5", "fd00::": "fd00--0", "::5": "0--5"} {
		if got := Host("", netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	if got := Host("DB-0", netip.MustParseAddr("10.0.0.5")); got != "db-0" {
		t.Errorf("a hostname: %s", got)
	}
}
