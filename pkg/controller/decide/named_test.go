package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// narrowWorld has the tenants acme and evil, namespaces of the same names, in a Network that both may use, on a node with six faces.
func narrowWorld() *world {
	settings := withFaces("100.64.0.0/24")
	settings.FaceBlock = 3
	w := &world{cluster: newCluster(), graph: graph.New(), settings: settings}
	w.state = decide.NewState(settings, w.graph, w.cluster)
	home := network("default", "pods", "10.244.0.0/28")
	home.Type = model.Flat
	w.setNetwork(home)
	w.setNetwork(network("shared", "front", "10.0.0.0/24"))
	for _, tenant := range []string{"acme", "evil"} {
		w.setNamespace(tenant, map[string]string{model.LabelTenant: tenant, model.LabelNetwork: "shared"})
	}
	w.setNode(node("n1", 1))
	w.settle()
	return w
}

// run makes a pod and returns its face, or its address in the default Network. What is empty has none.
func (w *world) run(t *testing.T, ns, name string) netip.Addr {
	t.Helper()
	w.setPod(pod(ns, name, ""))
	w.settle()
	a := w.attachment(model.PodKey{Namespace: ns, Name: name})
	switch {
	case a == nil:
		return netip.Addr{}
	case len(a.Faces) > 0:
		return a.Faces[0]
	}
	return a.Addresses[0].Addr()
}

func (w *world) end(ns, name string) {
	w.deletePod(model.PodKey{Namespace: ns, Name: name})
	w.settle()
}

// naming is a slice that names addresses.
func naming(ns, name string, addresses ...netip.Addr) model.Slice {
	s := slice(ns, name, "web")
	for i, a := range addresses {
		s.Endpoints = append(s.Endpoints, endpoint(ns, fmt.Sprint("gone-", i), a.String()))
	}
	return s
}

// TestNobodyGetsAFaceThatASliceNames: kube-proxy leads a node port to whoever has the face that a slice names. The control
// is the same without the slice.
func TestNobodyGetsAFaceThatASliceNames(t *testing.T) {
	for _, named := range []bool{false, true} {
		w := narrowWorld()
		face := w.run(t, "acme", "server")
		if named {
			w.setSlice(naming("acme", "web-1", face))
		}
		w.end("acme", "server")
		var got []netip.Addr
		for i := range 12 {
			name := fmt.Sprint("p", i)
			got = append(got, w.run(t, "evil", name))
			w.end("evil", name)
		}
		if slices.Contains(got, face) == named {
			t.Errorf("named: %v; pods of another tenant had the faces %v, and the server had %s", named, got, face)
		}
		if named {
			w.deleteSlice(model.SliceKey{Namespace: "acme", Name: "web-1"})
			w.settle()
			for i := range 6 {
				got = append(got, w.run(t, "evil", fmt.Sprint("q", i)))
			}
			if !slices.Contains(got, face) {
				t.Errorf("nobody has face %s, which no slice names any more: %v", face, got)
			}
		}
	}
}

// TestNobodyGetsAnAddressThatASliceNames is the same of the default Network, whose addresses are the cluster's, and of a
// controller that starts when the pod has gone: that one gives the lowest address first.
func TestNobodyGetsAnAddressThatASliceNames(t *testing.T) {
	for _, named := range []bool{false, true} {
		w := narrowWorld()
		w.setNamespace("x", nil)
		w.settle()
		address := w.run(t, "x", "server")
		if named {
			w.setSlice(naming("x", "web-1", address))
		}
		w.end("x", "server")
		w.begin(w.cluster)
		if got := w.run(t, "x", "next"); got == address == named || !got.IsValid() {
			t.Errorf("named: %v; the next pod has %s, and the server had %s", named, got, address)
		}
	}
}

// TestNamedAddressesKeepNobodyWaiting: where all that is free is named, a pod gets what is missed least. Who names
// everything by hand loses first what it names.
func TestNamedAddressesKeepNobodyWaiting(t *testing.T) {
	w := narrowWorld()
	w.state.Turn(time.Unix(1000, 0))
	var faces []netip.Addr
	for i, ns := range []string{"acme", "acme", "evil", "evil", "evil", "evil"} {
		faces = append(faces, w.run(t, ns, fmt.Sprint("p", i)))
	}
	w.setSlice(naming("acme", "web-1", faces[:2]...))
	w.setSlice(naming("evil", "web-1", faces...))
	for i, ns := range []string{"acme", "acme", "evil", "evil", "evil", "evil"} {
		w.state.Turn(time.Unix(1001+int64(i), 0))
		// The first to go are acme's: the oldest, which are not given first all the same.
		w.end(ns, fmt.Sprint("p", i))
	}
	w.setNamespace("third", map[string]string{model.LabelTenant: "third", model.LabelNetwork: "shared"})
	w.settle()
	var got []netip.Addr
	for i := range 4 {
		got = append(got, w.run(t, "third", fmt.Sprint("q", i)))
	}
	if !slices.Equal(got, faces[2:]) {
		t.Errorf("a third tenant's pods have %v, want those that evil alone names, the oldest first: %v", got, faces[2:])
	}
	if a := w.run(t, "evil", "last"); !slices.Contains(faces[:2], a) {
		t.Errorf("a pod has %q where what is free is named, want one of %v", a, faces[:2])
	}
	for about, told := range w.events {
		if strings.HasPrefix(about, "third/") || strings.HasPrefix(about, "evil/") {
			t.Errorf("%s was told %+v", about, told)
		}
	}
}

// TestATenantsOwnNamesComeFirst: where all that is free is named, a tenant's pods get what the tenant's own slices name.
func TestATenantsOwnNamesComeFirst(t *testing.T) {
	for _, ns := range []string{"acme", "evil"} {
		w := narrowWorld()
		var faces []netip.Addr
		for i := range 6 {
			faces = append(faces, w.run(t, "acme", fmt.Sprint("p", i)))
		}
		w.setSlice(naming("acme", "web-1", faces[:5]...))
		w.setSlice(naming("evil", "web-1", faces[5]))
		for i := range 6 {
			w.end("acme", fmt.Sprint("p", i))
		}
		if a := w.run(t, ns, "next"); (a == faces[5]) != (ns == "evil") {
			t.Errorf("a pod of %s has %s; acme's slices name %v, and evil's %s", ns, a, faces[:5], faces[5])
		}
	}
}

// TestAnotherSubnetComesBeforeNamedAddresses: a Network's next subnet has room.
func TestAnotherSubnetComesBeforeNamedAddresses(t *testing.T) {
	w := narrowWorld()
	n := network("shared", "front", "10.0.0.0/30", "back", "10.0.1.0/24")
	w.setNetwork(n)
	w.settle()
	w.run(t, "acme", "p")
	own := w.attachment(model.PodKey{Namespace: "acme", Name: "p"}).Addresses[0].Addr()
	w.setSlice(naming("acme", "web-1", own))
	w.end("acme", "p")
	w.run(t, "evil", "q")
	if a := w.attachment(model.PodKey{Namespace: "evil", Name: "q"}); a == nil || a.Subnet != "back" {
		t.Errorf("the pod has %+v, want an address of the subnet back: the only one of front, %s, is named", a, own)
	}
}

// TestAnAddressThatIsAskedForRests: in a shared Network nobody asks for the address of another tenant's pod and is dialled
// in its place; but not for ever, not because of slices of anybody else's, and the tenant's own pods do not wait.
func TestAnAddressThatIsAskedForRests(t *testing.T) {
	start, wanted := time.Unix(1000, 0), at("10.0.0.9")
	tests := []struct {
		name, namedBy, asks string
		unname              bool
		after               time.Duration
		waits               bool
	}{
		{name: "another tenant", namedBy: "acme", asks: "evil", waits: true},
		{name: "the same tenant", namedBy: "acme", asks: "acme"},
		{name: "slices of who asks", namedBy: "evil", asks: "evil"},
		{name: "slices of a third", namedBy: "third", asks: "evil"},
		{name: "after 9 minutes", namedBy: "acme", asks: "evil", after: 9 * time.Minute, waits: true},
		{name: "after 10 minutes", namedBy: "acme", asks: "evil", after: 10 * time.Minute},
		{name: "no slice names it any more", namedBy: "acme", asks: "evil", unname: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := narrowWorld()
			w.state.Turn(start)
			w.setPod(asking("acme", "server", "shared", model.NICRequest{IP: wanted}))
			w.settle()
			s := naming(tt.namedBy, "web-1", wanted)
			w.setSlice(s)
			w.settle()
			w.end("acme", "server")
			p := asking(tt.asks, "next", "shared", model.NICRequest{IP: wanted})
			w.setPod(p)
			w.settle()
			if tt.unname {
				w.deleteSlice(s.Key)
				w.settle()
			}
			if tt.after > 0 {
				if due, ok := w.state.Due(); !ok || due.After(start.Add(10*time.Minute)) {
					t.Errorf("nothing is due until the address has rested: %s", due)
				}
				w.turn(start.Add(tt.after))
			}
			if w.hasPort(p) == tt.waits {
				t.Errorf("the pod waits: %v, want %v; it was told %+v", !w.hasPort(p), tt.waits, w.eventsOf(p.Key.String()))
			}
			if told := w.eventsOf(p.Key.String()); tt.waits && (len(told) != 1 || !strings.Contains(told[0].Message, "still name it")) {
				t.Errorf("the pod that waits was told %+v", told)
			}
		})
	}
}
