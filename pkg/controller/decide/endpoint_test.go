package decide_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// byHandWorld is servedWorld with a Network blue, whose namespace is b, and a slice that names no pods.
func byHandWorld(t *testing.T, addresses ...string) *world {
	t.Helper()
	w, _, s := servedWorld(t)
	w.setNetwork(network("blue", "front", "10.0.0.0/24"))
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	s.Endpoints = nil
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, endpoint("r", "", a))
	}
	w.setSlice(s)
	w.settle()
	return w
}

// leads is where r/web leads in either Network, and what the Network red has of its slices.
type leads struct {
	red, infrastructure string
	mirrors             []string
}

func (w *world) leads() leads {
	mirrors := w.mirrored("r", "web")
	lbs := w.lbs("r", "web")
	return leads{lbs["red"]["10.96.0.5:80"], lbs["default"]["10.96.0.5:80"], mirrors}
}

func (w *world) wantLeads(t *testing.T, when string, want leads) {
	t.Helper()
	if diff := cmp.Diff(want, w.leads(), cmp.AllowUnexported(leads{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// asIs is an address that nobody took for a pod's.
func asIs(address string) leads {
	return leads{red: address + ":8080", mirrors: []string{"red r/web-1 (uid-r-web-1): " + address}}
}

func TestAFaceWrittenByHandIsThePodOfTheNamespacesOwnNetwork(t *testing.T) {
	theFirst := leads{red: "10.0.0.2:8080", infrastructure: "100.64.0.1:8080", mirrors: []string{"red r/web-1 (uid-r-web-1): 10.0.0.2"}}
	w := byHandWorld(t, "100.64.0.1")
	w.wantLeads(t, "a face of its own Network", theFirst)

	w = byHandWorld(t, "100.64.0.2")
	w.wantLeads(t, "a face that nobody has", asIs("100.64.0.2"))
	w.setPod(pod("b", "p", ""))
	w.wantLeads(t, "a face of another Network's pod", asIs("100.64.0.2"))

	// A pod of another namespace in the same Network is one of the Network.
	w = byHandWorld(t, "100.64.0.2")
	w.setPod(holding(pod("b", "p", "red"), "10.0.0.3/24", "100.64.0.2"))
	w.wantLeads(t, "a face of another namespace's pod in the Network", leads{
		red: "10.0.0.3:8080", infrastructure: "100.64.0.2:8080", mirrors: []string{"red r/web-1 (uid-r-web-1): 10.0.0.3"},
	})
}

// holding is a pod of Network red that has its addresses already: new pods do not get a face that a slice names.
func holding(p model.Pod, own, face string) model.Pod {
	p.Assigned = []model.Attachment{{
		PodUID: p.UID, Interface: model.DefaultInterface, Network: "red", NetworkUID: "uid-red", Subnet: "front",
		Addresses: []netip.Prefix{netip.MustParsePrefix(own)}, Faces: []netip.Addr{at(face)},
	}}
	return p
}

func TestAFaceWrittenByHandFollowsThePod(t *testing.T) {
	w := byHandWorld(t, "100.64.0.2")
	w.wantLeads(t, "before there is a pod", asIs("100.64.0.2"))
	q := holding(pod("r", "q", ""), "10.0.0.3/24", "100.64.0.2")
	w.setPod(q)
	there := leads{red: "10.0.0.3:8080", infrastructure: "100.64.0.2:8080", mirrors: []string{"red r/web-1 (uid-r-web-1): 10.0.0.3"}}
	w.wantLeads(t, "when the pod has come", there)

	n := tenantNetwork("acme", "red", "front", "10.0.0.0/24")
	w.setNetwork(n)
	w.wantLeads(t, "when the namespace may not use its Network", leads{})
	acme := map[string]string{model.LabelNetwork: "red", model.LabelTenant: "acme"}
	w.setNamespace("r", acme)
	w.wantLeads(t, "when it may again", there)

	w.setNamespace("r", map[string]string{model.LabelNetwork: "blue"})
	w.settle()
	if got := w.lbs("r", "web"); got["blue"]["10.96.0.5:80"] != "100.64.0.2:8080" || got["default"]["10.96.0.5:80"] != "" {
		t.Errorf("a face of the Network that the namespace was in before: %v", got)
	}
	w.setNamespace("r", acme)
	w.wantLeads(t, "when the namespace is back", there)

	w.deletePod(q.Key)
	w.wantLeads(t, "when the pod has gone", asIs("100.64.0.2"))
}

// TestAStrangerLearnsNothingOfFaces: a namespace that names a Network which it may not use gets nothing of it, by a
// Service with an address or without.
func TestAStrangerLearnsNothingOfFaces(t *testing.T) {
	w := byHandWorld(t)
	n := tenantNetwork("acme", "red", "front", "10.0.0.0/24")
	w.setNetwork(n)
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red", model.LabelTenant: "acme"})
	w.setNamespace("evil", map[string]string{model.LabelNetwork: "red"})
	w.setService(service("evil", "guess", "10.96.0.6"))
	for _, of := range []string{"guess", "headless"} {
		s := slice("evil", of, of)
		s.Endpoints = []model.Endpoint{endpoint("evil", "", "100.64.0.1")}
		w.setSlice(s)
	}
	w.wantLBs(t, "evil", "guess", map[string]map[string]string{"default": {"10.96.0.6:80": ""}})
	w.wantMirrors(t, "evil", "guess")
	w.wantMirrors(t, "evil", "headless")
	n.Tenant, n.Allowed = "", &match.Selector{}
	w.setNetwork(n)
	w.wantMirrors(t, "evil", "headless", "red evil/headless (uid-evil-headless): 10.0.0.2")
}
