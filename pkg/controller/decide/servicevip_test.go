package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// ranged is a vpc Network with one subnet, 10.0.0.0/24, and service ranges.
func ranged(name string, cidrs ...string) model.Network {
	n := network(name, "front", "10.0.0.0/24")
	for _, c := range cidrs {
		n.ServiceCIDRs = append(n.ServiceCIDRs, netip.MustParsePrefix(c))
	}
	return n
}

// rangedWorld has Networks red and blue with the service range 10.9.0.0/29, and a namespace of each: r and b.
func rangedWorld() *world {
	w := facedWorld("100.64.0.0/10")
	w.setNode(node("n1", 1))
	w.setNetwork(ranged("red", "10.9.0.0/29"))
	w.setNetwork(ranged("blue", "10.9.0.0/29"))
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	w.setNamespace("b", map[string]string{model.LabelNetwork: "blue"})
	return w
}

// aged is a Service of one TCP port, as old as it says.
func aged(ns, name, ip string, age int64) model.Service {
	s := service(ns, name, ip)
	s.Created = time.Unix(age, 0)
	return s
}

// own are the virtual addresses of its Network's that are written on a Service, as "network: addresses".
func (w *world) own(ns, name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.services[model.ServiceKey{Namespace: ns, Name: name}]
	if s == nil || s.Assigned == nil {
		return ""
	}
	if s.Assigned.Refused {
		return "refused"
	}
	if s.Assigned.ServiceUID != s.UID || s.Assigned.NetworkUID != w.networks[s.Assigned.Network].UID {
		return fmt.Sprintf("of another: %+v", *s.Assigned)
	}
	var texts []string
	for _, a := range s.Assigned.Addresses {
		texts = append(texts, a.String())
	}
	return s.Assigned.Network + ": " + strings.Join(texts, " ")
}

func (w *world) wantOwn(t *testing.T, ns, name, want string) {
	t.Helper()
	w.settle()
	if got := w.own(ns, name); got != want {
		t.Errorf("Service %s/%s has %q, want %q", ns, name, got, want)
	}
}

// edit changes a Service as its owner does: the controller's annotation stays.
func (w *world) edit(ns, name string, f func(*model.Service)) {
	s := *w.services[model.ServiceKey{Namespace: ns, Name: name}]
	f(&s)
	w.setService(s)
}

// serviceReasons are the reasons of the Events on a Service.
func (w *world) serviceReasons(ns, name string) []string {
	var out []string
	for _, p := range w.eventsOf("service " + ns + "/" + name) {
		out = append(out, p.Reason)
	}
	return out
}

func TestTheSameRangeInTwoNetworks(t *testing.T) {
	w := rangedWorld()
	for _, ns := range []string{"r", "b"} {
		p := pod(ns, "p", "")
		w.setPod(p)
		w.setService(service(ns, "web", map[string]string{"r": "10.96.0.5", "b": "10.96.0.6"}[ns]))
		w.settle()
		s := slice(ns, "web-1", "web")
		s.Endpoints = []model.Endpoint{endpoint(ns, "p", w.attachment(p.Key).Faces[0].String())}
		w.setSlice(s)
	}
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	w.wantOwn(t, "b", "web", "blue: 10.9.0.1")
	face := func(ns string) string {
		return w.attachment(model.PodKey{Namespace: ns, Name: "p"}).Faces[0].String() + ":8080"
	}
	for _, c := range []struct{ ns, network, ip string }{{"r", "red", "10.96.0.5:80"}, {"b", "blue", "10.96.0.6:80"}} {
		w.wantLBs(t, c.ns, "web", map[string]map[string]string{
			c.network: {c.ip: "10.0.0.2:8080", "10.9.0.1:80": "10.0.0.2:8080"},
			"default": {c.ip: face(c.ns)},
		})
	}
	want := []model.ServiceCIDRStatus{{CIDR: "10.9.0.0/29", Used: 1, Free: 5}}
	if diff := cmp.Diff(want, w.status("red").ServiceCIDRs); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if c := w.condition("red", model.ConditionServiceCIDRsValid); !c.Status {
		t.Errorf("condition %+v", c)
	}
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "web"})
	w.settle()
	if used := w.status("red").ServiceCIDRs[0].Used; used != 0 {
		t.Errorf("%d are used after the Service has gone", used)
	}
}

func TestAServicesAddressesStayOverARestart(t *testing.T) {
	w := rangedWorld()
	for i, name := range []string{"old", "middle", "young"} {
		w.setService(aged("r", name, "10.96.0.5", int64(i)))
	}
	w.settle()
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "old"})
	w.settle()
	before := w.patches
	w.restart("100.64.0.0/10")
	w.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}, "b": {model.LabelNetwork: "blue"}})
	w.setService(aged("r", "older still", "10.96.0.5", -1))
	w.wantOwn(t, "r", "middle", "red: 10.9.0.2")
	w.wantOwn(t, "r", "young", "red: 10.9.0.3")
	w.wantOwn(t, "r", "older still", "red: 10.9.0.1")
	if wrote := w.patches - before; wrote != 1 {
		t.Errorf("%d annotations were written, want that of the new Service", wrote)
	}
}

func TestWhatIsWrittenOnAServiceIsNotTrusted(t *testing.T) {
	given := func(s model.Service, network, uid, ip string) model.Service {
		s.Assigned = &model.ServiceAddresses{ServiceUID: s.UID, Network: network, NetworkUID: uid, Addresses: []netip.Addr{at(ip)}}
		return s
	}
	for what, test := range map[string]struct {
		written model.Service
		want    string
	}{
		"an address of its Network":            {given(service("r", "web", "10.96.0.5"), "red", "uid-red", "10.9.0.4"), "red: 10.9.0.4"},
		"an address of no range":               {given(service("r", "web", "10.96.0.5"), "red", "uid-red", "10.0.0.2"), "red: 10.9.0.1"},
		"the name of the range":                {given(service("r", "web", "10.96.0.5"), "red", "uid-red", "10.9.0.0"), "red: 10.9.0.1"},
		"another Network":                      {given(service("r", "web", "10.96.0.5"), "blue", "uid-blue", "10.9.0.4"), "red: 10.9.0.1"},
		"an earlier Network of the name":       {given(service("r", "web", "10.96.0.5"), "red", "uid-before", "10.9.0.4"), "red: 10.9.0.1"},
		"an address in a namespace without":    {given(service("a", "web", "10.96.0.5"), "red", "uid-red", "10.9.0.4"), ""},
		"an address of a family it has not":    {given(service("r", "web", "10.96.0.5"), "red", "uid-red", "fd09::4"), "red: 10.9.0.1"},
		"an address that an older Service has": {given(service("r", "web", "10.96.0.5"), "red", "uid-red", "10.9.0.5"), "red: 10.9.0.1"},
	} {
		t.Run(what, func(t *testing.T) {
			w := rangedWorld()
			w.setNamespace("a", nil)
			w.setService(given(aged("r", "first", "10.96.0.4", -1<<40), "red", "uid-red", "10.9.0.5"))
			w.setService(test.written)
			w.wantOwn(t, test.written.Key.Namespace, "web", test.want)
			w.wantOwn(t, "r", "first", "red: 10.9.0.5")
		})
	}
}

func TestAServiceThatAsksForAnAddress(t *testing.T) {
	w := rangedWorld()
	w.setNamespace("a", nil)
	asks := func(name string, age int64, ip string) {
		s := aged("r", name, "10.96.0.5", age)
		s.Wanted = []netip.Addr{at(ip)}
		w.setService(s)
	}
	asks("first", 1, "10.9.0.5")
	asks("second", 2, "10.9.0.5")
	asks("third", 3, "10.9.0.7")
	asks("fourth", 4, "10.0.0.9")
	asks("fifth", 5, "fd00::1")
	w.wantOwn(t, "r", "first", "red: 10.9.0.5")
	for name, reason := range map[string]string{
		"second": model.ReasonAddressInUse, "third": model.ReasonAddressReserved, "fourth": model.ReasonAddressOutsideRange,
	} {
		w.wantOwn(t, "r", name, "")
		if got := w.serviceReasons("r", name); !slices.Equal(got, []string{reason}) {
			t.Errorf("%s: Events %q, want %s", name, got, reason)
		}
	}
	// A wish for a family that the Service has not leaves it what it needs.
	w.wantOwn(t, "r", "fifth", "red: 10.9.0.1")
	if got := w.serviceReasons("r", "fifth"); !slices.Equal(got, []string{model.ReasonServiceIPsInvalid}) {
		t.Errorf("fifth: Events %q", got)
	}
	// The one that waits gets its wish when the other changes its own; that one keeps what it has until then.
	w.edit("r", "first", func(s *model.Service) { s.Wanted = []netip.Addr{at("10.9.0.1")} })
	w.wantOwn(t, "r", "first", "red: 10.9.0.5")
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "fifth"})
	w.wantOwn(t, "r", "first", "red: 10.9.0.1")
	w.wantOwn(t, "r", "second", "red: 10.9.0.5")
	w.edit("r", "second", func(s *model.Service) { s.Wanted, s.WantedError = nil, `"x" is not an IP address` })
	w.wantOwn(t, "r", "second", "red: 10.9.0.5")
	if events := w.eventsOf("service r/second"); !strings.Contains(events[len(events)-1].Message, `"x" is not an IP address`) {
		t.Errorf("Events %+v", events)
	}
	lost := service("a", "lost", "10.96.0.5")
	lost.Wanted = []netip.Addr{at("10.9.0.5")}
	w.setService(lost)
	w.wantOwn(t, "a", "lost", "")
	if got := w.serviceReasons("a", "lost"); !slices.Equal(got, []string{model.ReasonAddressOutsideRange}) {
		t.Errorf("where there is no range: Events %q", got)
	}
}

func TestARangeThatIsFull(t *testing.T) {
	w := rangedWorld()
	for i := range 7 {
		w.setService(aged("r", fmt.Sprint("s", i), "10.96.0.5", int64(i)))
	}
	w.wantOwn(t, "r", "s5", "red: 10.9.0.6")
	w.wantOwn(t, "r", "s6", "")
	if got := w.serviceReasons("r", "s6"); !slices.Equal(got, []string{model.ReasonServiceCIDRFull}) {
		t.Errorf("Events %q", got)
	}
	w.wantLBs(t, "r", "s6", map[string]map[string]string{"red": {"10.96.0.5:80": ""}, "default": {"10.96.0.5:80": ""}})
	w.deleteService(model.ServiceKey{Namespace: "r", Name: "s2"})
	w.wantOwn(t, "r", "s6", "red: 10.9.0.3")
}

func TestFamiliesAndRanges(t *testing.T) {
	w := rangedWorld()
	w.setNetwork(ranged("red", "10.9.0.0/29", "fd09::/112"))
	dual := service("r", "dual", "10.96.0.5")
	dual.ClusterIPs = append(dual.ClusterIPs, at("fd96::5"))
	six := service("r", "six", "fd96::6")
	w.setService(dual)
	w.setService(six)
	w.wantOwn(t, "r", "dual", "red: 10.9.0.1 fd09::1")
	w.wantOwn(t, "r", "six", "red: fd09::2")
	// A Service that loses a family gives the address back; a range that comes or goes is followed.
	w.edit("r", "dual", func(s *model.Service) { s.ClusterIPs = s.ClusterIPs[1:] })
	w.wantOwn(t, "r", "dual", "red: fd09::1")
	w.setNetwork(ranged("red", "10.9.0.0/29"))
	w.wantOwn(t, "r", "dual", "")
	w.setNetwork(ranged("red", "10.9.0.0/29", "fd09::/112"))
	w.wantOwn(t, "r", "dual", "red: fd09::1")
}

func TestARangeThatChanges(t *testing.T) {
	w := rangedWorld()
	w.setService(aged("r", "a", "10.96.0.5", 1))
	w.setService(aged("r", "b", "10.96.0.6", 2))
	w.settle()
	// A wider one keeps what lies in it.
	w.setNetwork(ranged("red", "10.9.0.0/24"))
	w.wantOwn(t, "r", "a", "red: 10.9.0.1")
	w.wantOwn(t, "r", "b", "red: 10.9.0.2")
	w.setNetwork(ranged("red", "10.8.0.0/24"))
	w.wantOwn(t, "r", "a", "red: 10.8.0.1")
	if got := w.serviceReasons("r", "a"); !slices.Equal(slices.Compact(got), []string{model.ReasonAddressChanged}) {
		t.Errorf("Events %q", got)
	}
	w.setNetwork(ranged("red"))
	w.wantOwn(t, "r", "a", "")
	if c := w.condition("red", model.ConditionServiceCIDRsValid); c.Type != "" {
		t.Errorf("a Network without ranges says %+v", c)
	}
	// A Network that is made anew under the name knows nothing of the first one's.
	w.setNetwork(ranged("red", "10.9.0.0/29"))
	w.settle()
	anew := ranged("red", "10.9.0.0/29")
	anew.UID = "uid-anew"
	w.setNetwork(anew)
	w.wantOwn(t, "r", "a", "red: 10.9.0.1")
}

// TestRangesThatAreNotServed: a bad range gives nothing, says why, and stops neither the Network nor the other range.
func TestRangesThatAreNotServed(t *testing.T) {
	for what, test := range map[string]struct {
		network model.Network
		reason  string
		says    string
	}{
		"a subnet's": {
			ranged("red", "10.0.0.128/25"), model.ReasonServiceCIDROverlaps, `overlaps subnet "front" (10.0.0.0/24)`,
		},
		"around a subnet": {ranged("red", "10.0.0.0/16"), model.ReasonServiceCIDROverlaps, `overlaps subnet "front" (10.0.0.0/24)`},
		"the cluster's own": {
			ranged("red", "10.96.5.0/24"), model.ReasonServiceCIDROverlaps, "overlaps 10.96.0.0/16, the cluster's own range of Services",
		},
		"the API's address": {
			ranged("red", "10.95.0.0/24"), model.ReasonServiceCIDROverlaps, "holds 10.95.0.1, the address of Service default/kubernetes",
		},
		"link-local": {ranged("red", "169.254.0.0/24"), model.ReasonServiceCIDRInvalid, "lies in 169.254.0.0/16"},
		"too large":  {ranged("red", "8.0.0.0/7"), model.ReasonServiceCIDRInvalid, "too large"},
		"unreadable": {
			func() model.Network { n := ranged("red"); n.ServiceCIDRsError = "x"; return n }(), model.ReasonServiceCIDRInvalid, "serviceCIDRs: x",
		},
		"of a flat Network": {
			func() model.Network { n := ranged("red", "10.9.0.0/24"); n.Type = model.Flat; return n }(), model.ReasonServiceCIDRInvalid,
			"only a Network of type vpc",
		},
		"beside one that is all right": {ranged("red", "10.0.0.0/16", "fd09::/112"), model.ReasonServiceCIDROverlaps, "overlaps subnet"},
	} {
		t.Run(what, func(t *testing.T) {
			settings := withFaces("100.64.0.0/10")
			settings.Services = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
			w := newWorldOf(settings)
			w.setNetwork(network("default", "d", "10.128.0.0/16"))
			n := node("n1", 1)
			n.Addresses = []netip.Addr{at("172.18.0.2")}
			w.setNode(n)
			w.setNamespace("default", nil)
			w.setService(service("default", "kubernetes", "10.95.0.1"))
			w.setNetwork(test.network)
			w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
			s := service("r", "web", "10.96.0.5")
			s.ClusterIPs = append(s.ClusterIPs, at("fd96::5"))
			w.setService(s)
			want := ""
			if len(test.network.ServiceCIDRs) == 2 {
				want = "red: fd09::1"
			}
			w.wantOwn(t, "r", "web", want)
			c := w.condition("red", model.ConditionServiceCIDRsValid)
			if c.Status || c.Reason != test.reason || !strings.Contains(c.Message, test.says) {
				t.Errorf("condition %+v", c)
			}
			if phase := w.status("red").Phase; phase != model.Degraded {
				t.Errorf("phase %s", phase)
			}
			if ready := w.condition("red", model.ConditionReady); ready.Status || ready.Reason != test.reason {
				t.Errorf("Ready is %+v", ready)
			}
			if events := w.eventsOf("red"); len(events) == 0 || events[0].Reason != test.reason {
				t.Errorf("Events %+v", events)
			}
		})
	}
}

func TestARangeFollowsTheInfrastructure(t *testing.T) {
	w := rangedWorld()
	w.setService(service("r", "web", "10.96.0.5"))
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	// A node that has an address there stays out of reach, and the Network says so; its Services keep theirs.
	n := node("n2", 2)
	n.Addresses = []netip.Addr{at("10.9.0.3")}
	w.setNode(n)
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	if c := w.condition("red", model.ConditionCIDRConflict); !strings.Contains(c.Message,
		"service range 10.9.0.0/29 holds the address 10.9.0.3 of a node: pods cannot dial it") {
		t.Errorf("condition %+v", c)
	}
	w.deleteNode("n2")
	w.settle()
	if c := w.condition("red", model.ConditionCIDRConflict); c.Status {
		t.Errorf("once the node has gone: %+v", c)
	}
	// The cluster's address for names counts as soon as it is known.
	w.state = decide.NewState(decide.Defaults{
		Network: "default", Faces: withFaces("100.64.0.0/10").Faces, DNS: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"},
	}, w.graph, w.cluster)
	w.replay(map[string]map[string]string{"r": {model.LabelNetwork: "red"}, "kube-system": nil})
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	w.setService(service("kube-system", "kube-dns", "10.9.0.2"))
	w.wantOwn(t, "r", "web", "")
}

func TestANamespaceThatMovesOrMayNot(t *testing.T) {
	w := rangedWorld()
	w.setService(service("r", "web", "10.96.0.5"))
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	w.setNamespace("r", map[string]string{model.LabelNetwork: "blue"})
	w.wantOwn(t, "r", "web", "blue: 10.9.0.1")
	if used := w.status("red").ServiceCIDRs[0].Used; used != 0 {
		t.Errorf("%d are used in the Network that it left", used)
	}
	blue := ranged("blue", "10.9.0.0/29")
	blue.Tenant, blue.Allowed = "acme", nil
	w.setNetwork(blue)
	w.wantOwn(t, "r", "web", "")
	w.setNamespace("r", map[string]string{model.LabelNetwork: "blue", model.LabelTenant: "acme"})
	w.wantOwn(t, "r", "web", "blue: 10.9.0.2")
	w.setNamespace("r", nil)
	w.wantOwn(t, "r", "web", "")
	// The default Network has none: its pods know Services by their ClusterIPs.
	home := network("default", "d", "10.128.0.0/16")
	home.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	w.setNetwork(home)
	w.wantOwn(t, "r", "web", "")
	if c := w.condition("default", model.ConditionServiceCIDRsValid); c.Status || !strings.Contains(c.Message, "ClusterIPs") {
		t.Errorf("condition %+v", c)
	}
}

func TestAnAnnotationThatSomebodyRemovesComesBack(t *testing.T) {
	w := rangedWorld()
	w.setService(service("r", "web", "10.96.0.5"))
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	w.edit("r", "web", func(s *model.Service) { s.Assigned = nil })
	w.wantOwn(t, "r", "web", "red: 10.9.0.1")
	// One that has gone and come again under its name is another.
	again := service("r", "web", "10.96.0.5")
	again.UID = "uid-again"
	w.setService(again)
	w.settle()
	w.mu.Lock()
	defer w.mu.Unlock()
	want := &model.ServiceAddresses{ServiceUID: "uid-again", Network: "red", NetworkUID: "uid-red", Addresses: []netip.Addr{at("10.9.0.2")}}
	if diff := cmp.Diff(want, w.services[again.Key].Assigned, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A Service that was deleted and made anew at once is another one, whose owner has been told nothing.
func TestAServiceMadeAnewIsToldAgain(t *testing.T) {
	w := newWorldOf(withFaces("100.64.0.0/10"))
	w.setNetwork(network("red", "s", "10.0.0.0/24"))
	w.setNamespace("x", map[string]string{model.LabelNetwork: "red"})
	asks := service("x", "web", "10.96.0.9")
	asks.Wanted = []netip.Addr{at("10.9.0.6")}
	for _, uid := range []string{"one", "two"} {
		asks.UID = uid
		w.setService(asks)
		w.settle()
		w.setService(asks)
		w.settle()
		if events := w.eventsBy["service x/web "+uid]; len(events) != 1 || events[0].Reason != model.ReasonAddressOutsideRange {
			t.Errorf("Service %s was told %+v", uid, events)
		}
	}
}
