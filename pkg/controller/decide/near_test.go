package decide_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// zonedWorld has nodes n1 and n2 in zone a, n3 in zone b and n4 in none; a pod of Network red on each of the first three, and a
// Service web of them all, by UDP and TCP.
func zonedWorld(t *testing.T) (*world, model.Slice) {
	t.Helper()
	w := facedWorld("100.64.0.0/10")
	w.setNamespace("r", map[string]string{model.LabelNetwork: "red"})
	s := slice("r", "web-1", "web")
	s.Ports = append(s.Ports, model.SlicePort{Name: "udp", Protocol: model.UDP, Port: 8080})
	for i, zone := range []string{"a", "a", "b", ""} {
		n := node(fmt.Sprint("n", i+1), 1)
		if zone != "" {
			n.Labels = map[string]string{model.LabelZone: zone}
		}
		w.setNode(n)
	}
	for _, number := range []string{"1", "2", "3"} {
		p := pod("r", "p"+number, "")
		p.Node = "n" + number
		w.setPod(p)
		w.settle()
		e := endpoint("r", p.Key.Name, w.attachment(p.Key).Faces[0].String())
		e.Node = p.Node
		s.Endpoints = append(s.Endpoints, e)
	}
	w.setSlice(s)
	return w, s
}

func zoned() model.Service {
	s := service("r", "web", "10.96.0.5")
	s.Ports = append(s.Ports, model.ServicePort{Name: "udp", Protocol: model.UDP, Port: 80})
	return s
}

// near is where clients on a node are led in a Network: the endpoints by the last number of their addresses, by which a pod of
// red is known; "none" where no row leads the address anywhere there, and "refused" where one leads nowhere.
func (w *world) near(t *testing.T, network, node, vip string, protocol model.Protocol) string {
	t.Helper()
	variables := map[string]string{}
	facts, _ := w.graph.Facts(nb.PlaceOwner(node))
	for _, m := range facts.Members {
		name, value := nb.SplitPair(m.Value)
		variables[nb.TemplateMark+name] = value
	}
	found := "none"
	facts, _ = w.graph.Facts(nb.ServiceOwner("r", "web"))
	for _, row := range facts.Rows {
		lb, is := row.(*nb.LoadBalancer)
		if !is || lb.ExternalIDs[nb.KeyNetwork] != network || *lb.Protocol != string(protocol) || strings.HasSuffix(lb.Name, ":left") {
			continue
		}
		for _, pair := range w.graph.Elements(nb.Set{Row: nb.RefOf(lb), Column: nb.ColumnVips}) {
			key, backends := nb.SplitPair(pair)
			for name, value := range variables {
				if strings.HasPrefix(key, nb.TemplateMark) {
					value = "[" + value + "]"
				}
				key = strings.Replace(key, name, value, 1)
			}
			if key != vip {
				continue
			}
			if found != "none" {
				t.Fatalf("two rows lead %s in Network %s for clients on %s", vip, network, node)
			}
			found = "refused"
			var last []string
			for _, b := range strings.FieldsFunc(backends, func(r rune) bool { return r == ',' }) {
				text := netip.MustParseAddrPort(b).Addr().String()
				last = append(last, text[strings.LastIndexAny(text, ".:")+1:])
			}
			if len(last) > 0 {
				slices.Sort(last)
				found = strings.Join(last, " ")
			}
		}
	}
	return found
}

// wantNear wants clients of red on the nodes n1 to n4 to be led there.
func (w *world) wantNear(t *testing.T, when string, want ...string) {
	t.Helper()
	w.settle()
	for _, protocol := range []model.Protocol{model.TCP, model.UDP} {
		var got []string
		for i := range want {
			got = append(got, w.near(t, "red", fmt.Sprint("n", i+1), "10.96.0.5:80", protocol))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, by %s (-want +got):\n%s", when, protocol, diff)
		}
	}
}

// The pods p1, p2 and p3 have the own addresses 10.0.0.2 to 10.0.0.4 in this world.

func TestInternalTrafficPolicyLocal(t *testing.T) {
	w, s := zonedWorld(t)
	web := zoned()
	w.setService(web)
	w.wantNear(t, "without it, the control", "2 3 4", "2 3 4", "2 3 4", "2 3 4")
	if rows := w.placeRows(); rows != 0 {
		t.Errorf("%d nodes have variables that no Service needs", rows)
	}
	web.Local = true
	w.setService(web)
	w.wantNear(t, "Local", "2", "3", "4", "none")
	for i, want := range []string{"1", "2", "3"} {
		// Infrastructure's pods in the default Network are led to faces of their own node.
		got, face := w.near(t, "default", fmt.Sprint("n", want), "10.96.0.5:80", model.TCP), s.Endpoints[i].Address.String()
		if last := face[strings.LastIndex(face, ".")+1:]; got != last {
			t.Errorf("the default Network's clients on n%s are led to %s, want the face that ends in %s", want, got, last)
		}
	}
	s.Endpoints[1].Node = "nowhere"
	w.setSlice(s)
	w.wantNear(t, "the only one of n2 is said to be on a node that there is not", "2", "none", "4", "none")
	facts, _ := w.graph.Facts(nb.ServiceOwner("r", "web"))
	led := 0
	for _, row := range facts.Rows {
		if lb, is := row.(*nb.LoadBalancer); is && lb.ExternalIDs[nb.KeyNetwork] == "red" && strings.HasSuffix(lb.Name, ":near:ipv4") {
			led += len(w.graph.Elements(nb.Set{Row: nb.RefOf(lb), Column: nb.ColumnVips}))
		}
	}
	if led != 4 {
		t.Errorf("%d pairs lead clients of places, want those of n1 and n3 by both protocols", led)
	}
	s.Endpoints[1].Node = "n2"
	s.Endpoints[1].Ready = false
	w.setSlice(s)
	w.wantNear(t, "the only one of n2 is going", "2", "3", "4", "none")
	s.Endpoints[1].Serving = false
	w.setSlice(s)
	w.wantNear(t, "the only one of n2 serves nobody", "2", "none", "4", "none")
	for i := range s.Endpoints {
		s.Endpoints[i].Ready, s.Endpoints[i].Serving = false, false
	}
	w.setSlice(s)
	w.wantNear(t, "none serves", "refused", "refused", "refused", "refused")
	if rows := w.placeRows(); rows != 4 {
		t.Errorf("%d nodes have variables, want all 4 whatever the endpoints", rows)
	}
	w.deleteService(web.Key)
	w.settle()
	w.turn(time.Unix(1e6, 0))
	if rows := w.placeRows(); rows != 0 {
		t.Errorf("%d nodes have variables after the Service", rows)
	}
}

// placeRows counts the nodes that have variables.
func (w *world) placeRows() (n int) {
	for _, ref := range w.graph.Refs() {
		if ref.Table == nb.TableChassisVariables {
			n++
		}
	}
	return n
}

func TestTrafficDistribution(t *testing.T) {
	w, s := zonedWorld(t)
	hint := func(forNodes bool, zones ...string) {
		for i, zone := range zones {
			e := &s.Endpoints[i]
			if e.ForZones, e.ForNodes = nil, nil; zone != "" {
				e.ForZones = []string{zone}
			}
			if forNodes {
				e.ForNodes = []string{e.Node}
			}
		}
		w.setSlice(s)
	}
	web := zoned()
	hint(true, "a", "a", "b")
	w.setService(web)
	w.wantNear(t, "nobody asks for it, the control", "2 3 4", "2 3 4", "2 3 4", "2 3 4")
	web.Prefers = model.PrefersZone
	w.setService(web)
	w.wantNear(t, "the same zone", "2 3", "2 3", "4", "2 3 4")
	hint(true, "a", "a", "")
	w.wantNear(t, "one has no hint", "2 3 4", "2 3 4", "2 3 4", "2 3 4")
	hint(true, "b", "b", "b")
	w.wantNear(t, "none for zone a", "2 3 4", "2 3 4", "2 3 4", "2 3 4")
	hint(true, "a", "a", "b")
	web.Prefers = model.PrefersNode
	w.setService(web)
	w.wantNear(t, "the same node", "2", "3", "4", "2 3 4")
	s.Endpoints[1].Ready = false
	w.setSlice(s)
	w.wantNear(t, "none on n2: the same zone", "2", "2", "4", "2 4")
	hint(false, "a", "a", "b")
	w.wantNear(t, "no hints for nodes", "2", "2", "4", "2 4")

	n := *w.nodes["n2"]
	n.Labels = map[string]string{model.LabelZone: "b"}
	w.setNode(n)
	w.wantNear(t, "n2 is in another zone", "2", "4", "4", "2 4")
	n.Labels = map[string]string{model.LabelZone: "new"}
	w.setNode(n)
	w.wantNear(t, "n2 is in a zone that no other node is in", "2", "2 4", "4", "2 4")
	s.Endpoints[0].Ready, s.Endpoints[2].Ready = false, false
	w.setSlice(s)
	w.wantNear(t, "all are going: whichever", "2 3 4", "2 3 4", "2 3 4", "2 3 4")
}

// By IPv6 the address is what varies.
func TestInternalTrafficPolicyLocalByIPv6(t *testing.T) {
	w, s := zonedWorld(t)
	s.Endpoints = nil
	for i, address := range []string{"2001:db8::1", "2001:db8::2"} {
		e := endpoint("r", "", address)
		e.Node = fmt.Sprint("n", i+1)
		s.Endpoints = append(s.Endpoints, e)
	}
	w.setSlice(s)
	web := zoned()
	web.ClusterIPs = append(web.ClusterIPs, netip.MustParseAddr("fd96::5"))
	web.Local = true
	w.setService(web)
	w.settle()
	for node, want := range map[string]string{"n1": "1", "n2": "2", "n3": "none"} {
		if got := w.near(t, "red", node, "[fd96::5]:80", model.UDP); got != want {
			t.Errorf("clients on %s are led to %s, want %s", node, got, want)
		}
		if got := w.near(t, "red", node, "10.96.0.5:80", model.UDP); got != "refused" {
			t.Errorf("clients on %s are led to %s by IPv4, of which there is no endpoint", node, got)
		}
	}
}
