package controller_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/graph"
	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

// TestAnyHistoryEndsAsAFreshStart: after any order of events, a controller that starts from the objects as
// they are now wants the same rows, writes no annotation, and no two pods of a Network share an address.
func TestAnyHistoryEndsAsAFreshStart(t *testing.T) { rapid.Check(t, anyHistory) }

// FuzzAnyHistoryEndsAsAFreshStart looks for such a history with the fuzzer.
func FuzzAnyHistoryEndsAsAFreshStart(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyHistory)) }

func anyHistory(t *rapid.T) {
	settings := withFaces("100.64.0.0/10")
	w := newWorldOf(settings)
	namespaces := map[string]map[string]string{}
	// The type of a Network does not change.
	flat := rapid.SampledFrom([]string{"", "blue"}).Draw(t, "flat")
	for step := range rapid.IntRange(1, 50).Draw(t, "steps") {
		name := rapid.SampledFrom([]string{"red", "blue", "default"}).Draw(t, "network")
		ns := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "namespace")
		who := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "pod")
		on := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
		switch rapid.IntRange(0, 18).Draw(t, "step") {
		case 0:
			n := network(name, "s", rapid.SampledFrom([]string{"10.0.0.0/29", "10.96.0.8/29"}).Draw(t, "cidr"), "t", "10.0.1.0/29")
			n.Subnets = n.Subnets[:rapid.IntRange(1, 2).Draw(t, "subnets")]
			if name == flat {
				n = network(name, "s", rapid.SampledFrom([]string{"10.3.0.0/29", "10.3.0.8/29", "10.3.0.0/28", "10.0.1.0/29"}).Draw(t, "range"))
				n.Type, n.Created = model.Flat, time.Unix(rapid.Int64Range(0, 3).Draw(t, "made"), 0)
			}
			switch rapid.SampledFrom([]string{"all", "the tenant's", "those that name it"}).Draw(t, "namespaces of the Network") {
			case "the tenant's":
				n.Tenant, n.Allowed = "acme", nil
			case "those that name it":
				n.Allowed = nil
			}
			n.Ingress = rapid.SampledFrom([]model.InfraIngress{model.InfraIngressInfrastructure, model.InfraIngressNone, model.InfraIngressAll}).Draw(t, "ingress")
			if cidr := rapid.SampledFrom([]string{"", "10.9.0.0/30", "10.9.0.0/29", "10.9.0.4/30", "10.0.1.0/30"}).Draw(t, "services"); cidr != "" {
				n.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)}
			}
			w.setNetwork(n)
		case 1:
			if n := w.networks[name]; n != nil {
				gone := *n
				gone.Deleting = true
				w.setNetwork(gone)
			}
		case 2:
			namespaces[ns] = map[string]string{}
			if rapid.Bool().Draw(t, "labelled") {
				namespaces[ns][model.LabelNetwork] = name
			}
			if rapid.Bool().Draw(t, "infrastructure") {
				namespaces[ns][model.LabelInfrastructure] = "true"
			}
			if rapid.Bool().Draw(t, "tenant") {
				namespaces[ns][model.LabelTenant] = "acme"
			}
			w.setNamespace(ns, namespaces[ns])
		case 3, 4:
			p := asking(ns, who, "", model.NICRequest{})
			p.Node = on
			p.Labels = map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app")}
			if old := w.pods[p.Key]; old != nil && rapid.Bool().Draw(t, "the same pod") {
				p.UID, p.Created, p.Assigned, p.Node = old.UID, old.Created, old.Assigned, old.Node
			}
			if rapid.Bool().Draw(t, "named port") {
				p.Ports = []model.PodPort{{Name: "http", Protocol: model.TCP, Port: rapid.SampledFrom([]uint16{80, 8080}).Draw(t, "number")}}
			}
			if rapid.Bool().Draw(t, "fixed") {
				p.NIC.IP = at(fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 9).Draw(t, "ip")))
			}
			w.setPod(p)
		case 5:
			w.deletePod(model.PodKey{Namespace: ns, Name: who})
		case 6:
			w.settle()
			w.turn(time.Unix(0, int64(step)*int64(300*time.Millisecond)))
		case 7:
			if w.nodes[on] == nil {
				w.setNode(node(on, 1))
			}
		case 8:
			w.deleteNode(on)
		case 9:
			s := service(ns, rapid.SampledFrom([]string{"web", "api", "db"}).Draw(t, "service"), "10.96.0.9")
			s.Created = time.Unix(int64(rapid.IntRange(0, 3).Draw(t, "age")), 0)
			if rapid.Bool().Draw(t, "by UDP, too") {
				s.Ports = append(s.Ports, model.ServicePort{Protocol: model.UDP, Port: 80})
			}
			if rapid.Bool().Draw(t, "wants") {
				s.Wanted = []netip.Addr{at(fmt.Sprintf("10.9.0.%d", rapid.IntRange(0, 7).Draw(t, "wanted")))}
			}
			if rapid.Bool().Draw(t, "published") {
				s.Published = []netip.Addr{at(rapid.SampledFrom([]string{"203.0.113.5", "10.0.1.3", "10.9.0.5", "10.244.0.9"}).Draw(t, "at"))}
			}
			if old := w.services[s.Key]; old != nil {
				// Whoever writes a Service leaves the controller's annotation as it is.
				s.Assigned = old.Assigned
			}
			w.setService(s)
		case 10:
			w.deleteService(model.ServiceKey{Namespace: ns, Name: rapid.SampledFrom([]string{"web", "api", "db"}).Draw(t, "service")})
		case 16, 17:
			w.setPolicy(drawPolicy(t, ns, who))
		case 18:
			w.deletePolicy(model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: who})
		case 11:
			s := slice(ns, "web-"+who, "web")
			s.Ports = append(s.Ports, model.SlicePort{Protocol: model.UDP, Port: 8080})
			for i := range rapid.IntRange(0, 3).Draw(t, "endpoints") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "behind")
				e := endpoint(ns, name, fmt.Sprintf("100.64.0.%d", i+1))
				if e.Ready = rapid.Bool().Draw(t, "ready"); !e.Ready {
					e.Serving = rapid.Bool().Draw(t, "serving")
				}
				s.Endpoints = append(s.Endpoints, e)
			}
			w.setSlice(s)
			if rapid.Bool().Draw(t, "gone again") {
				w.deleteSlice(s.Key)
			}
		case 12:
			if !rapid.Bool().Draw(t, "class") {
				w.deleteClass("atoll")
				break
			}
			w.setClass(model.GatewayClass{Name: "atoll", UID: "class"})
		case 13:
			g := tcpGateway(ns, who, "web", "more")
			for range rapid.IntRange(0, 2).Draw(t, "addresses") {
				g.Addresses = append(g.Addresses, model.GatewayAddress{Addr: at(fmt.Sprintf("198.18.0.%d", rapid.IntRange(0, 5).Draw(t, "virtual")))})
			}
			if old := w.gateways[g.Key]; old != nil {
				g.Held = old.Held
			}
			w.setGateway(g)
		case 14:
			w.deleteGateway(model.GatewayKey{Namespace: ns, Name: who})
		case 15:
			r := tcpRoute(ns, "web-"+who, who, "web")
			if rapid.Bool().Draw(t, "one listener") {
				r.Parents[0].Section = "web"
			}
			w.setRoute(r)
			if rapid.Bool().Draw(t, "withdrawn") {
				w.deleteRoute(r.Key)
			}
		}
	}
	w.settle()
	// What is left for a while only has been.
	w.turn(time.Unix(1e6, 0))
	distinctGateways(t, w)

	held := map[string]model.PodKey{}
	for key, p := range w.pods {
		for _, a := range p.Assigned {
			if !w.hasPort(*p) {
				continue
			}
			place := a.Network + " " + a.Addresses[0].Addr().String()
			if other, taken := held[place]; taken {
				t.Fatalf("%s and %s both hold %s", key, other, place)
			}
			held[place] = key
			if (len(a.Faces) == 0) != (a.Network == settings.Network || a.Network == flat) {
				t.Fatalf("%s in Network %s has the faces %v", key, a.Network, a.Faces)
			}
			for _, face := range a.Faces {
				if other, taken := held[face.String()]; taken {
					t.Fatalf("%s and %s both have the face %s", key, other, face)
				}
				held[face.String()] = key
			}
		}
	}
	for key, s := range w.services {
		if s.Assigned == nil {
			continue
		}
		a := s.Assigned.Addresses[0]
		place := s.Assigned.NetworkUID + " " + a.String()
		if other, taken := held[place]; taken {
			t.Fatalf("%s and %s both have %s", key, other, place)
		}
		held[place] = model.PodKey(key)
		n := w.networks[s.Assigned.Network]
		if n == nil || n.Name == settings.Network || !slices.ContainsFunc(n.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) }) {
			t.Fatalf("%s has %s of Network %+v", key, a, n)
		}
	}
	fresh := newWorldOf(settings)
	maps.Copy(fresh.nodes, w.nodes)
	maps.Copy(fresh.services, w.services)
	maps.Copy(fresh.slices, w.slices)
	maps.Copy(fresh.classes, w.classes)
	maps.Copy(fresh.gateways, w.gateways)
	maps.Copy(fresh.routes, w.routes)
	maps.Copy(fresh.pods, w.pods)
	maps.Copy(fresh.networks, w.networks)
	maps.Copy(fresh.policies, w.policies)
	fresh.replay(namespaces)
	fresh.settle()
	// A pod that was refused may be served by a fresh start in another order than it was by history, but
	// whoever had a port has it, as it was.
	for key := range w.pods {
		owner := nb.PodOwner(key.Namespace, key.Name)
		mine, had := w.graph.Facts(owner)
		theirs, has := fresh.graph.Facts(owner)
		if had != has || !reflect.DeepEqual(mine, theirs) {
			t.Fatalf("%s: after history %v %+v, after a fresh start %v %+v", key, had, mine, has, theirs)
		}
	}
	if fresh.patches != 0 {
		t.Fatalf("a fresh start wrote %d annotations", fresh.patches)
	}
	if diff := cmp.Diff(refs(w.graph), refs(fresh.graph)); diff != "" {
		t.Fatalf("rows (-after history +after a fresh start):\n%s", diff)
	}
	// A Service without mirrors, and one of which nothing was ever said, are the same.
	none := cmpopts.IgnoreMapEntries(func(_ model.ServiceKey, m []model.Mirror) bool { return len(m) == 0 })
	if diff := cmp.Diff(w.mirrors, fresh.mirrors, none, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Fatalf("mirrors (-after history +after a fresh start):\n%s", diff)
	}
}

// distinctGateways fails when two Gateways of a Network listen on one address.
func distinctGateways(t *rapid.T, w *world) {
	has := map[string]model.GatewayKey{}
	for key := range w.gateways {
		for place := range w.listens(key) {
			if other, taken := has[place]; taken {
				t.Fatalf("%s and %s both listen on %s", key, other, place)
			}
			has[place] = key
		}
	}
}

// drawPolicy is a NetworkPolicy, or now and then one that denies something in all namespaces.
func drawPolicy(t *rapid.T, ns, name string) model.Policy {
	labels := func(what string) match.Selector {
		app := rapid.SampledFrom([]string{"", "web", "db"}).Draw(t, what)
		if app == "" {
			return match.Selector{}
		}
		return match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}
	}
	p := model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: ns, Name: name}, UID: "uid-policy-" + ns + "-" + name,
		Tier: model.TierTenant, Subject: match.Pods{Namespace: ns, Labels: labels("subject")},
	}
	verdict := model.Allow
	if rapid.IntRange(0, 3).Draw(t, "cluster") == 0 {
		p.Tier, p.Subject.Namespace, verdict = model.TierAdmin, "", model.Deny
	} else {
		p.Isolates = [2]bool{rapid.Bool().Draw(t, "ingress"), rapid.Bool().Draw(t, "egress")}
	}
	for d := range p.Rules {
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			r := model.Rule{Verdict: verdict, AnyPort: true}
			switch rapid.SampledFrom([]string{"anybody", "pods", "block"}).Draw(t, "peer") {
			case "anybody":
				r.AnyPeer = true
			case "pods":
				r.Peers = []model.Peer{{Pods: &match.Pods{Labels: labels("peer")}}}
			case "block":
				r.Peers = []model.Peer{{Block: drawBlock(t)}}
			}
			if rapid.Bool().Draw(t, "named") {
				r.AnyPort, r.Ports = false, []model.PolicyPort{{Name: "http", Protocol: model.TCP}}
			}
			p.Rules[d] = append(p.Rules[d], r)
		}
	}
	return p
}

// drawBlock is a block of faces, or of everything without some.
func drawBlock(t *rapid.T) *model.Block {
	faces := netip.MustParsePrefix(rapid.SampledFrom([]string{"100.64.0.1/32", "100.64.0.2/31", "100.64.2.0/30", "100.64.0.0/23"}).Draw(t, "faces"))
	if rapid.Bool().Draw(t, "all but them") {
		return &model.Block{CIDR: netip.MustParsePrefix("0.0.0.0/0"), Except: []netip.Prefix{faces}}
	}
	return &model.Block{CIDR: faces}
}

func refs(g *graph.Graph) []string {
	var out []string
	for _, r := range g.Refs() {
		row, _ := g.Row(r)
		text, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		out = append(out, fmt.Sprintf("%s %s", r.Table, text))
		for _, column := range nb.MemberColumns(r.Table) {
			elements := g.Elements(nb.Set{In: r, Column: column})
			slices.Sort(elements)
			out = append(out, fmt.Sprintf("%s %s %s %q", r.Table, r.UUID, column, elements))
		}
	}
	slices.Sort(out)
	return out
}
