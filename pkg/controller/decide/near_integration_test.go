//go:build integration

package decide_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// nearStage is a stage with a second node, n2. Node n1 is in zone a, and n2 in zone b.
type nearStage struct {
	*stage
	nodes map[string]*ovn.Chassis
}

func newNearStage(t *testing.T) *nearStage {
	s := newStage(t)
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	datapath, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	second, err := ovn.StartChassis(t.Context(), ovn.ChassisOptions{
		Dir: dir, Name: "n2", Southbound: s.central.SBAddress(), Datapath: datapath, Tunnel: netip.MustParseAddr("192.0.2.2"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Stop)
	if err := ovn.Link(t.Context(), s.chassis, second); err != nil {
		t.Fatal(err)
	}
	for name, zone := range map[string]string{"n1": "a", "n2": "b"} {
		n := node(name, 1)
		n.Labels = map[string]string{model.LabelZone: zone}
		s.setNode(n)
	}
	return &nearStage{s, map[string]*ovn.Chassis{"n1": s.chassis, "n2": second}}
}

// on makes a pod of a node.
func (s *nearStage) on(node, ns, name string) *ovn.Guest {
	s.t.Helper()
	p := pod(ns, name, "")
	p.Node = node
	s.setPod(p)
	eventually(s.t, "attached", func() string {
		if s.attachment(p.Key) == nil {
			return "not attached"
		}
		return "attached"
	})
	s.chassis = s.nodes[node]
	return s.plug(p.Key, p.UID)
}

// put has slices of the Service web name these endpoints, in both families.
func (s *nearStage) put(ns string, endpoints ...model.Endpoint) {
	s.t.Helper()
	for _, v6 := range []bool{false, true} {
		name := fmt.Sprint("web-", v6)
		slice := model.Slice{
			Key: model.SliceKey{Namespace: ns, Name: name}, UID: "uid-" + name, Service: "web",
			Ports: []model.SlicePort{{Name: "tcp", Protocol: model.TCP, Port: 8080}, {Name: "udp", Protocol: model.UDP, Port: 8080}},
		}
		for _, e := range endpoints {
			e.Address = s.face(ns, e.Pod.Name, v6)
			slice.Endpoints = append(slice.Endpoints, e)
		}
		s.setSlice(slice)
	}
}

// settled waits until both nodes have what the controller has decided.
func (s *nearStage) settled() {
	s.t.Helper()
	for _, c := range s.nodes {
		s.chassis = c
		s.sync()
	}
}

// answers wants clients to be answered by exactly these, or to hear nothing but refusals or nothing where nobody is named.
func (s *nearStage) answers(when string, client *ovn.Guest, at []string, want ...string) {
	s.t.Helper()
	for _, vip := range at {
		for _, protocol := range []string{"tcp", "udp"} {
			var seen map[string]int
			what := fmt.Sprintf("%s: %s %s is answered by %v", when, protocol, vip, want)
			wait.Eventually(s.t, time.Minute, what, func(context.Context) error {
				s.settled()
				seen = map[string]int{}
				for range 12 {
					answer := asks(s.t, client, protocol, vip)
					if name, _, answered := strings.Cut(answer, " sees "); answered {
						seen[name]++
					} else if seen["nobody"]++; len(want) == 0 {
						break
					}
				}
				expected := want
				if len(want) == 0 {
					expected = []string{"nobody"}
				}
				if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, expected) {
					return fmt.Errorf("%v", seen)
				}
				return nil
			})
		}
	}
}

// With internalTrafficPolicy Local a client is led to endpoints of its own node alone, in either IP family, and in the default
// Network to faces of that node; connections stay while endpoints go; where the node has none, nobody answers. The control is the
// same Service without it.
func TestInternalTrafficPolicyLocalWithPackets(t *testing.T) {
	s := newNearStage(t)
	const ns = "r"
	clients := map[string]*ovn.Guest{}
	for _, n := range []string{"n1", "n2"} {
		clients[n] = s.on(n, ns, "client-"+n)
		s.serve(s.on(n, ns, "agent-"+n), 8080, "agent-"+n)
	}
	end := func(node string) model.Endpoint {
		e := endpoint(ns, "agent-"+node, "192.0.2.99")
		e.Node = node
		return e
	}
	web := dualService(ns, "web")
	web.Ports = web.Ports[:2]
	s.setService(web)
	s.put(ns, end("n1"), end("n2"))
	service := vips(ns)
	at := service[:]
	s.answers("the control, from n1", clients["n1"], at, "agent-n1", "agent-n2")
	s.answers("the control, from n2", clients["n2"], at, "agent-n1", "agent-n2")

	web.Local = true
	s.setService(web)
	s.answers("Local, from n1", clients["n1"], at, "agent-n1")
	s.answers("Local, from n2", clients["n2"], at, "agent-n2")
	var open, datagrams []talk
	for _, vip := range at {
		for protocol, into := range map[string]*[]talk{"tcp": &open, "udp": &datagrams} {
			c, err := dial(t, clients["n1"], protocol, vip)
			if err != nil {
				t.Fatal(err)
			}
			if answer, err := c.ask(); err != nil || !strings.HasPrefix(answer, "agent-n1") {
				t.Errorf("%s to %s: %q (%v)", protocol, vip, answer, err)
			}
			*into = append(*into, c)
		}
	}
	// A pod that reaches itself.
	if got := asks(t, s.guests[model.PodKey{Namespace: ns, Name: "agent-n1"}], "tcp", at[0]); !strings.HasPrefix(got, "agent-n1 sees") {
		t.Errorf("a pod that reaches itself: %q", got)
	}

	going := end("n1")
	going.Ready = false
	s.put(ns, going, end("n2"))
	s.answers("n1's is going, and no other is there", clients["n1"], at, "agent-n1")
	going.Serving = false
	s.put(ns, going, end("n2"))
	s.answers("n1 has none", clients["n1"], at)
	s.answers("n1 has none: from n2", clients["n2"], at, "agent-n2")
	for _, c := range open {
		if answer, err := c.ask(); err != nil || !strings.HasPrefix(answer, "agent-n1") {
			t.Errorf("a connection that was open when its endpoint left: %q (%v)", answer, err)
		}
	}
	for _, c := range datagrams {
		if answer, err := c.ask(); err == nil {
			t.Errorf("a datagram from the port whose endpoint left: %q", answer)
		}
	}
	s.put(ns, end("n1"), end("n2"))
	s.answers("n1's is there again", clients["n1"], at, "agent-n1")
	for _, c := range datagrams {
		if answer, err := c.ask(); err != nil || !strings.HasPrefix(answer, "agent-n1") {
			t.Errorf("a datagram from the same port, when an endpoint is there again: %q (%v)", answer, err)
		}
	}

	// Hints of the slices, for zones.
	one, two := end("n1"), end("n2")
	one.ForZones, two.ForZones = []string{"a"}, []string{"b"}
	web.Local, web.Prefers = false, model.PrefersZone
	s.setService(web)
	s.put(ns, one, two)
	s.answers("the zone, from n1", clients["n1"], at, "agent-n1")
	s.answers("the zone, from n2", clients["n2"], at, "agent-n2")
	s.put(ns, one)
	s.answers("none in the zone of n2", clients["n2"], at, "agent-n1")
}
