package inspect

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// judgedWorld has policies in red: web-1 receives port 5432 of web-0, logged; all others receive nothing, and web-2 sends
// nothing. web-1 is behind a Service, and one has no endpoints.
func judgedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for i, app := range []string{"web", "db", "mute"} {
		w.objects.Pods[model.PodKey{Namespace: "red", Name: "web-" + string(rune('0'+i))}].Labels = map[string]string{"app": app}
	}
	of := func(app string) match.Pods {
		return match.Pods{Namespace: "red", Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}}
	}
	web := of("web")
	for _, p := range []model.Policy{
		{Subject: match.Pods{Namespace: "red"}, Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "deny-all"}},
		{
			Subject: of("db"), Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "db-from-web"}, Log: true,
			Rules: [2][]model.Rule{{
				{Verdict: model.Allow, Peers: []model.Peer{{Pods: &web}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5433}}},
			}},
		},
		{
			Subject: of("db"), Isolates: [2]bool{true, false}, Key: model.PolicyKey{Name: "db-too"},
			Rules: [2][]model.Rule{{{Verdict: model.Allow, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5433, Last: 5433}}}}},
		},
		{Subject: of("mute"), Isolates: [2]bool{false, true}, Key: model.PolicyKey{Name: "mute"}},
	} {
		p.Key.Kind, p.Key.Namespace, p.Tier, p.UID = model.NetworkPolicy, "red", model.TierTenant, "uid-"+p.Key.Name
		w.objects.Policies[p.Key] = &p
	}
	cluster := model.Policy{
		Key: model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: "no-telnet"}, UID: "uid-no-telnet", Tier: model.TierAdmin, Priority: 10,
		Rules: [2][]model.Rule{1: {{Verdict: model.Deny, AnyPeer: true, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 23, Last: 23}}}}},
	}
	w.objects.Policies[cluster.Key] = &cluster
	for i, name := range []string{"db", "nobody"} {
		key := model.ServiceKey{Namespace: "red", Name: name}
		w.objects.Services[key] = &model.Service{
			Key: key, UID: "uid-" + name, Created: time.Unix(1, 0), ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(10 + i)})},
			Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80}},
		}
	}
	slice := model.SliceKey{Namespace: "red", Name: "db-1"}
	w.objects.Slices[slice] = &model.Slice{
		Key: slice, UID: "uid-slice", Service: "db", Ports: []model.SlicePort{{Protocol: model.TCP, Port: 5432}},
		Endpoints: []model.Endpoint{{
			Address: netip.MustParseAddr("100.64.0.5"), Pod: model.PodKey{Namespace: "red", Name: "web-1"}, PodUID: "uid-red-web-1", Ready: true, Serving: true,
		}},
	}
	w.write(3)
	return w
}

// traced asks for a trace.
func (w *world) traced(cluster func() (model.Changes, error), from, to string, protocol model.Protocol, port uint16) (Trace, error) {
	w.t.Helper()
	q := TraceQuery{Protocol: protocol, Port: port}
	var err error
	if q.From, err = ParseEnd(from); err != nil {
		return Trace{}, err
	}
	if q.To, err = ParseEnd(to); err != nil {
		return Trace{}, err
	}
	if err := q.Check(); err != nil {
		return Trace{}, err
	}
	t := tracer{rows: trace.New(w.rows.Rows), cluster: cluster}
	return t.trace(q)
}

func (w *world) all() (model.Changes, error) { return w.objects, nil }

func unreachable() (model.Changes, error) { return model.Changes{}, errors.New("nobody answers") }

func TestTraceGolden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, from, to string
		protocol       model.Protocol
		port           uint16
		cluster        func(*world) func() (model.Changes, error)
		dropped        int
	}{
		{name: "allowed", from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 5432},
		{name: "allowed-by-two", from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 5433},
		{name: "isolated", from: "red/web-1", to: "red/web-0", protocol: "udp", port: 53, dropped: 1},
		{name: "isolated-logged", from: "red/web-0", to: "red/web-1", protocol: "icmp", dropped: 1},
		{name: "egress", from: "red/web-2", to: "192.0.2.1", protocol: "tcp", port: 443, dropped: 1},
		{name: "denied", from: "red/web-0", to: "192.0.2.1", protocol: "tcp", port: 23, dropped: 1},
		{name: "outside", from: "red/web-0", to: "192.0.2.1", protocol: "tcp", port: 443},
		{name: "client", from: "192.0.2.1", to: "red/web-1", protocol: "tcp", port: 5432, dropped: 1},
		{name: "address-of-a-pod", from: "10.0.0.2", to: "red/web-1", protocol: "tcp", port: 5432},
		{name: "service", from: "red/web-0", to: "svc/red/db", protocol: "tcp", port: 80},
		{name: "service-address", from: "red/web-2", to: "10.96.0.10", protocol: "tcp", port: 80, dropped: 1},
		{name: "service-of-nobody", from: "red/web-0", to: "service/red/nobody", protocol: "tcp", port: 80, dropped: 1},
		{name: "own-node", from: "169.254.100.5", to: "red/web-0", protocol: "tcp", port: 8080},
		{name: "other-network", from: "blue/web-0", to: "blue/web-1", protocol: "sctp", port: 9},
		{
			name: "without-api", from: "red/web-1", to: "red/web-0", protocol: "udp", port: 53, dropped: 1,
			cluster: func(*world) func() (model.Changes, error) { return unreachable },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := judgedWorld(t)
			cluster := w.all
			if test.cluster != nil {
				cluster = test.cluster(w)
			}
			result, err := w.traced(cluster, test.from, test.to, test.protocol, test.port)
			if err != nil {
				t.Fatal(err)
			}
			if n := result.Dropped(); n != test.dropped {
				t.Errorf("%d ways are dropped, want %d", n, test.dropped)
			}
			golden(t, "trace-"+test.name, result)
		})
	}
}

// Between Networks that are joined, a packet is followed by the pods' own addresses, in the direction that is allowed and in the other.
func TestTraceBetweenJoined(t *testing.T) {
	t.Parallel()
	w := judgedWorld(t)
	red, blue := w.objects.Networks["red"], w.objects.Networks["blue"]
	blue.Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}}}
	for key, p := range w.objects.Pods {
		if key.Namespace == "blue" {
			p.Assigned = nil
		}
	}
	red.CompatibleWith = []model.CompatiblePeer{{Network: "blue", Mode: model.Routed}}
	for key, list := range compileAll(defaults, w.objects, w.rows.Rows).decided.attachments {
		w.objects.Pods[key].Assigned = list
	}
	w.rows = database{}
	w.write(3)
	for _, test := range []struct {
		name, from, to string
		port           uint16
		dropped        int
	}{
		{name: "joined", from: "blue/web-0", to: "red/web-1", port: 5433},
		{name: "joined-isolated", from: "blue/web-0", to: "red/web-1", port: 5432, dropped: 1},
		{name: "joined-service", from: "blue/web-0", to: "10.96.0.10", port: 80, dropped: 1},
		{name: "joined-other-way", from: "red/web-1", to: "blue/web-0", port: 80, dropped: 1},
		{name: "joined-address", from: "red/web-1", to: "10.7.0.2", port: 80, dropped: 1},
	} {
		result, err := w.traced(w.all, test.from, test.to, "tcp", test.port)
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Dropped(); n != test.dropped {
			t.Errorf("%s: %d ways are dropped, want %d", test.name, n, test.dropped)
		}
		golden(t, "trace-"+test.name, result)
	}
}

// peeredWorld is judgedWorld, in which pods have faces, blue reaches red, and web-1 of red receives what blue's web-0 sends to port 5432.
func peeredWorld(t *testing.T) *world {
	t.Helper()
	w := judgedWorld(t)
	w.settings.Faces = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}
	for i, name := range []string{"n1", "n2"} {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(2 * i), 0}), 23)
		w.objects.Nodes[name] = &model.Node{Name: name, UID: "uid-" + name, Created: time.Unix(1, 0), Assigned: &model.NodeNetwork{NodeUID: "uid-" + name, Faces: []netip.Prefix{block}}}
	}
	w.objects.Networks["red"].CompatibleWith = []model.CompatiblePeer{{Network: "blue"}}
	first := w.objects.Pods[model.PodKey{Namespace: "blue", Name: "web-0"}]
	first.Labels = map[string]string{"app": "first"}
	peer := match.Pods{Namespace: "blue", Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{"first"}}}}}
	p := *w.objects.Policies[model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "db-from-web"}]
	p.Key.Name, p.UID, p.Log = "db-from-blue", "uid-db-from-blue", false
	p.Rules = [2][]model.Rule{{{Verdict: model.Allow, Peers: []model.Peer{{Pods: &peer}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5432}}}}}
	w.objects.Policies[p.Key] = &p
	for key, list := range compileAll(w.settings, w.objects, w.rows.Rows).decided.attachments {
		w.objects.Pods[key].Assigned = list
	}
	db := w.objects.Pods[model.PodKey{Namespace: "red", Name: "web-1"}]
	w.objects.Slices[model.SliceKey{Namespace: "red", Name: "db-1"}].Endpoints[0].Address = db.Assigned[0].Faces[0]
	clear(w.rows)
	w.write(3)
	return w
}

// A packet is followed into the Network of a pod that it may reach, where it comes from the sender's face; and no further.
func TestTraceIntoAnotherNetwork(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		port     uint16
		verdicts string
	}{
		{"blue/web-0", "red/web-1", 5432, "no rule is about it, and no policy isolates the pod; NetworkPolicy/red/db-from-blue, rule 0 of Ingress"},
		{"blue/web-1", "red/web-1", 5432, "no rule is about it, and no policy isolates the pod; isolation: no policy allows it"},
		{"blue/web-0", "red/web-0", 5432, "no rule is about it, and no policy isolates the pod; isolation: no policy allows it"},
		{"blue/web-0", "red/web-1", 23, "ClusterNetworkPolicy/no-telnet, rule 0 of Egress"},
		{"blue/web-0", "svc/red/db", 80, "no rule is about it, and no policy isolates the pod; NetworkPolicy/red/db-from-blue, rule 0 of Ingress"},
		{"blue/web-0", "100.64.99.1", 80, "spec.compatibleWith and spec.uses of the two Networks"},
		{"100.64.99.1", "red/web-1", 5432, "spec.compatibleWith and spec.uses of the two Networks"},
	} {
		w := peeredWorld(t)
		got, err := w.traced(w.all, test.from, test.to, model.TCP, test.port)
		if err != nil {
			t.Errorf("%s to %s: %v", test.from, test.to, err)
			continue
		}
		var verdicts []string
		for _, p := range got.Paths {
			for _, s := range p.Steps {
				verdicts = append(verdicts, s.Reason)
			}
		}
		if strings.Join(verdicts, "; ") != test.verdicts || got.Paths[0].Outside {
			t.Errorf("%s to %s: got %+v, want %s", test.from, test.to, got, test.verdicts)
		}
	}
	w := peeredWorld(t)
	if _, err := w.traced(w.all, "red/web-0", "blue/web-0", model.TCP, 80); err == nil || !strings.Contains(err.Error(), "do not reach") {
		t.Errorf("a provider's pod is followed to its consumer's: %v", err)
	}
}

// Who dials a pod of another Network by its own address is followed to the pod's face, and judged as if that had been dialled.
func TestTraceToAnotherNetworksOwnAddress(t *testing.T) {
	t.Parallel()
	w := peeredWorld(t)
	w.objects.Networks["blue"].Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}}}
	for key, p := range w.objects.Pods {
		if key.Namespace == "blue" {
			p.Assigned = nil
		}
	}
	w.objects.Networks["red"].CompatibleWith[0].Addresses = true
	for key, list := range compileAll(w.settings, w.objects, w.rows.Rows).decided.attachments {
		w.objects.Pods[key].Assigned = list
	}
	clear(w.rows)
	w.write(3)
	db := w.objects.Pods[model.PodKey{Namespace: "red", Name: "web-1"}].Assigned[0]
	own, face := db.Addresses[0].Addr().String(), db.Faces[0].String()
	const in, out = "NetworkPolicy/red/db-from-blue, rule 0 of Ingress", "no rule is about it, and no policy isolates the pod"
	ways := func(protocol model.Protocol, from, to string, port uint16) (texts []string) {
		t.Helper()
		got, err := w.traced(w.all, from, to, protocol, port)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range got.Paths {
			text := p.Dialled + " at " + p.To
			for _, s := range p.Steps {
				text += "; " + s.Reason
			}
			texts = append(texts, text)
		}
		return texts
	}
	for _, test := range []struct {
		protocol model.Protocol
		from, to string
		port     uint16
		want     []string
	}{
		{model.TCP, "blue/web-0", own, 5432, []string{own + ":5432 at " + face + "; " + out + "; " + in}},
		{model.TCP, "blue/web-0", "red/web-1", 5432, []string{own + ":5432 at " + face + "; " + out + "; " + in, " at " + face + "; " + out + "; " + in}},
		{model.TCP, "blue/web-1", own, 5432, []string{own + ":5432 at " + face + "; " + out + "; isolation: no policy allows it"}},
		{trace.ICMP, "blue/web-0", own, 0, []string{own + " at " + face + "; " + out + "; isolation: no policy allows it"}},
		{model.TCP, "red/web-0", face, 5432, []string{face + ":5432 at " + own + "; " + out + "; NetworkPolicy/red/db-from-web, rule 0 of Ingress"}},
	} {
		if got := ways(test.protocol, test.from, test.to, test.port); !slices.Equal(got, test.want) {
			t.Errorf("%s to %s by %s: got %q, want %q", test.from, test.to, test.protocol, got, test.want)
		}
	}
}

func TestTraceThatCannotFollow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		protocol model.Protocol
		port     uint16
		damage   func(*world)
		want     string
	}{
		{from: "web-0", to: "red/web-1", protocol: "tcp", port: 1, want: `"web-0" is neither NAMESPACE/POD`},
		{from: "red/", to: "red/web-1", protocol: "tcp", port: 1, want: `"red/" is neither`},
		{from: "a/b/c/d", to: "red/web-1", protocol: "tcp", port: 1, want: "is neither"},
		{from: "svc/red/db", to: "red/web-1", protocol: "tcp", port: 1, want: "a Service begins no connections"},
		{from: "192.0.2.1", to: "192.0.2.2", protocol: "tcp", port: 1, want: "one of them must be a pod"},
		{from: "::ffff:192.0.2.1", to: "red/web-1", protocol: "tcp", port: 1, want: "write an IPv4 address as IPv4"},
		{from: "red/web-0", to: "red/web-0", protocol: "tcp", port: 1, want: "never leaves it"},
		{from: "10.0.0.2", to: "red/web-0", protocol: "tcp", port: 1, want: "10.0.0.2 is red/web-0: what a pod sends to itself"},
		{from: "red/web-9", to: "red/web-0", protocol: "tcp", port: 1, want: "pod red/web-9 has no port"},
		{from: "red/web-0", to: "blue/web-0", protocol: "tcp", port: 1, want: "red/web-0 is in Network red and blue/web-0 in Network blue, whose pods the other's do not reach"},
		{from: "red/web-0", to: "svc/red/db", protocol: "udp", port: 80, want: "svc/red/db has no udp port 80"},
		{from: "red/web-0", to: "svc/red/none", protocol: "tcp", port: 80, want: "there is no Service red/none"},
		{from: "red/web-0", to: "2001:db8::1", protocol: "tcp", port: 80, want: "no IP family in common"},
		{
			from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 80, want: "the field eth.type is not understood",
			damage: func(w *world) { w.foreignACL("from-lport", "drop", 0, "eth.type == 0x86dd") },
		},
		{
			from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 80, want: "disagree: OVN takes any one of them",
			damage: func(w *world) {
				w.foreignACL("to-lport", "drop", 0, "ip4")
				w.foreignACL("to-lport", "allow", 0, "tcp")
			},
		},
	} {
		w := judgedWorld(t)
		if test.damage != nil {
			test.damage(w)
		}
		_, err := w.traced(w.all, test.from, test.to, test.protocol, test.port)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s to %s: got %v, want an error with %q", test.from, test.to, err, test.want)
		}
	}
}

// foreignACL hangs an ACL of somebody else on a port group with a port of red's.
func (w *world) foreignACL(direction, action string, priority int, match string) {
	w.foreignACLOn("red/web-2", direction, action, priority, match)
}

func (w *world) foreignACLOn(port, direction, action string, priority int, match string) {
	a := &nb.ACL{UUID: "acl-" + match, Direction: direction, Action: action, Priority: priority, Match: match}
	g := &nb.PortGroup{UUID: "group-" + match, Name: "theirs" + match, Ports: []string{find[*nb.LogicalSwitchPort](w, port).UUID}, ACLs: []string{a.UUID}}
	w.rows[nb.RefOf(a)], w.rows[nb.RefOf(g)] = a, g
}

// An ACL decides that nobody else knows of: that is said, and not what the policies mean.
func TestTraceTellsWhatOVNHas(t *testing.T) {
	t.Parallel()
	w := judgedWorld(t)
	w.foreignACL("from-lport", "drop", 5, "ip4 && tcp.dst == {5000..5999, 5432} || 0")
	if _, err := w.traced(w.all, "red/web-0", "red/web-1", "tcp", 5432); err == nil {
		t.Error("a match that OVN does not take is understood")
	}
	w = judgedWorld(t)
	w.foreignACL("from-lport", "reject", 5, "(ip4 && tcp.dst >= 5000) && !(tcp.dst > 5999) // theirs")
	got, err := w.traced(w.all, "red/web-0", "red/web-1", "tcp", 5432)
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Paths[0]; got.Dropped() != 1 || len(p.Steps) != 1 || !strings.Contains(p.Steps[0].Reason, "not of Atoll") {
		t.Errorf("got %+v", got)
	}
	// A row that has gone is not there, whatever the policy wants.
	w = judgedWorld(t)
	for ref, row := range w.rows {
		if a, ok := row.(*nb.ACL); ok && a.Action == "drop" {
			delete(w.rows, ref)
		}
	}
	if got, err = w.traced(w.all, "red/web-1", "red/web-0", "udp", 53); err != nil || got.Dropped() != 0 {
		t.Errorf("without the rows that drop: %+v, %v", got, err)
	}
}
