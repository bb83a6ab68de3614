package policytrace

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
	"github.com/atoll-net/atoll/test/inspected"
)

// traced asks for a trace.
func traced(
	w *inspected.World, cluster func() (model.Changes, error), from, to string, protocol model.Protocol, port uint16,
) (Trace, error) {
	w.T.Helper()
	q := Query{Protocol: protocol, Port: port}
	var err error
	if q.From, err = question.ParseEnd(from); err != nil {
		return Trace{}, err
	}
	if q.To, err = question.ParseEnd(to); err != nil {
		return Trace{}, err
	}
	if err := q.Check(); err != nil {
		return Trace{}, err
	}
	t := Tracer{Rows: trace.New(w.Rows.Rows), Cluster: cluster}
	return t.trace(q)
}

func unreachable() (model.Changes, error) { return model.Changes{}, errors.New("nobody answers") }

func TestTraceGolden(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, from, to string
		protocol       model.Protocol
		port           uint16
		cluster        func(*inspected.World) func() (model.Changes, error)
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
			cluster: func(*inspected.World) func() (model.Changes, error) { return unreachable },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := inspected.JudgedWorld(t)
			cluster := w.All
			if test.cluster != nil {
				cluster = test.cluster(w)
			}
			result, err := traced(w, cluster, test.from, test.to, test.protocol, test.port)
			if err != nil {
				t.Fatal(err)
			}
			if n := result.Dropped(); n != test.dropped {
				t.Errorf("%d ways are dropped, want %d", n, test.dropped)
			}
			inspected.Golden(t, "trace-"+test.name, result)
		})
	}
}

// Between Networks that are joined, a packet is followed by the pods' own addresses, in the direction that is allowed and in the other.
func TestTraceBetweenJoined(t *testing.T) {
	t.Parallel()
	w := inspected.JudgedWorld(t)
	red, blue := w.Objects.Networks["red"], w.Objects.Networks["blue"]
	blue.Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}}}
	for key, p := range w.Objects.Pods {
		if key.Namespace == "blue" {
			p.Assigned = nil
		}
	}
	red.CompatibleWith = []model.CompatiblePeer{{Network: "blue", Mode: model.Routed}}
	for key, list := range drift.Compile(inspected.Defaults, w.Objects, w.Rows.Rows).Decided.Attachments {
		w.Objects.Pods[key].Assigned = list
	}
	w.Rows = inspected.Database{}
	w.Write(3)
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
		result, err := traced(w, w.All, test.from, test.to, "tcp", test.port)
		if err != nil {
			t.Fatal(err)
		}
		if n := result.Dropped(); n != test.dropped {
			t.Errorf("%s: %d ways are dropped, want %d", test.name, n, test.dropped)
		}
		inspected.Golden(t, "trace-"+test.name, result)
	}
}

// peeredWorld is judgedWorld, in which pods have faces, blue reaches red, and web-1 of red receives what blue's web-0 sends to port 5432.
func peeredWorld(t *testing.T) *inspected.World {
	t.Helper()
	w := inspected.JudgedWorld(t)
	w.Settings.Faces = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}
	for i, name := range []string{"n1", "n2"} {
		block := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(2 * i), 0}), 23)
		w.Objects.Nodes[name] = &model.Node{
			Name: name, UID: "uid-" + name, Created: time.Unix(1, 0), Assigned: &model.NodeNetwork{
				NodeUID: "uid-" + name, Faces: []netip.Prefix{block},
			},
		}
	}
	w.Objects.Networks["red"].CompatibleWith = []model.CompatiblePeer{{Network: "blue"}}
	first := w.Objects.Pods[model.PodKey{Namespace: "blue", Name: "web-0"}]
	first.Labels = map[string]string{"app": "first"}
	peer := match.Pods{
		Namespace: "blue", Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{"first"}}}},
	}
	p := *w.Objects.Policies[model.PolicyKey{Kind: model.NetworkPolicy, Namespace: "red", Name: "db-from-web"}]
	p.Key.Name, p.UID, p.Log = "db-from-blue", "uid-db-from-blue", false
	p.Rules = [2][]model.Rule{
		{{Verdict: model.Allow, Peers: []model.Peer{{Pods: &peer}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5432}}}},
	}
	w.Objects.Policies[p.Key] = &p
	for key, list := range drift.Compile(w.Settings, w.Objects, w.Rows.Rows).Decided.Attachments {
		w.Objects.Pods[key].Assigned = list
	}
	db := w.Objects.Pods[model.PodKey{Namespace: "red", Name: "web-1"}]
	w.Objects.Slices[model.SliceKey{Namespace: "red", Name: "db-1"}].Endpoints[0].Address = db.Assigned[0].Faces[0]
	clear(w.Rows)
	w.Write(3)
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
		{
			"blue/web-0", "red/web-1", 5432,
			"no rule is about it, and no policy isolates the pod; NetworkPolicy/red/db-from-blue, rule 0 of Ingress",
		},
		{"blue/web-1", "red/web-1", 5432, "no rule is about it, and no policy isolates the pod; isolation: no policy allows it"},
		{"blue/web-0", "red/web-0", 5432, "no rule is about it, and no policy isolates the pod; isolation: no policy allows it"},
		{"blue/web-0", "red/web-1", 23, "ClusterNetworkPolicy/no-telnet, rule 0 of Egress"},
		{
			"blue/web-0", "svc/red/db", 80, "no rule is about it, and no policy isolates the pod; NetworkPolicy/red/db-from-blue, rule 0 of Ingress",
		},
		{"blue/web-0", "100.64.99.1", 80, "spec.compatibleWith and spec.uses of the two Networks"},
		{"100.64.99.1", "red/web-1", 5432, "spec.compatibleWith and spec.uses of the two Networks"},
	} {
		w := peeredWorld(t)
		got, err := traced(w, w.All, test.from, test.to, model.TCP, test.port)
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
	if _, err := traced(w, w.All, "red/web-0", "blue/web-0", model.TCP, 80); err == nil || !strings.Contains(err.Error(), "do not reach") {
		t.Errorf("a provider's pod is followed to its consumer's: %v", err)
	}
}

// Who dials a pod of another Network by its own address is followed to the pod's face, and judged as if that had been dialled.
func TestTraceToAnotherNetworksOwnAddress(t *testing.T) {
	t.Parallel()
	w := peeredWorld(t)
	w.Objects.Networks["blue"].Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.7.0.0/24")}}}
	for key, p := range w.Objects.Pods {
		if key.Namespace == "blue" {
			p.Assigned = nil
		}
	}
	w.Objects.Networks["red"].CompatibleWith[0].Addresses = true
	for key, list := range drift.Compile(w.Settings, w.Objects, w.Rows.Rows).Decided.Attachments {
		w.Objects.Pods[key].Assigned = list
	}
	clear(w.Rows)
	w.Write(3)
	db := w.Objects.Pods[model.PodKey{Namespace: "red", Name: "web-1"}].Assigned[0]
	own, face := db.Addresses[0].Addr().String(), db.Faces[0].String()
	const in, out = "NetworkPolicy/red/db-from-blue, rule 0 of Ingress", "no rule is about it, and no policy isolates the pod"
	ways := func(protocol model.Protocol, from, to string, port uint16) (texts []string) {
		t.Helper()
		got, err := traced(w, w.All, from, to, protocol, port)
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
		{
			model.TCP, "blue/web-0", "red/web-1", 5432, []string{
				own + ":5432 at " + face + "; " + out + "; " + in, " at " + face + "; " + out + "; " + in,
			},
		},
		{model.TCP, "blue/web-1", own, 5432, []string{own + ":5432 at " + face + "; " + out + "; isolation: no policy allows it"}},
		{trace.ICMP, "blue/web-0", own, 0, []string{own + " at " + face + "; " + out + "; isolation: no policy allows it"}},
		{
			model.TCP, "red/web-0", face, 5432, []string{
				face + ":5432 at " + own + "; " + out + "; NetworkPolicy/red/db-from-web, rule 0 of Ingress",
			},
		},
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
		damage   func(*inspected.World)
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
		{
			from: "red/web-0", to: "blue/web-0", protocol: "tcp", port: 1,
			want: "red/web-0 is in Network red and blue/web-0 in Network blue, whose pods the other's do not reach",
		},
		{from: "red/web-0", to: "svc/red/db", protocol: "udp", port: 80, want: "svc/red/db has no udp port 80"},
		{from: "red/web-0", to: "svc/red/none", protocol: "tcp", port: 80, want: "there is no Service red/none"},
		{from: "red/web-0", to: "2001:db8::1", protocol: "tcp", port: 80, want: "no IP family in common"},
		{
			from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 80, want: "the field eth.type is not understood",
			damage: func(w *inspected.World) { w.ForeignACL("from-lport", "drop", 0, "eth.type == 0x86dd") },
		},
		{
			from: "red/web-0", to: "red/web-1", protocol: "tcp", port: 80, want: "disagree: OVN takes any one of them",
			damage: func(w *inspected.World) {
				w.ForeignACL("to-lport", "drop", 0, "ip4")
				w.ForeignACL("to-lport", "allow", 0, "tcp")
			},
		},
	} {
		w := inspected.JudgedWorld(t)
		if test.damage != nil {
			test.damage(w)
		}
		_, err := traced(w, w.All, test.from, test.to, test.protocol, test.port)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s to %s: got %v, want an error with %q", test.from, test.to, err, test.want)
		}
	}
}

// An ACL decides that nobody else knows of: that is said, and not what the policies mean.
func TestTraceTellsWhatOVNHas(t *testing.T) {
	t.Parallel()
	w := inspected.JudgedWorld(t)
	w.ForeignACL("from-lport", "drop", 5, "ip4 && tcp.dst == {5000..5999, 5432} || 0")
	if _, err := traced(w, w.All, "red/web-0", "red/web-1", "tcp", 5432); err == nil {
		t.Error("a match that OVN does not take is understood")
	}
	w = inspected.JudgedWorld(t)
	w.ForeignACL("from-lport", "reject", 5, "(ip4 && tcp.dst >= 5000) && !(tcp.dst > 5999) // theirs")
	got, err := traced(w, w.All, "red/web-0", "red/web-1", "tcp", 5432)
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Paths[0]; got.Dropped() != 1 || len(p.Steps) != 1 || !strings.Contains(p.Steps[0].Reason, "not of Atoll") {
		t.Errorf("got %+v", got)
	}
	// A row that has gone is not there, whatever the policy wants.
	w = inspected.JudgedWorld(t)
	for ref, row := range w.Rows {
		if a, ok := row.(*nb.ACL); ok && a.Action == "drop" {
			delete(w.Rows, ref)
		}
	}
	if got, err = traced(w, w.All, "red/web-1", "red/web-0", "udp", 53); err != nil || got.Dropped() != 0 {
		t.Errorf("without the rows that drop: %+v, %v", got, err)
	}
}
