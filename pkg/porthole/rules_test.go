package porthole

import (
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/knftables"

	"github.com/atoll-net/atoll/pkg/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRules compares whole tables with the files in testdata: what a person judges them by.
func TestRules(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"services": func(*Spec) {},
		"closed":   func(s *Spec) { s.Egress, s.Infra, s.DNS = model.EgressNone, model.InfraNone, nil },
		"direct":   func(s *Spec) { s.Infra = model.InfraDirect },
		"ipv4": func(s *Spec) {
			four := func(p netip.Prefix) bool { return p.Addr().Is6() }
			s.Subnets, s.ServiceRanges = slices.DeleteFunc(s.Subnets, four), nil
			s.Pods = slices.DeleteFunc(s.Pods, func(p Pod) bool { return p.Own.Is6() })
			s.DNS, s.API = s.DNS[:1], s.API[:1]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := testSpec("u1")
			change(&spec)
			fake := knftables.NewFake(knftables.InetFamily, tableName)
			golden(t, fake, writeRules(fake, spec.normal(), something), name)
		})
	}
	t.Run("node", func(t *testing.T) {
		t.Parallel()
		fake := knftables.NewFake(knftables.InetFamily, tableName)
		golden(t, fake, writeHostRules(fake, testHost().normal()), "node")
	})
}

func golden(t *testing.T, fake *knftables.Fake, tx *knftables.Transaction, name string) {
	t.Helper()
	if err := fake.Run(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	got, file := fake.Dump(), filepath.Join("testdata", name+".nft")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", file, diff)
	}
}

func TestPrefixesDoNotOverlap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want []string }{
		{nil, nil},
		{[]string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32"}, []string{"10.0.0.0/8"}},
		{[]string{"10.1.2.3/32", "10.0.0.0/8", "9.0.0.0/8"}, []string{"9.0.0.0/8", "10.0.0.0/8"}},
		{[]string{"10.0.0.0/8", "10.0.0.0/8"}, []string{"10.0.0.0/8"}},
		{[]string{"10.0.0.7/24"}, []string{"10.0.0.0/24"}},
		{[]string{"::/0", "fd00::/8", "0.0.0.0/8"}, []string{"0.0.0.0/8", "::/0"}},
		{[]string{"10.0.0.0/9", "10.128.0.0/9"}, []string{"10.0.0.0/9", "10.128.0.0/9"}},
	} {
		if diff := cmp.Diff(parsed(test.want...), prefixes(parsed(test.in...)), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%v: -want +got:\n%s", test.in, diff)
		}
	}
}

func TestTranslated(t *testing.T) {
	t.Parallel()
	got := translated(parsed("169.254.0.0/16", "fe80::/10", "192.0.2.1/32"))
	want := parsed("64:ff9b::a9fe:0/112", "64:ff9b::c000:201/128")
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
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
		func() { slices.Reverse(b.Subnets) }, func() { slices.Reverse(b.ServiceRanges) }, func() { slices.Reverse(b.Pods) }, func() { slices.Reverse(b.DNS) },
		func() { slices.Reverse(b.Cluster.Servers) }, func() { slices.Reverse(b.Cluster.Infra) },
	} {
		reverse()
	}
	a, b = a.normal(), b.normal()
	if !a.sameButPods(b) || len(missing(a.Pods, b.Pods)) > 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}
