package netdev

import (
	"net/netip"
	"strings"
	"testing"
)

func TestOwnerSurvivesItsAlias(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 4)
	for _, test := range []struct {
		name        string
		owner, want Owner
	}{
		{
			"all of it",
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid", Netns: "/var/run/netns/cni-1"},
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid", Netns: "/var/run/netns/cni-1"},
		},
		{
			"a namespace that does not fit",
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid", Netns: "/" + strings.Repeat("n", 300)},
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid"},
		},
		{
			"a namespace with a blank",
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid", Netns: "/a b"},
			Owner{ContainerID: id, Interface: "eth0", PodUID: "uid"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			alias := test.owner.Alias()
			if len(alias) > maxAlias {
				t.Errorf("alias has %d bytes", len(alias))
			}
			got, ours := ParseOwner(test.owner.HostName(), alias)
			if !ours || got != test.want {
				t.Errorf("got %+v (ours: %t), want %+v", got, ours, test.want)
			}
		})
	}
}

func TestForeignLinksAreNotOurs(t *testing.T) {
	t.Parallel()
	ours := Owner{ContainerID: "c1", Interface: "eth0", PodUID: "u1"}
	for _, test := range []struct{ name, link, alias string }{
		{"no alias", ours.HostName(), ""},
		{"another's alias", ours.HostName(), "uplink to rack 7"},
		{"our alias on a link of another name", Prefix + "aaaaaaaaa", ours.Alias()},
		{"an alias cut short", ours.HostName(), "atoll c1 eth0"},
		{"the management port", "atoll0", ""},
	} {
		if owner, is := ParseOwner(test.link, test.alias); is {
			t.Errorf("%s: taken for %+v", test.name, owner)
		}
	}
}

func TestHostName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, of := range [][2]string{{"c1", "eth0"}, {"c1", "eth1"}, {"c2", "eth0"}, {"c1e", "th0"}} {
		name := HostName(of[0], of[1])
		if len(name) != 15 || !strings.HasPrefix(name, Prefix) || seen[name] {
			t.Errorf("%v has name %q", of, name)
		}
		seen[name] = true
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add("atoll-aaaaaaaaa", "atoll c1 eth0 u1 /run/netns/a")
	f.Fuzz(func(t *testing.T, name, alias string) {
		if owner, ours := ParseOwner(name, alias); ours && owner.HostName() != name {
			t.Errorf("%q with alias %q is taken for %+v", name, alias, owner)
		}
	})
}

func TestPodMTU(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, test := range []struct {
		underlay int
		encap    netip.Addr
		want     int
	}{{1500, v4, 1442}, {1600, v4, 1542}, {1500, v6, 1422}, {65536, v4, 65478}} {
		if got := podMTU(test.underlay, test.encap); got != test.want {
			t.Errorf("underlay %d over %s: %d, want %d", test.underlay, test.encap, got, test.want)
		}
	}
}

func TestOnLink(t *testing.T) {
	t.Parallel()
	spec := Spec{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.1.5/24"), netip.MustParsePrefix("fd00::5/64")}}
	for gateway, want := range map[string]bool{"10.0.1.1": true, "10.0.2.1": false, "fd00::1": true, "fe80::1": false} {
		if got := spec.onLink(netip.MustParseAddr(gateway)); got != want {
			t.Errorf("%s: %t", gateway, got)
		}
	}
}
