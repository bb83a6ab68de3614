package mirror_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/mirror"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestFaces: where pods of other Networks reach those of one, its mirror has faces, of those that have one.
func TestFaces(t *testing.T) {
	addr := netip.MustParseAddr
	slice := model.Slice{
		Service: "web", Endpoints: []model.Endpoint{
			{Address: addr("100.64.0.1")}, {Address: addr("100.64.0.2")}, {Address: addr("100.64.0.3")}, {Address: addr("192.0.2.1")},
		},
	}
	places := map[netip.Addr]mirror.Place{
		addr("100.64.0.1"): {Network: "red", Address: addr("10.0.0.5"), Faces: true},
		addr("100.64.0.2"): {Network: "red", Address: addr("10.0.0.6"), Faces: true},
		addr("100.64.0.3"): {Network: "blue", Address: addr("10.0.0.5")},
		// No pod's: it is the same for all.
		addr("192.0.2.1"): {Network: "red", Address: addr("192.0.2.1"), Faces: true},
	}
	got := map[string]map[netip.Addr]netip.Addr{}
	for _, m := range mirror.Of(slice, func(e model.Endpoint) (mirror.Place, bool) { return places[e.Address], true }) {
		got[m.Network] = m.Faces
	}
	want := map[string]map[netip.Addr]netip.Addr{
		"red": {addr("10.0.0.5"): addr("100.64.0.1"), addr("10.0.0.6"): addr("100.64.0.2")}, "blue": nil,
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("faces (-want +got):\n%s", diff)
	}
}

func TestOf(t *testing.T) {
	pod := func(name, face string) model.Endpoint {
		return model.Endpoint{
			Address: netip.MustParseAddr(face), Pod: model.PodKey{Namespace: "a", Name: name}, PodUID: "uid-" + name,
			Ready: true, Serving: true, Hostname: name, Node: "node-1",
		}
	}
	at := func(e model.Endpoint, own string) model.Endpoint {
		e.Address = netip.MustParseAddr(own)
		return e
	}
	one, two, same, lost, mixed := pod("one", "100.64.0.1"), pod("two", "100.64.0.2"), pod("same",
		"100.64.0.3"), pod("lost", "100.64.0.4"), pod("mixed", "100.64.0.5")
	two.Ready = false
	places := map[string]mirror.Place{
		"one":   {Network: "red", Address: netip.MustParseAddr("10.0.0.5")},
		"two":   {Network: "red", Address: netip.MustParseAddr("10.0.0.6")},
		"same":  {Network: "blue", Address: netip.MustParseAddr("10.0.0.5")},
		"mixed": {Network: "red", Address: netip.MustParseAddr("fd00::5")},
	}
	slice := model.Slice{
		Key: model.SliceKey{Namespace: "a", Name: "web-x"}, UID: "uid", Service: "web",
		Ports:     []model.SlicePort{{Name: "http", Protocol: model.TCP, Port: 80}},
		Endpoints: []model.Endpoint{one, two, same, lost, mixed},
	}
	before := len(slice.Endpoints)
	got := mirror.Of(slice, func(e model.Endpoint) (mirror.Place, bool) {
		p, there := places[e.Pod.Name]
		return p, there
	})
	of := func(network string, endpoints ...model.Endpoint) model.Mirror {
		return model.Mirror{Network: network, Source: slice.Key, SourceUID: "uid", Service: "web", Ports: slice.Ports, Endpoints: endpoints}
	}
	want := []model.Mirror{of("blue", at(same, "10.0.0.5")), of("red", at(one, "10.0.0.5"), at(two, "10.0.0.6"))}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("mirrors (-want +got):\n%s", diff)
	}
	if len(slice.Endpoints) != before || !slice.Endpoints[0].Equal(one) {
		t.Error("the slice was changed")
	}
	if none := mirror.Of(model.Slice{}, func(model.Endpoint) (mirror.Place, bool) { return mirror.Place{}, true }); none != nil {
		t.Errorf("mirrors of nothing: %v", none)
	}
}
