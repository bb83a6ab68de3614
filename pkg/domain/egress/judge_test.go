package egress

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

func endpoints(texts ...string) (out []netip.AddrPort) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddrPort(text))
	}
	return out
}

func services() Rules {
	return Rules{
		Egress: model.EgressNode, Infra: model.InfraServices,
		DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		API: endpoints("10.96.0.1:443", "[fd00:96::1]:443"), Servers: endpoints("192.0.2.1:6443", "203.0.113.9:6443"),
		ServiceRanges: prefixes("10.9.0.0/16"), Addressed: prefixes("10.3.0.0/24"), Faces: prefixes("100.64.0.0/10", "fd64::/32"),
		Infrastructure: prefixes("192.0.2.1/32", "10.96.0.0/16", "10.3.0.7/32", "fd00:96::/112"), Closed: prefixes("198.18.0.0/24"),
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	none := func(r *Rules) { r.Infra, r.Egress, r.DNS = model.InfraNone, model.EgressNone, nil }
	direct := func(r *Rules) { r.Infra = model.InfraDirect }
	consumer := func(r *Rules) { r.Consumer = true }
	flat := func(r *Rules) { r.Flat, r.DNS = true, nil }
	for _, test := range []struct {
		change   func(*Rules)
		to       string
		protocol model.Protocol
		pass     bool
		why      Why
		address  string
	}{
		{nil, "10.96.0.10:53", model.UDP, true, Names, ""},
		{nil, "10.96.0.10:53", model.TCP, true, Names, ""},
		{nil, "10.96.0.10:53", model.SCTP, false, Names, ""},
		{direct, "10.96.0.10:9153", model.TCP, false, Names, ""},
		// Where nobody answers, its address is the infrastructure's.
		{none, "10.96.0.10:53", model.UDP, false, Infrastructure, ""},
		{nil, "10.96.0.1:443", model.TCP, true, API, "192.0.2.1"},
		{nil, "10.96.0.1:443", model.UDP, false, Infrastructure, ""},
		{nil, "10.96.0.1:80", model.TCP, false, Infrastructure, ""},
		{none, "10.96.0.1:443", model.TCP, false, API, ""},
		// No server has an address of that family.
		{nil, "[fd00:96::1]:443", model.TCP, false, API, ""},
		{direct, "[fd00:96::1]:443", model.TCP, true, API, ""},
		// The servers' own addresses, of which one is outside of the cluster.
		{nil, "192.0.2.1:6443", model.TCP, false, Server, ""},
		{nil, "203.0.113.9:6443", model.TCP, true, Server, ""},
		{none, "203.0.113.9:6443", model.TCP, false, Server, ""},
		{func(r *Rules) { r.Infra = model.InfraNone }, "203.0.113.9:6443", model.TCP, false, Server, ""},
		{func(r *Rules) { r.Infra = model.InfraNone }, "203.0.113.9:443", model.TCP, true, Outside, ""},
		{direct, "192.0.2.1:6443", model.TCP, true, Server, ""},
		{flat, "192.0.2.1:6443", model.TCP, true, Server, ""},
		{nil, "10.9.1.1:80", model.TCP, false, OwnServices, ""},
		{direct, "169.254.169.254:80", model.TCP, false, Special, ""},
		{direct, "198.18.0.7:80", model.TCP, false, Closed, ""},
		{nil, "100.64.1.1:80", model.TCP, false, Face, ""},
		{direct, "100.64.1.1:80", model.TCP, false, Face, ""},
		{consumer, "100.64.1.1:80", model.TCP, true, Face, ""},
		{consumer, "[fd64::1]:80", model.TCP, true, Face, ""},
		{nil, "192.0.2.1:10250", model.TCP, false, Infrastructure, ""},
		{direct, "192.0.2.1:10250", model.TCP, true, Infrastructure, ""},
		// A node's address in a provider's subnet is the node's.
		{direct, "10.3.0.7:80", model.TCP, true, Infrastructure, ""},
		{direct, "10.3.0.8:80", model.TCP, false, Addressed, ""},
		{nil, "192.0.2.80:80", model.TCP, true, Outside, ""},
		{none, "192.0.2.80:80", model.TCP, false, Outside, ""},
		// What a translator would lead there.
		{nil, "[64:ff9b::c000:250]:80", model.TCP, true, Outside, ""},
		{consumer, "[64:ff9b::6440:101]:80", model.TCP, false, Face, "100.64.1.1"},
		{direct, "[64:ff9b::c000:201]:80", model.TCP, false, Infrastructure, "192.0.2.1"},
		{direct, "[64:ff9b::a9fe:a9fe]:80", model.TCP, false, Special, "169.254.169.254"},
		{nil, "[64:ff9b::a09:101]:80", model.TCP, false, OwnServices, "10.9.1.1"},
		{nil, "[64:ff9b::a03:8]:80", model.TCP, false, Addressed, "10.3.0.8"},
		{flat, "[64:ff9b::c000:201]:80", model.TCP, false, Infrastructure, "192.0.2.1"},
		{flat, "[64:ff9b::c000:250]:80", model.TCP, true, Outside, ""},
	} {
		r := services()
		if test.change != nil {
			test.change(&r)
		}
		to := netip.MustParseAddrPort(test.to)
		want := Verdict{Pass: test.pass, Why: test.why, Address: to.Addr()}
		if test.address != "" {
			want.Address = netip.MustParseAddr(test.address)
		}
		if got := r.Judge(Packet{To: to.Addr(), Port: to.Port(), Protocol: test.protocol}); got != want {
			t.Errorf("%s %s: got %+v, want %+v; infraAccess %s, egress %s", test.protocol, test.to, got, want, r.Infra, r.Egress)
		}
	}
}

// Pods of a Network of IPv6 alone find names and API at addresses of their own family, whatever the cluster has.
func TestSixOnly(t *testing.T) {
	t.Parallel()
	r := services()
	r.API = endpoints("10.96.0.1:443")
	api := Packet{To: model.APIAddress6(), Port: 443, Protocol: model.TCP}
	names := Packet{To: model.NamesAddress6(), Port: 53, Protocol: model.UDP}
	for _, p := range []Packet{api, names} {
		if v := r.Judge(p); v.Pass {
			t.Errorf("a Network with addresses of IPv4: %+v for %+v", v, p)
		}
	}
	for name, servers := range map[string][]netip.AddrPort{"relayed": r.Servers, "as they are": endpoints("[2001:db8::1]:6443")} {
		six := r
		six.Servers = servers
		six = six.SixOnly()
		if v := six.Judge(api); !v.Pass || v.Why != API {
			t.Errorf("%s: the API: %+v", name, v)
		}
		if v := six.Judge(names); !v.Pass || v.Why != Names {
			t.Errorf("%s: names: %+v", name, v)
		}
	}
	r.Infra = model.InfraNone
	if v := r.SixOnly().Judge(api); v.Pass {
		t.Errorf("infraAccess none: %+v", v)
	}
}

func TestTranslated(t *testing.T) {
	t.Parallel()
	got := Behind(prefixes("169.254.0.0/16", "fe80::/10", "192.0.2.1/32"))
	want := prefixes("64:ff9b::a9fe:0/112", "64:ff9b::c000:201/128")
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if a := natural(netip.MustParseAddr("64:ff9b::c000:201")); a != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("it stands for %s", a)
	}
	if a := natural(netip.MustParseAddr("192.0.2.1")); a.IsValid() {
		t.Errorf("an address of IPv4 stands for %s", a)
	}
}
