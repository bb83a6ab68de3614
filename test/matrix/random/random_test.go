package random

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// A seed says everything, every plan is there, and addresses meet: a scene in which no two Networks have one is none.
func TestDraw(t *testing.T) {
	nodes := []string{"n1", "n2", "n3"}
	for seed := range uint64(200) {
		s := Draw(seed, Plans(), nodes)
		if !reflect.DeepEqual(s, Draw(seed, Plans(), nodes)) {
			t.Fatalf("seed %d does not give the same twice", seed)
		}
		plans, in, asks, twice := map[string]bool{}, map[string]int{}, map[netip.Addr]string{}, 0
		for _, n := range s.Networks {
			plans[n.Plan.Name] = true
		}
		for _, p := range s.Pods {
			in[p.Network]++
			if !p.Asks.IsValid() {
				continue
			}
			if other, there := asks[p.Asks]; there && other != p.Network {
				twice++
			}
			asks[p.Asks] = p.Network
		}
		if len(plans) != len(Plans()) || len(in) != networks+1 || len(s.Pods) != pods+4 || twice == 0 {
			t.Fatalf("seed %d: plans %v, pods %v, %d addresses that meet", seed, plans, in, twice)
		}
	}
}

// stage has two Networks of one address, a pod of the default one and one of infrastructure.
func stage() ([]Placed, []Served) {
	a := netip.MustParseAddr
	placed := func(ns, name, network, own, face string) Placed {
		return Placed{
			Pod: Pod{Namespace: ns, Name: name, Network: network}, UID: ns + "-" + name, Own: []netip.Addr{a(own)}, Faces: []netip.Addr{a(face)},
		}
	}
	pods := []Placed{
		placed("red", "a", "red", "10.0.0.16", "100.64.0.1"),
		placed("red", "b", "red", "10.0.0.17", "100.64.0.2"),
		placed("blue", "a", "blue", "10.0.0.16", "100.64.0.3"),
		placed("six", "a", "six", "fd00::16", "fd64::1"),
		placed(Plain, "a", Default, "10.244.0.1", "10.244.0.1"),
		placed(Infra, "a", Default, "10.244.0.2", "10.244.0.2"),
	}
	return pods, []Served{
		{Network: "red", ClusterIP: []netip.Addr{a("10.96.0.1")}},
		{Network: "six", ClusterIP: []netip.Addr{a("10.96.0.3"), a("fd96::3")}},
		{Network: "blue", ClusterIP: []netip.Addr{a("10.96.0.2")}},
	}
}

func TestPaths(t *testing.T) {
	placed, services := stage()
	got := map[string][]string{}
	for _, p := range Paths(placed, services) {
		got[placed[p.From].String()+" "+string(p.Way)+" "+p.Address.String()] = p.May
	}
	for path, want := range map[string][]string{
		"red/a own address 10.0.0.17":       {"red-b"},
		"red/b own address 10.0.0.16":       {"red-a"}, // blue has it, too
		"blue/a own address 10.0.0.17":      nil,
		"blue/a own address 10.0.0.16":      {"blue-a"}, // meant was red's, and its own pod answers
		"red/a face 100.64.0.2":             {"red-b"},
		"red/a face 100.64.0.3":             nil,
		"red/a own address 10.244.0.1":      nil,
		Plain + "/a own address 10.244.0.2": {Infra + "-a"},
		Plain + "/a own address 10.0.0.16":  nil,
		Plain + "/a face 100.64.0.1":        nil,
		Infra + "/a face 100.64.0.1":        {"red-a"},
		Infra + "/a Service 10.96.0.3":      nil, // its pods have no IPv4
		"six/a Service fd96::3":             {"six-a"},
		"red/a Service 10.96.0.1":           {"red-a", "red-b"},
		"blue/a Service 10.96.0.1":          nil,
		Plain + "/a Service 10.96.0.1":      nil,
		Infra + "/a Service 10.96.0.2":      {"blue-a"},
	} {
		may, asked := got[path]
		if !asked || !reflect.DeepEqual(may, want) {
			t.Errorf("%s: %v (asked %t), want %v", path, may, asked, want)
		}
	}
	if _, asked := got["red/a own address fd00::16"]; asked {
		t.Error("a pod without IPv6 was to send it")
	}
}

func TestJudge(t *testing.T) {
	by := func(uid string) wire.Result { return wire.Result{Answered: true, Answerer: wire.Identity{UID: uid}} }
	open, shut := []string{"a"}, []string(nil)
	for name, c := range map[string]struct {
		may           []string
		protocol      wire.Protocol
		seen          Seen
		wrong, leaked bool
	}{
		"reached":                          {open, wire.TCP, Seen{by("a"), []string{"a"}, nil}, false, false},
		"reached by an echo":               {open, wire.ICMP, Seen{wire.Result{Answered: true}, []string{"a"}, nil}, false, false},
		"an echo that nobody accounts for": {open, wire.ICMP, Seen{wire.Result{Answered: true}, nil, nil}, true, false},
		"silence where one must answer":    {open, wire.TCP, Seen{}, true, false},
		"somebody else answers":            {open, wire.TCP, Seen{by("b"), []string{"b"}, nil}, true, true},
		"somebody else heard it, too":      {open, wire.UDP, Seen{by("a"), []string{"a", "b"}, nil}, true, true},
		"the answer is lost":               {open, wire.UDP, Seen{wire.Result{}, []string{"a"}, nil}, true, false},
		"closed":                           {shut, wire.TCP, Seen{}, false, false},
		"heard where it is closed":         {shut, wire.UDP, Seen{wire.Result{}, []string{"b"}, nil}, true, true},
		"a connection where it is closed":  {shut, wire.TCP, Seen{wire.Result{Connected: true}, nil, nil}, true, true},
		"an echo where it is closed":       {shut, wire.ICMP, Seen{wire.Result{Answered: true}, nil, nil}, true, true},
	} {
		wrong, leaked := Judge(Path{May: c.may, Protocol: c.protocol}, c.seen)
		// Where nobody has to answer, silence is right, and the wrong answer is wrong still.
		if after, _ := Judge(Path{May: c.may, Open: true, Protocol: c.protocol},
			c.seen); (after != "") != (c.wrong && (c.leaked || c.seen.Result.Answered)) {
			t.Errorf("%s, where nobody has to answer: %q", name, after)
		}
		if (wrong != "") != c.wrong || leaked != c.leaked {
			t.Errorf("%s: %q, leaked %t", name, wrong, leaked)
		}
	}
}
