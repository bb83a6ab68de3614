//go:build integration

package decide_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
)

// vip4 is an address of the Service that dualService makes in the namespace r.
const vip4 = "10.96.0.6:80"

// homes are the namespaces and Networks that a Service is tried in.
var homes = map[string]string{"a": "default", "r": "red"}

func TestServicesWithPackets(t *testing.T) {
	s := newStage(t)
	for ns, network := range homes {
		t.Run(network, func(t *testing.T) {
			s.t = t
			client := s.pod(ns, "client")
			for _, name := range []string{"one", "two"} {
				s.serve(s.pod(ns, name), 8080, name)
			}
			s.setService(dualService(ns, "web"))
			for _, vip := range vips(ns) {
				s.leads(network, ns+"/web", "udp", vip)
				for _, protocol := range []string{"tcp", "udp"} {
					if got := asks(t, client, protocol, vip); got != "connection refused" {
						t.Errorf("%s %s without endpoints: %q", protocol, vip, got)
					}
				}
			}
			for i, vip := range vips(ns) {
				s.leadsTo(ns, "web", i == 1, "one", "two")
				source := s.own(ns, "client", i == 1)
				want := []string{fmt.Sprintf("one sees %s", source), fmt.Sprintf("two sees %s", source)}
				for _, protocol := range []string{"tcp", "udp"} {
					seen := map[string]int{}
					for range 24 {
						seen[asks(t, client, protocol, vip)]++
					}
					for answer := range seen {
						if !slices.Contains(want, answer) {
							t.Errorf("%s %s: %v", protocol, vip, seen)
						}
					}
					if len(seen) != 2 {
						t.Errorf("%s %s is answered by one alone: %v", protocol, vip, seen)
					}
				}
			}
		})
	}
}

// A pod that reaches itself sees the virtual address as its client.
func TestAPodReachesItselfWithPackets(t *testing.T) {
	s := newStage(t)
	for ns, network := range homes {
		t.Run(network, func(t *testing.T) {
			s.t = t
			one := s.pod(ns, "one")
			s.serve(one, 8080, "one")
			s.setService(dualService(ns, "web"))
			for i, vip := range vips(ns) {
				s.leadsTo(ns, "web", i == 1, "one")
				for _, protocol := range []string{"tcp", "udp"} {
					want := "one sees " + netip.MustParseAddrPort(vip).Addr().String()
					for range 3 {
						if got := asks(t, one, protocol, vip); got != want {
							t.Errorf("%s %s: %q, want %q", protocol, vip, got, want)
						}
					}
				}
			}
		})
	}
}

// A connection stays with its endpoint when that leaves the Service. Packets by UDP from one port, which are no
// connection, go to another endpoint, or are refused when there is none.
func TestEndpointsThatLeaveWithPackets(t *testing.T) {
	s := newStage(t)
	for ns, network := range homes {
		t.Run(network, func(t *testing.T) {
			s.t = t
			client := s.pod(ns, "client")
			for _, name := range []string{"one", "two"} {
				s.serve(s.pod(ns, name), 8080, name)
			}
			s.setService(dualService(ns, "web"))
			for i, vip := range vips(ns) {
				to := func(names ...string) {
					t.Helper()
					s.leadsTo(ns, "web", i == 1, names...)
				}
				said := func(c talk, want string) {
					t.Helper()
					if answer, err := c.ask(); err != nil && refusal(err) != want || err == nil && !strings.HasPrefix(answer, want) {
						t.Errorf("%s from %s: %q (%v), want %s", vip, c.LocalAddr(), answer, err, want)
					}
				}
				to("one")
				tcp, err := dial(t, client, "tcp", vip)
				if err != nil {
					t.Fatal(err)
				}
				udp, err := dial(t, client, "udp", vip)
				if err != nil {
					t.Fatal(err)
				}
				said(tcp, "one")
				said(udp, "one")
				to("two")
				said(tcp, "one")
				said(udp, "two")
				if got := asks(t, client, "tcp", vip); !strings.HasPrefix(got, "two") {
					t.Errorf("a new connection: %q", got)
				}
				to()
				said(tcp, "one")
				said(udp, "connection refused")
				if got := asks(t, client, "tcp", vip); got != "connection refused" {
					t.Errorf("a new connection: %q", got)
				}
				to("one")
				said(tcp, "one")
				said(udp, "one")
			}
		})
	}
}

// A client keeps its endpoint, another client may have another, and one whose endpoint leaves gets the next.
func TestSessionAffinityWithPackets(t *testing.T) {
	s := newStage(t)
	const ns = "r"
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("server-%d", i)
		names = append(names, name)
		s.serve(s.pod(ns, name), 8080, name)
	}
	web := dualService(ns, "web")
	web.Affinity = 60
	s.setService(web)
	for i, vip := range vips(ns) {
		to := func(names ...string) {
			t.Helper()
			s.leadsTo(ns, "web", i == 1, names...)
		}
		to(names...)
		for _, protocol := range []string{"tcp", "udp"} {
			chosen := map[string]bool{}
			for j := range 6 {
				client := s.pod(ns, fmt.Sprintf("client-%d-%s-%d", i, protocol, j))
				first := asks(t, client, protocol, vip)
				for range 8 {
					if again := asks(t, client, protocol, vip); again != first {
						t.Errorf("%s %s: %q, then %q", protocol, vip, first, again)
					}
				}
				who, _, _ := strings.Cut(first, " ")
				chosen[who] = true
				if j > 0 {
					continue
				}
				left := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == who })
				to(left...)
				next := asks(t, client, protocol, vip)
				if other, _, _ := strings.Cut(next, " "); !slices.Contains(left, other) {
					t.Errorf("%s %s without %s: %q", protocol, vip, who, next)
				}
				to(names...)
			}
			if len(chosen) < 2 {
				t.Errorf("%s %s: all six clients have %v", protocol, vip, chosen)
			}
		}
	}
}

// The same named port may have another number in each pod: Kubernetes makes a slice for each number.
func TestNamedPortsWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	s.setService(dualService("r", "web"))
	var leads []netip.AddrPort
	for i, name := range []string{"one", "two"} {
		port := uint16(8080 + i)
		s.serve(s.pod("r", name), port, name)
		s.setSlice(model.Slice{
			Key: model.SliceKey{Namespace: "r", Name: "web-" + name}, UID: "uid-" + name, Service: "web",
			Ports:     []model.SlicePort{{Name: "tcp", Protocol: model.TCP, Port: port}},
			Endpoints: []model.Endpoint{endpoint("r", name, s.face("r", name, false).String())},
		})
		leads = append(leads, netip.AddrPortFrom(s.own("r", name, false), port))
	}
	s.leads("red", "r/web", "tcp", vip4, leads...)
	seen := map[string]bool{}
	for range 24 {
		seen[asks(t, client, "tcp", vip4)] = true
	}
	source := s.own("r", "client", false)
	if want := map[string]bool{fmt.Sprintf("one sees %s", source): true, fmt.Sprintf("two sees %s", source): true}; !maps.Equal(seen, want) {
		t.Errorf("%v, want %v", seen, want)
	}
}

// A Service without a selector leads to what somebody wrote into its slices: addresses beyond the Network are dialled from
// there, by its porthole.
func TestEndpointsOutsideOfTheNetworkWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	outside := netip.MustParsePrefix("203.0.113.10/32")
	porthole := model.PortholeAddresses()[0]
	g, err := s.chassis.Plug(t.Context(), ovn.Interface{
		Port: model.PortholePortName("red"), MAC: model.PortholeMAC, Addresses: []netip.Prefix{porthole, outside},
		Gateways: []netip.Addr{model.EdgeAddresses()[0].Addr()},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.serveAt(g, netip.AddrPortFrom(outside.Addr(), 5432), "outside")
	s.setService(dualService("r", "web"))
	s.setSlice(model.Slice{
		Key: model.SliceKey{Namespace: "r", Name: "by-hand"}, UID: "uid-by-hand", Service: "web",
		Ports:     []model.SlicePort{{Name: "tcp", Protocol: model.TCP, Port: 5432}, {Name: "udp", Protocol: model.UDP, Port: 5432}},
		Endpoints: []model.Endpoint{endpoint("r", "", outside.Addr().String())},
	})
	for _, protocol := range []string{"tcp", "udp"} {
		s.leads("red", "r/web", protocol, vip4, netip.AddrPortFrom(outside.Addr(), 5432))
		want := "outside sees " + s.own("r", "client", false).String()
		if got := asks(t, client, protocol, vip4); got != want {
			t.Errorf("%s: %q, want %q", protocol, got, want)
		}
	}
}

// Who may write slices in a namespace reaches what its Network reaches anyway, and never a pod of another one.
func TestSlicesOfAnAttackerWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	s.serve(s.pod("r", "one"), 8080, "red one")
	for _, name := range []string{"first", "victim"} {
		s.serve(s.pod("b", name), 8080, "blue "+name)
	}
	if s.own("r", "one", false) != s.own("b", "victim", false) {
		t.Fatalf("the victim has another address: %s", s.own("b", "victim", false))
	}
	s.setService(dualService("r", "web"))
	victim := s.attachment(model.PodKey{Namespace: "b", Name: "victim"})
	by := func(change func(*model.Endpoint)) model.Slice {
		e := endpoint("r", "", s.own("r", "one", false).String())
		change(&e)
		return model.Slice{
			Key: model.SliceKey{Namespace: "r", Name: "by-hand"}, UID: "uid-by-hand", Service: "web",
			Ports: []model.SlicePort{{Name: "tcp", Protocol: model.TCP, Port: 8080}}, Endpoints: []model.Endpoint{e},
		}
	}
	for _, test := range []struct {
		what     string
		slice    model.Slice
		leads    []netip.AddrPort
		answered string
	}{
		{
			"an address that both Networks have", by(func(*model.Endpoint) {}),
			[]netip.AddrPort{netip.AddrPortFrom(s.own("r", "one", false), 8080)},
			"red one sees " + s.own("r", "client", false).String(),
		},
		{"the victim's name, in the attacker's namespace", by(func(e *model.Endpoint) {
			e.Pod = model.PodKey{Namespace: "r", Name: "victim"}
		}), nil, "connection refused"},
		{"its own pod's name with the victim's UID", by(func(e *model.Endpoint) {
			e.Pod, e.PodUID = model.PodKey{Namespace: "r", Name: "one"}, "uid-of-the-victim"
		}), nil, "connection refused"},
		{"its own pod's name at the victim's face", by(func(e *model.Endpoint) {
			e.Pod, e.Address = model.PodKey{Namespace: "r", Name: "one"}, victim.Faces[0]
		}), []netip.AddrPort{netip.AddrPortFrom(s.own("r", "one", false), 8080)}, "red one sees " + s.own("r", "client", false).String()},
	} {
		s.setSlice(test.slice)
		s.leads("red", "r/web", "tcp", vip4, test.leads...)
		if got := asks(t, client, "tcp", vip4); got != test.answered {
			t.Errorf("%s: %q, want %q", test.what, got, test.answered)
		}
	}
}
