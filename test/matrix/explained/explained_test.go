package explained

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// example has two Networks of one address, and a pod of the default Network.
func example() Stage {
	placed := func(ns, name, network, own, face string) random.Placed {
		p := random.Placed{
			Pod: random.Pod{Namespace: ns, Name: name, Network: network, Node: "n1"}, UID: ns + "-" + name, Own: []netip.Addr{addr(own)},
		}
		if face != "" {
			p.Faces = []netip.Addr{addr(face)}
		}
		return p
	}
	return Stage{
		Pods: []random.Placed{
			placed("red", "a", "red", "10.0.0.16", "100.64.0.1"), placed("red", "b", "red", "10.0.0.17", "100.64.0.2"),
			placed("blue", "a", "blue", "10.0.0.16", "100.64.0.3"), placed("blue", "b", "blue", "10.0.0.17", "100.64.0.4"),
			placed("plain", "a", "default", "10.128.0.9", ""),
		},
		Services: []Service{{"red", "web", []netip.Addr{addr("10.96.0.1")}}, {"blue", "web", []netip.Addr{addr("10.96.0.2"), addr("10.29.0.2")}}},
		Nodes:    map[string][]netip.Addr{"n1": {addr("172.30.0.11")}}, Anywhere: []netip.Addr{addr("192.0.2.1")},
		Outside:     []netip.Addr{addr("203.0.113.10")},
		OutsideName: "www.outside.test", API: []netip.Addr{addr("10.96.0.100")}, APIServer: netip.MustParseAddrPort("172.30.0.1:6443"),
	}
}

func reached(dialled, to, seen string) api.ExplanationWay {
	return api.ExplanationWay{
		Dialled: dialled, To: to, SeenAs: seen, Reached: true, There: []api.ExplanationStep{{Layer: "pod", OK: true, What: "it sends"}},
	}
}

func stopped(dialled, layer, what string) api.ExplanationWay {
	return api.ExplanationWay{
		Dialled: dialled, There: []api.ExplanationStep{{Layer: "pod", OK: true, What: "it sends"}, {Layer: layer, What: what}},
	}
}

func says(ways ...api.ExplanationWay) Said {
	s := Said{Status: api.ExplanationStatus{Reached: true, Ways: ways}}
	for _, w := range ways {
		s.Status.Reached = s.Status.Reached && w.Reached
	}
	return s
}

// answeredBy is what was seen of a packet that a pod has heard and answered.
func answeredBy(uid, client string) random.Seen {
	return random.Seen{
		Result: wire.Result{Answered: true, Connected: true, Answerer: wire.Identity{UID: uid}}, Witnesses: []string{uid},
		Clients: []netip.Addr{addr(client)},
	}
}

// TestJudge: each kind of explanation that is wrong is noticed, and what is right is not.
func TestJudge(t *testing.T) {
	t.Parallel()
	stage := example()
	pod := Question{
		Kind: ToPod, From: 0, Meant: "red-b", Dial: []netip.Addr{addr("10.0.0.17"), addr("100.64.0.2")},
		Spec: api.ExplanationSpec{To: "red/b", Protocol: "tcp", Port: wire.DefaultPort},
	}
	foreign := Question{
		Kind: ToPod, From: 0, Meant: "blue-b", Dial: []netip.Addr{addr("10.0.0.17"), addr("100.64.0.4")},
		Spec: api.ExplanationSpec{To: "blue/b", Protocol: "tcp", Port: wire.DefaultPort},
	}
	own := Question{
		Kind: ToOwn, From: 0, Dial: []netip.Addr{addr("10.0.0.17")}, Spec: api.ExplanationSpec{
			To: "10.0.0.17", Protocol: "tcp", Port: wire.DefaultPort,
		},
	}
	service := Question{
		Kind: ToService, From: 0, Dial: []netip.Addr{addr("10.96.0.1")}, Spec: api.ExplanationSpec{
			To: "svc/red/web", Protocol: "tcp", Port: wire.DefaultPort,
		},
	}
	name := Question{
		Kind: ToName, From: 0, Name: "web.red.svc", Dial: []netip.Addr{addr("10.96.0.1")}, Spec: api.ExplanationSpec{
			To: "web.red.svc", Protocol: "tcp", Port: wire.DefaultPort,
		},
	}
	leaves := Question{
		Kind: ToOwn, From: 0, Dial: []netip.Addr{addr("10.0.9.9")}, Spec: api.ExplanationSpec{
			To: "10.0.9.9", Protocol: "udp", Port: wire.DefaultPort,
		},
	}
	silence, b := random.Seen{}, answeredBy("red-b", "10.0.0.16")
	heard := random.Seen{Witnesses: []string{"red-b"}}
	right := says(reached("10.0.0.17:8080", "pod red/b", "10.0.0.16"))
	closed := says(stopped("10.0.0.17:8080", "policy", "pod red/b may not receive it"))
	foreignClosed := says(stopped("100.64.0.4:8080", "compatibility", "neither is compatible with the other"))
	either := says(reached("10.96.0.1:8080", "pod red/b", "10.0.0.16"), stopped("10.96.0.1:8080", "policy", "pod red/a may not receive it"))
	at := func(address string, seen random.Seen) Saw {
		return Saw{Dialled: map[netip.Addr]random.Seen{addr(address): seen}}
	}
	named := func(address string, found ...netip.Addr) Saw {
		s := at(address, b)
		s.Found = wire.Name{Addresses: found}
		return s
	}
	for what, c := range map[string]struct {
		q    Question
		said Said
		saw  Saw
		// wrong is what is said of it; empty: nothing.
		wrong string
	}{
		"reached":                             {pod, right, at("10.0.0.17", b), ""},
		"stopped":                             {pod, closed, at("10.0.0.17", silence), ""},
		"a policy is ignored":                 {pod, right, at("10.0.0.17", silence), "nobody answered"},
		"a policy that is none":               {pod, closed, at("10.0.0.17", random.Seen{Result: b.Result}), "said to be stopped"},
		"it is stopped on the way back alone": {pod, closed, at("10.0.0.17", heard), "red/b has heard it"},
		"the answer is lost":                  {pod, right, at("10.0.0.17", heard), "nobody answered"},
		"a connection where it is stopped": {
			pod, closed, at("10.0.0.17", random.Seen{Result: wire.Result{Connected: true}}), "somebody answered",
		},
		"the wrong Network is taken for an address": {
			own, says(reached("10.0.0.17:8080", "pod blue/b", "10.0.0.16")), at("10.0.0.17", b), "red/b has heard it",
		},
		"another Network's pod answers": {own, right, at("10.0.0.17", answeredBy("blue-b", "10.0.0.16")), "blue/b has heard it"},
		"somebody else has heard it, too": {
			own, right, at("10.0.0.17", random.Seen{Result: b.Result, Clients: b.Clients, Witnesses: []string{"red-b", "blue-b"}}),
			"blue/b has heard it",
		},
		"the wrong client": {
			pod, says(reached("10.0.0.17:8080", "pod red/b", "100.64.0.1")), at("10.0.0.17", b), "it is seen as 10.0.0.16",
		},
		"another address, in the same Network": {pod, right, at("100.64.0.2", b), ""},
		"an address that leads elsewhere":      {foreign, foreignClosed, at("10.0.0.17", b), ""},
		"an address that leads there, after all": {
			foreign, foreignClosed, at("10.0.0.17", answeredBy("blue-b", "100.64.0.1")), "the pod that is meant is reached",
		},
		"one of several":     {service, either, at("10.96.0.1", b), ""},
		"none of several":    {service, either, at("10.96.0.1", silence), ""},
		"another than those": {service, either, at("10.96.0.1", answeredBy("red-a", "10.0.0.16")), "red/a has heard it"},
		"all of several, and silence": {
			service, says(reached("10.96.0.1:8080", "pod red/a", "10.0.0.16"), reached("10.96.0.1:8080", "pod red/b", "10.0.0.16")), at("10.96.0.1",
				silence), "nobody answered",
		},
		"a name": {
			name, says(reached("10.96.0.1:8080", "pod red/b", "10.0.0.16")), named("10.96.0.1", addr("10.96.0.1")), "",
		},
		"a name that is another address": {
			name, says(reached("10.96.0.1:8080", "pod red/b", "10.0.0.16")), named("10.96.0.1", addr("10.96.0.2")), "the name is [10.96.0.2]",
		},
		"a name that is not there, and is": {
			name, says(stopped("", "name", "it does not exist")), named("10.96.0.1", addr("10.96.0.1")), "the name is [10.96.0.1]",
		},
		"it leaves by UDP, which nobody answers": {
			leaves, says(reached("10.0.9.9:8080", "outside, 10.0.9.9", "the address of node n1")), at("10.0.9.9", silence), "",
		},
		"it does not leave, after all": {
			leaves, says(reached("10.0.9.9:8080", "outside, 10.0.9.9", "the address of node n1")), at("10.0.9.9", heard), "red/b has heard it",
		},
		"it is not explained": {pod, Said{Err: "no"}, at("10.0.0.17", b), "it is not explained: no"},
		"of an address nothing is said": {
			own, says(reached("10.0.0.18:8080", "pod red/b", "10.0.0.16")), at("10.0.0.17", b), "nothing is said of it",
		},
		"it has no ways": {own, says(), at("10.0.0.17", silence), "0 ways"},
	} {
		got := Judge(stage, c.q, c.said, c.saw)
		if (got == "") != (c.wrong == "") || !strings.Contains(got, c.wrong) {
			t.Errorf("%s: %q, want %q", what, got, c.wrong)
		}
	}
}

// TestJudgeTrace: where a packet leaves OVN is compared, and where it is dropped.
func TestJudgeTrace(t *testing.T) {
	t.Parallel()
	stage, a := example(), addr("10.0.0.17")
	there := func(w api.ExplanationWay, steps ...api.ExplanationStep) api.ExplanationWay {
		w.There = slices.Concat(steps, w.There[len(w.There)-1:])
		return w
	}
	edge := api.ExplanationStep{Layer: "router", OK: true, What: "router red leads 10.0.0.17 to the porthole on the pod's own node"}
	face := api.ExplanationStep{
		Layer: "porthole", OK: true, Node: "n2", Network: "red",
		What: "the face 100.64.0.2 becomes the own address 10.0.0.17; the client is 10.128.0.9",
	}
	for what, c := range map[string]struct {
		from   int
		way    api.ExplanationWay
		traced Traced
		wrong  bool
	}{
		"to the pod":                      {0, reached("10.0.0.17:8080", "pod red/b", ""), Traced{"red/b"}, false},
		"dropped, and said to be reached": {0, reached("10.0.0.17:8080", "pod red/b", ""), nil, true},
		"to another pod":                  {0, reached("10.0.0.17:8080", "pod red/b", ""), Traced{"blue/b"}, true},
		"dropped":                         {0, stopped("10.0.0.17:8080", "policy", "no"), nil, false},
		"refused":                         {0, stopped("10.0.0.17:8080", "policy", "no"), Traced{"red/a"}, false},
		"let through":                     {0, stopped("10.0.0.17:8080", "policy", "no"), Traced{"red/b"}, true},
		"to the porthole":                 {0, there(stopped("10.0.0.17:8080", "porthole", "closed"), edge), Traced{"red:porthole"}, false},
		"not to the porthole":             {0, there(stopped("10.0.0.17:8080", "porthole", "closed"), edge), Traced{"red/b"}, true},
		"a Service that is not known": {
			0, stopped("10.0.0.17:8080", "compatibility", "Service blue/web is of Network blue and not known in Network red"),
			Traced{"red:porthole"},
			false,
		},
		"an access list that does not hold": {
			0, stopped("10.0.0.17:8080", "compatibility", "pods of Network red do not reach those of Network blue"), Traced{"blue/b"}, true,
		},
		"nobody is behind it, wherever":      {0, stopped("10.0.0.17:8080", "load balancer", "none"), Traced{"red:porthole"}, false},
		"nobody is behind it, and one gets":  {0, stopped("10.0.0.17:8080", "load balancer", "none"), Traced{"red/b"}, true},
		"from the default Network to a face": {4, there(reached("10.0.0.17", "pod red/b", ""), face), Traced{"default:node:n2"}, false},
		"by the wrong node":                  {4, there(reached("10.0.0.17", "pod red/b", ""), face), Traced{"default:node:n1"}, true},
	} {
		got, err := JudgeTrace(stage, Question{From: c.from}, says(c.way), a, c.traced)
		if err != nil || (got != "") != c.wrong {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	if _, err := JudgeTrace(stage, Question{From: 0}, says(reached("10.0.0.17", "pod red/a", "")), a, nil); err == nil {
		t.Error("what comes back to the sender is compared")
	}
}

func TestMicroflow(t *testing.T) {
	t.Parallel()
	p := Port{
		Name: "red/a", MAC: "0a:00:00:00:00:01", Gateway: "0a:00:00:00:00:fe", Subnet: []netip.Prefix{netip.MustParsePrefix("10.0.0.16/24")},
		Neighbours: map[netip.Addr]string{addr("10.0.0.17"): "0a:00:00:00:00:02"},
	}
	for to, want := range map[string]string{
		"10.0.0.17": "eth.dst == 0a:00:00:00:00:02 && ip4.src == 10.0.0.16 && ip4.dst == 10.0.0.17 && ip.ttl == 64 && tcp && " +
			"tcp.src == 40000 && tcp.dst == 8080",
		"100.64.0.2": "eth.dst == 0a:00:00:00:00:fe",
		"10.0.0.18":  string(errNobody), "10.0.0.16": string(errOwn), "fd00::1": "it has no address of the family",
	} {
		got, err := p.Microflow(addr(to), wire.TCP, wire.DefaultPort)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
	}
	if got := ReadTrace("ip.ttl--;\narp {\n  eth.dst = ff:ff:ff:ff:ff:ff;\n  output(\"red/b\");\n};\noutput(\"red/a\");"); !reflect.DeepEqual(
		got, Traced{"red/a"}) {
		t.Errorf("the router's question is taken for the packet: %q", got)
	}
	if got := ReadTrace("# tcp\nct_next {\n output(\"red/b\"); output(\"red/b\");\n}"); !reflect.DeepEqual(got, Traced{"red/b"}) {
		t.Errorf("read %q", got)
	}
}

// TestDraw: a seed says everything, and every kind is there.
func TestDraw(t *testing.T) {
	t.Parallel()
	first := Draw(7, example(), 400)
	if !reflect.DeepEqual(first, Draw(7, example(), 400)) {
		t.Fatal("a seed does not give the same twice")
	}
	if reflect.DeepEqual(first, Draw(8, example(), 400)) {
		t.Error("all seeds give the same")
	}
	kinds, protocols := map[Kind]int{}, map[string]int{}
	for _, q := range first {
		kinds[q.Kind]++
		protocols[q.Spec.Protocol]++
		if q.Name == "" && len(q.Dial) == 0 {
			t.Errorf("%s: nothing is dialled", q)
		}
	}
	if len(first) != 400 || len(protocols) != 3 {
		t.Errorf("%d questions by %v", len(first), protocols)
	}
	for _, kind := range Kinds() {
		if kinds[kind] == 0 {
			t.Errorf("nobody asks for %s", kind)
		}
	}
}
