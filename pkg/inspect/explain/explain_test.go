package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
	"github.com/atoll-net/atoll/test/inspected"
)

// questionOf reads a question as the command line does: FROM TO PROTOCOL PORT, and a Network if there is one.
func questionOf(text string) (q question.Question, err error) {
	words := strings.Fields(text)
	if q.From, err = question.ParsePlace(words[0]); err != nil {
		return q, err
	}
	if q.To, err = question.ParsePlace(words[1]); err != nil {
		return q, err
	}
	q.Protocol = model.Protocol(words[2])
	if _, err := fmt.Sscan(words[3], &q.Port); err != nil {
		return q, err
	}
	if len(words) > 4 {
		q.Network = words[4]
	}
	return q, q.Check()
}

func explainIn(w *inspected.World, question string) (Explanation, error) {
	w.T.Helper()
	q, err := questionOf(question)
	if err != nil {
		return Explanation{}, err
	}
	return Explain(explainable(w), q)
}

// TestExplain: each kind of end and each reason to be stopped, with what is reached instead. What is wanted is "reached as
// ADDRESS", or the layer that stops it and words of why, and of what to do.
func TestExplain(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	for _, test := range []struct {
		ask  string
		want []string
	}{
		// Policies, at either end.
		{"red/web red/friend tcp 80", []string{"reached as 10.0.0.2"}},
		{
			"red/web red/db tcp 80", []string{
				"reached as 10.0.0.2", "router red leads from switch red/front to red/back", "a tunnel leads from n1 to n2",
			},
		},
		{"red/friend red/locked tcp 5432", []string{"reached as 10.0.0.4", "NetworkPolicy/red/lock, rule 0 of Ingress"}},
		{
			"red/friend red/locked tcp 80", []string{
				"policy", "isolated by NetworkPolicy/red/lock", "spec.ingress", "kubectl describe networkpolicy -n red lock",
			},
		},
		{"red/web red/locked udp 5432", []string{"policy", "pod red/locked may not receive it"}},
		{"red/mute red/friend tcp 80", []string{"reached as 10.0.1.3"}},
		{"red/mute red/db icmp 0", []string{"policy", "pod red/mute may not send it", "spec.egress"}},
		// Services.
		{"red/web svc/red/db tcp 80", []string{"reached as 10.0.0.2", "row red/red/db:tcp leads 10.96.1.0:80 to 10.0.1.2:8080"}},
		{"red/web svc/red/db tcp 81", []string{"load balancer", "has no tcp port 81; it has tcp 80"}},
		{"red/web svc/red/db udp 80", []string{"load balancer", "has no udp port 80"}},
		{"red/web svc/red/db icmp 0", []string{"load balancer", "answer no ping"}},
		{"red/web svc/red/none tcp 80", []string{"load balancer", "its EndpointSlices name none"}},
		{"red/web svc/red/sick tcp 80", []string{"load balancer", "1 not ready", "readinessProbe"}},
		{"red/web svc/red/going tcp 80", []string{"reached as 10.0.0.2", "it is going, and used because no other is ready"}},
		{"red/web svc/red/two tcp 80", []string{"policy", "on 1 of 2 ways", "endpoint 2 of 2"}},
		{"red/web svc/red/self tcp 80", []string{"reached as 10.96.1.9", "led back to pod red/web itself"}},
		{"red/web svc/red/peers tcp 8080", []string{"reached as 10.0.0.2", "is headless"}},
		{"red/web svc/red/unready tcp 8080", []string{"name", "1 not ready"}},
		// Other Networks: by face, with a direction, of another tenant, by own addresses, joined.
		{"blue/client red/web tcp 80", []string{"reached as FACE blue/client", "Network red is compatible with blue"}},
		{"blue/client red/locked tcp 5432", []string{"reached as FACE blue/client", "NetworkPolicy/red/lock"}},
		{"blue/client red/locked tcp 80", []string{"policy", "isolated by NetworkPolicy/red/lock"}},
		{"blue/client svc/red/db tcp 80", []string{"reached as FACE blue/client", "row red:offered/red/db:tcp"}},
		{"blue/client svc/red/peers tcp 80", []string{"reached as FACE blue/client"}},
		{
			"red/web blue/client tcp 80", []string{
				"compatibility", "the other direction alone", "spec.compatibleWith of Network blue name {network: red}",
			},
		},
		{"green/client red/web tcp 80", []string{"compatibility", "neither is compatible with the other"}},
		{"foreign/client red/web tcp 80", []string{"compatibility", "NotUsed", "uses"}},
		{"blue/client own/web tcp 80", []string{"reached as FACE blue/client", "becomes FACE own/web, the face of the pod of another Network"}},
		{"west/client east/web tcp 80", []string{"reached as OWN west/client", "mode Routed: router west leads to router east"}},
		{"east/web west/client tcp 80", []string{"compatibility", "spec.compatibleWith of Network west name {network: east}"}},
		{"mute/client svc/red/db tcp 80", []string{"compatibility", "Service red/db is of Network red and not known in Network mute"}},
		// Pods without a port.
		{"red/web red/nowhere tcp 80", []string{"pod", "AddressOutsideSubnet", "kubectl describe pod -n red nowhere"}},
		{"red/nowhere red/web tcp 80", []string{"pod", "sends nothing"}},
		// Names.
		{"red/web db tcp 80", []string{"reached as 10.0.0.2", "atoll-dns of node n1 answers"}},
		{"red/web db.red.svc.cluster.local. tcp 80", []string{"reached as 10.0.0.2"}},
		{"red/web peers tcp 80", []string{"reached as 10.0.0.2"}},
		{"blue/client db.red tcp 80", []string{"reached as FACE blue/client"}},
		{"blue/client web.peers.red.svc tcp 80", []string{"reached as FACE blue/client"}},
		{"red/web client.blue tcp 80", []string{"name", "does not exist", "written right"}},
		{"west/client db.red tcp 80", []string{"name", "Service red/db is of Network red", "spec.compatibleWith of Network red"}},
		{"red/web www.example.com tcp 80", []string{"name", "egress none", "spec.egress: node"}},
		{"blue/client www.example.com tcp 443", []string{"reached as the address of node n1"}},
		{"red/mute db tcp 80", []string{"policy", "the question for db is stopped", "spec.egress"}},
		{"mute/client db tcp 80", []string{"name", "dns.mode none"}},
		{"green/client names tcp 80", []string{"load balancer", "nobody answers questions for names in Network green", "DNSReady"}},
		{"red/web kubernetes.default tcp 443", []string{"reached as the address of node n1"}},
		{"plain/app app tcp 80", []string{"reached as 10.96.1.8", "pod kube-system/dns answers"}},
		// Out, and to the infrastructure.
		{"red/web outside tcp 443", []string{"porthole", "egress none", "spec.egress: node of Network red"}},
		{"blue/client outside tcp 443", []string{"reached as the address of node n1"}},
		{"blue/client 169.254.169.254 tcp 80", []string{"porthole", "special range"}},
		{"red/web 10.96.0.1 tcp 443", []string{"reached as the address of node n1", "infraAccess services"}},
		{"mute/client 10.96.0.1 tcp 443", []string{"porthole", "infraAccess none", "spec.infraAccess: services of Network mute"}},
		{"red/web 172.18.0.9 tcp 6443", []string{"porthole", "by its own address"}},
		{"green/client 172.18.0.9 tcp 6443", []string{"reached as the address of node n1"}},
		{"red/web node/n1 tcp 10250", []string{"porthole", "172.18.0.1 is node n1", "spec.infraAccess: direct"}},
		{"green/client node/n1 tcp 10250", []string{"reached as FACE green/client"}},
		{"green/client node/n2 tcp 10250", []string{"reached as the address of node n1"}},
		{"green/client plain/app tcp 80", []string{"reached as FACE green/client"}},
		{"green/client svc/plain/app tcp 80", []string{"reached as FACE green/client", "kube-proxy of node n1"}},
		{"green/client svc/red/db tcp 80", []string{"node", "from one porthole to another is refused"}},
		{"blue/client svc/plain/app tcp 80", []string{"load balancer", "infraAccess services", "infraAccess: direct"}},
		{"red/web 10.0.0.77 tcp 80", []string{"switch", "no pod has it"}},
		{"red/web 100.64.1.99 tcp 80", []string{"porthole", "range of faces, and no pod has it"}},
		// The default Network.
		{"plain/app red/web tcp 80", []string{"policy", "spec.infraIngress", "atoll.dev/infrastructure=true"}},
		{"kube-system/operator red/web tcp 80", []string{"reached as OWN kube-system/operator"}},
		{"kube-system/operator svc/red/db tcp 80", []string{"reached as OWN kube-system/operator"}},
		{"plain/app kube-system/operator tcp 80", []string{"reached as OWN plain/app"}},
		{"plain/app outside tcp 80", []string{"reached as the address of node n1"}},
		// Nodes, and outside.
		{"node/n2 red/locked tcp 80", []string{"reached as 169.254.100.5", "own node always reaches it"}},
		{"node/n1 red/locked tcp 80", []string{"policy", "isolated by NetworkPolicy/red/lock"}},
		{"node/n2 red/web tcp 80", []string{"reached as NODE n2"}},
		{"node/n1 plain/app tcp 80", []string{"reached as NODE n1"}},
		{"node/n1 svc/red/db tcp 80", []string{"reached as NODE n1", "kube-proxy leads it to"}},
		{"node/n1 svc/red/none tcp 80", []string{"load balancer", "kube-proxy has no ready endpoint"}},
		{"outside red/web tcp 80", []string{"outside", "no address of pod red/web is routed outside"}},
		// Addresses that several Networks have.
		{"red/web 10.0.0.2 tcp 80 blue", []string{"compatibility", "pod blue/client is dialled as"}},
		{"blue/client 10.0.0.2 tcp 80 red", []string{"reached as FACE blue/client"}},
		{"10.0.0.2 red/db tcp 80 red", []string{"reached as 10.0.0.2", "pod red/web sends"}},
		{"red/friend 10.0.0.2 tcp 80", []string{"reached as 10.0.0.4", "4 pods of other Networks", "are not meant"}},
	} {
		got, err := explainIn(w, test.ask)
		if err != nil {
			t.Errorf("%s: %v", test.ask, err)
			continue
		}
		text := said(got)
		for i, want := range test.want {
			if want = expand(w, want); i == 0 {
				want = "\n" + want
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in:\n%s", test.ask, want, text)
			}
		}
		if len(got.Drift) > 0 {
			t.Errorf("%s: drift where all is as it should be: %+v", test.ask, got.Drift[0])
		}
	}
}

// said is an explanation as text: how it ends, the verdict, and all steps.
func said(e Explanation) string {
	text := ""
	for _, seen := range e.seen() {
		if e.Reached {
			text += "\nreached as " + seen
		}
	}
	if h := e.First(); h != nil {
		text += "\n" + string(h.Layer)
	}
	text += "\n" + e.Verdict()
	for _, w := range e.Ways {
		for _, h := range append(w.There, w.Back...) {
			text += fmt.Sprintf("\n  %t %s %s %s: %s", h.OK, h.Layer, h.Network, h.Node, h.What)
		}
	}
	return text
}

// expand puts addresses in place of FACE, OWN and NODE.
func expand(w *inspected.World, text string) string {
	words := strings.Fields(text)
	for i := range words {
		name := ""
		if i+1 < len(words) {
			name, _, _ = strings.Cut(words[i+1], ",")
		}
		namespace, pod, _ := strings.Cut(name, "/")
		var a netip.Addr
		switch words[i] {
		case "FACE":
			a = w.FaceOf(namespace, pod)
		case "OWN":
			a = w.OwnOf(namespace, pod)
		case "NODE":
			a = w.Objects.Nodes[name].Assigned.Addresses[0].Addr()
		default:
			continue
		}
		text = strings.Replace(text, words[i]+" "+name, a.String(), 1)
	}
	return text
}

// What cannot be answered is an error that says what to ask instead; an address of several is never taken for one of them.
func TestExplainCannotTell(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	for ask, want := range map[string]string{
		"10.0.0.2 red/db tcp 80": "pod blue/client in Network blue, and of pod foreign/client in Network " +
			"foreign, and of pod green/client",
		"node/n1 10.0.0.2 tcp 80":           "--network",
		"10.0.0.99 red/db tcp 80 red":       "no pod of Network red has the address",
		"red/web red/gone tcp 80":           "there is no pod red/gone",
		"red/web svc/red/gone tcp 80":       "there is no Service red/gone",
		"red/web node/n9 tcp 80":            "there is no node n9",
		"red/web red/web tcp 80":            "both ends are the same",
		"svc/red/db red/web tcp 80":         "begins no connections",
		"outside node/n1 tcp 80":            "one end must be a pod",
		"outside svc/red/db tcp 80":         "which node ports it has Atoll does not read",
		"red/web red/db tcp 0":              "--port: name the port",
		"red/web red/db icmp 80":            "icmp has no ports",
		"red/web red/db gre 80":             "is none of tcp",
		"red/web red/db tcp 80 red":         "neither end is an address",
		"red/web red/db/eth1/x tcp 80":      "is none of NAMESPACE/POD",
		"red/web ::ffff:192.0.2.1 tcp 80":   "write an IPv4 address as IPv4",
		"red/web 2001:db8::7 tcp 80":        "no IP family in common",
		"red/web -x tcp 80":                 "is none of NAMESPACE/POD",
		"192.0.2.7 172.18.0.1 tcp 80":       "one end must be a pod or a Service",
		"red/web 10.0.0.99 tcp 80 nonesuch": "no pod of Network nonesuch",
	} {
		_, err := explainIn(w, ask)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", ask, err, want)
		}
	}
	var several *question.AmbiguousError
	if _, err := explainIn(w, "10.0.0.2 red/db tcp 80"); !errors.As(err, &several) || len(several.Holders) != 5 {
		t.Errorf("got %v, want the five who have it", err)
	}
	// The name servers of a tenant's own answer: what they say only they know.
	servers := w.Objects.Services[model.ServiceKey{Namespace: "green", Name: "names"}]
	w.Slice(servers.Key, servers.Ports, w.Objects.Pods[model.PodKey{Namespace: "green", Name: "names"}])
	w.Settle()
	if _, err := explainIn(w, "green/client names tcp 80"); err == nil || !strings.Contains(err.Error(), "what those answer only they know") {
		t.Errorf("names of a tenant's own name servers: %v", err)
	}
}

// What rows lack is what stops a packet, whatever the objects ask for, and is named as drift.
func TestExplainTellsWhatOVNHas(t *testing.T) {
	t.Parallel()
	const way = "red/web red/db tcp 80"
	for name, test := range map[string]struct {
		ask    string
		damage func(*inspected.World)
		want   string
	}{
		"no port": {
			way, func(w *inspected.World) { w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, "red/db")) },
			"pod red/db has no port in OVN and gets nothing, and it should",
		},
		"a port in no switch": {way, func(w *inspected.World) {
			s := inspected.Find[*nb.LogicalSwitch](w, "red/back")
			s.Ports = inspected.Without(s.Ports, inspected.Find[*nb.LogicalSwitchPort](w, "red/db").UUID)
		}, "is in no switch"},
		"no router": {
			way, func(w *inspected.World) { w.Delete(inspected.Find[*nb.LogicalRouter](w, "red")) }, "there is no Logical_Router red",
		},
		"no port of the router": {
			way, func(w *inspected.World) { w.Delete(inspected.Find[*nb.LogicalRouterPort](w, "red/back:gateway")) },
			"there is no Logical_Router_Port red/back:gateway",
		},
		"no edge": {
			"blue/client outside tcp 443", func(w *inspected.World) { w.Delete(inspected.Find[*nb.LogicalRouterPort](w, "blue:edge")) },
			"there is no Logical_Router_Port blue:edge",
		},
		"no load balancer": {
			"red/web svc/red/db tcp 80", func(w *inspected.World) { w.Delete(inspected.Find[*nb.LoadBalancer](w, "red/red/db:tcp")) },
			"no row leads 10.96.1.0:80 anywhere",
		},
		"a face that is not let in": {"blue/client red/web tcp 80", func(w *inspected.World) {
			for _, row := range w.Rows {
				if s, is := row.(*nb.AddressSet); is && s.ExternalIDs[nb.KeySelector] == "faces taken" && s.ExternalIDs[nb.KeyNetwork] == "red" {
					s.Addresses = nil
				}
			}
		}, "by the rows, and the objects ask for it"},
	} {
		w := inspected.TownWorld(t)
		test.damage(w)
		got, err := explainIn(w, test.ask)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if text := said(got); got.Reached || !strings.Contains(text, test.want) || len(got.Drift) == 0 {
			t.Errorf("%s: no %q, or no drift (%d) in:\n%s", name, test.want, len(got.Drift), text)
		}
	}
}

// Whether ports are up is known where the southbound database is.
func TestExplainLooksWhetherPortsAreUp(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]ovsdb.Binding{
		"no node has bound the port of pod red/db":      {},
		"is bound on n1 and not on its node n2":         {Chassis: "n1", Hostname: "n1", Up: true},
		"is not up: ovn-controller of node n2":          {Chassis: "n2", Hostname: "n2"},
		"Reached: red/web to red/db, tcp port 80. It i": {Chassis: "n2", Hostname: "n2", Up: true},
	} {
		w := inspected.TownWorld(t)
		w.Bindings["red/db"] = b
		q, _ := questionOf("red/web red/db tcp 80")
		got, err := Explain(makeWorld(w.Rows, w.Objects, inspected.Explained(), w.Bindings), q)
		if err != nil || !strings.Contains(got.Verdict(), want) {
			t.Errorf("%+v: %v, %s, want %q", b, err, got.Verdict(), want)
		}
	}
}

// TestExplainTellsWhoIsAway: explain names a node from which Kubernetes hears nothing. Of a pod whose port no node has bound, it
// shows the newest Event. The control is a node whose kubelet itself reports that it is not Ready: packets still reach it.
func TestExplainTellsWhoIsAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ready core.ConditionStatus
		bound bool
		want  string
	}{
		"a node is away":   {core.ConditionUnknown, true, "node n2, where pod red/db is, is away: Kubernetes has heard nothing of it since"},
		"a node is unwell": {core.ConditionFalse, true, "Reached: red/web to red/db"},
		"its agent is away": {
			core.ConditionTrue, false,
			"no node has bound the port of pod red/db: ovn-controller or the agent of node n2 is away, or the pod has not started; " +
				"its newest Event says FailedCreatePodSandBox: atoll-agent of this node does not answer",
		},
		"all is as it was": {core.ConditionTrue, true, "Reached: red/web to red/db"},
	} {
		w := inspected.TownWorld(t)
		w.Bindings["red/db"] = ovsdb.Binding{}
		if test.bound {
			w.Bindings["red/db"] = ovsdb.Binding{Chassis: "n2", Hostname: "n2", Up: true}
		}
		pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "red", Name: "db"}}
		q, err := questionOf("red/web red/db tcp 80")
		if err != nil {
			t.Fatal(err)
		}
		world := makeWorld(w.Rows, w.Objects, inspected.Explained(), w.Bindings)
		world.told = toldBy(t.Context(), fake.NewClientset(
			pod,
			&core.Node{
				ObjectMeta: meta.ObjectMeta{Name: "n2"},
				Status:     core.NodeStatus{Conditions: []core.NodeCondition{{Type: core.NodeReady, Status: test.ready, Reason: "NodeStatusUnknown"}}},
			},
			&core.Event{
				ObjectMeta: meta.ObjectMeta{Namespace: "red", Name: "db.1"}, InvolvedObject: core.ObjectReference{
					Kind: "Pod", Namespace: "red", Name: "db",
				},
				Type: core.EventTypeWarning, Reason: "FailedCreatePodSandBox", Message: "atoll-agent of this node does not answer",
			},
		))
		got, err := Explain(world, q)
		if err != nil || !strings.Contains(said(got), test.want) && !strings.Contains(got.Verdict(), test.want) {
			t.Errorf("%s: %v, no %q in:\n%s\n%s", name, err, test.want, got.Verdict(), said(got))
		}
	}
}

// An ACL that nobody understands stops nothing and lets nothing pass: it says that it is not understood.
func TestExplainDoesNotGuess(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	w.ForeignACLOn("red/web", "from-lport", "drop", 0, "eth.type == 0x86dd")
	got, err := explainIn(w, "red/web red/db tcp 80")
	if err != nil || got.Reached || !strings.Contains(got.Verdict(), "is not understood: ") {
		t.Errorf("%v, %s", err, got.Verdict())
	}
	if _, err := questionOf("red/web red/db " + string(trace.ICMP) + " 0"); err != nil {
		t.Error(err)
	}
}

func TestExplainGolden(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]string{
		"reached": "red/web svc/red/db tcp 80", "another-network": "blue/client red/web tcp 80", "policy": "red/friend red/locked tcp 80",
		"some-endpoints": "red/web svc/red/two tcp 80", "direction": "red/web blue/client tcp 80", "name": "red/web www.example.com tcp 80",
		"node": "node/n2 red/web tcp 80", "outside": "blue/client outside tcp 443",
	} {
		w := inspected.TownWorld(t)
		got, err := explainIn(w, ask)
		if err != nil {
			t.Fatal(err)
		}
		inspected.Golden(t, "explain-"+name, got, cmpopts.IgnoreUnexported(Way{}))
	}
	w := inspected.TownWorld(t)
	w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, "red/db"))
	got, err := explainIn(w, "red/web red/db tcp 80")
	if err != nil {
		t.Fatal(err)
	}
	inspected.Golden(t, "explain-drift", got, cmpopts.IgnoreUnexported(Way{}))
}

// BenchmarkExplain explains a way among 10,000 pods in 100 Networks, with all that is derived from objects and rows: what one
// question costs. To be compared with BenchmarkLook, which looks at twice as many.
func BenchmarkExplain(b *testing.B) {
	var networks []string
	for i := range 100 {
		networks = append(networks, fmt.Sprintf("net-%d", i))
	}
	w := inspected.WorldOf(b, networks, 100)
	q, _ := questionOf("net-7/web-1 net-7/web-2 tcp 80")
	for b.Loop() {
		if got, err := Explain(explainable(w), q); err != nil || !got.Reached {
			b.Fatalf("%v, %+v", err, got)
		}
	}
}
