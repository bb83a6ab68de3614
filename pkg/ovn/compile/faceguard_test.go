package compile_test

import (
	"bytes"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/compile"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// TestFaceGuard compares the guard's rows, and the places in them, with testdata/faceguard.out.yaml.
func TestFaceGuard(t *testing.T) {
	l := compile.Layout{Name: "default", UID: "uid-default"}
	for _, name := range []string{"front", "back"} {
		l.Subnets = append(l.Subnets, compile.SubnetLayout{Name: name, Ranges: []compile.Range{
			{CIDR: netip.MustParsePrefix("10.244.0.0/24"), Gateway: netip.MustParseAddr("10.244.0.1")},
		}})
	}
	var out bytes.Buffer
	write(t, &out, compile.FaceGuardOwner(l),
		compile.FaceGuard(l, []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}, false))
	places := compile.WayPlaces(l)
	places.Members = append(places.Members, compile.NodeWay(l, "n1"))
	write(t, &out, nb.NetworkOwner(l.Name), places)
	addresses := []netip.Addr{netip.MustParseAddr("100.64.0.1"), netip.MustParseAddr("fd64:a701::1")}
	for _, who := range []model.InfraIngress{model.InfraIngressNone, model.InfraIngressInfrastructure, model.InfraIngressAll} {
		write(t, &out, nb.PodOwner("red", string(who)), nb.Facts{Members: compile.FacePlaces(l, who, addresses)})
		write(t, &out, nb.ServiceOwner("red", string(who)), nb.Facts{Members: compile.ServicePlaces(l, who, addresses)})
	}
	const file = "testdata/faceguard.out.yaml"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("%s (-want +got; run with -update when it is meant):\n%s", file, diff)
	}
}
