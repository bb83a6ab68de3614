package porthole

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func TestPrefixesDoNotOverlap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ given, want []string }{
		{nil, nil},
		{[]string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32"}, []string{"10.0.0.0/8"}},
		{[]string{"10.1.2.3/32", "10.0.0.0/8", "9.0.0.0/8"}, []string{"9.0.0.0/8", "10.0.0.0/8"}},
		{[]string{"10.0.0.0/8", "10.0.0.0/8"}, []string{"10.0.0.0/8"}},
		{[]string{"10.0.0.7/24"}, []string{"10.0.0.0/24"}},
		{[]string{"::/0", "fd00::/8", "0.0.0.0/8"}, []string{"0.0.0.0/8", "::/0"}},
		{[]string{"10.0.0.0/9", "10.128.0.0/9"}, []string{"10.0.0.0/9", "10.128.0.0/9"}},
	} {
		if diff := cmp.Diff(parsed(test.want...), model.Outermost(parsed(test.given...)),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%v: -want +got:\n%s", test.given, diff)
		}
	}
}

func TestLinkLocal(t *testing.T) {
	t.Parallel()
	mac, err := net.ParseMAC("0a:58:0a:80:01:02")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := linkLocal(mac), netip.MustParseAddr("fe80::858:aff:fe80:102"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNamesFitAndDiffer(t *testing.T) {
	t.Parallel()
	id, other := IDOf("4dd3b2a1-uid"), IDOf("4dd3b2a2-uid")
	if id == other {
		t.Error("two Networks have one ID")
	}
	for _, name := range []string{id.Name(), id.HostLink()} {
		if len(name) > 15 {
			t.Errorf("%s is too long for an interface", name)
		}
		if found, has := idIn(name); !has || found != id {
			t.Errorf("%s is read as %q", name, found)
		}
	}
	for _, name := range []string{"atoll-aaaaaaaaa", NodePort, EdgePort, model.NodeInterface, "eth0", "atollh-"} {
		if found, has := idIn(name); has {
			t.Errorf("%s is read as the porthole %q", name, found)
		}
	}
}

// What is written in another order is the same, so that nothing is made anew for it.
func TestOrderDoesNotMatter(t *testing.T) {
	t.Parallel()
	a, b := testSpec("u1"), testSpec("u1")
	for _, reverse := range []func(){
		func() { slices.Reverse(b.Subnets) }, func() { slices.Reverse(b.ServiceRanges) }, func() { slices.Reverse(b.Pods) },
		func() { slices.Reverse(b.DNS) },
		func() { slices.Reverse(b.Cluster.Servers) }, func() { slices.Reverse(b.Cluster.Infra) },
	} {
		reverse()
	}
	a, b = a.normal(), b.normal()
	if !a.sameButPods(b) || len(missing(a.Pods, b.Pods)) > 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}
