package explain

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/inspected"
)

// TestExplainJudgesAsTheNode: what leaves a Network is explained as the node's own rules have it, and names as atoll-dns answers them.
func TestExplainJudgesAsTheNode(t *testing.T) {
	t.Parallel()
	w := inspected.TownWorld(t)
	settings := inspected.Explained()
	settings.Balancers = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	settings.Closed = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	w.Objects.Reports["n1"] = &model.NodeReport{Node: "n1", Tunnels: []netip.Addr{netip.MustParseAddr("192.168.77.1")}}
	for _, name := range []string{"six", "walled"} {
		w.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
		n := *w.Objects.Networks["blue"]
		n.Name, n.UID = name, "uid-"+name
		n.Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{netip.MustParsePrefix("fd00:6::/64")}}}
		w.Objects.Networks[name] = &n
		w.AddPod(name, "client", "n1")
	}
	names := w.Objects.Services[settings.DNS.Service]
	names.ClusterIPs = names.ClusterIPs[:1]
	w.Objects.Networks["walled"].Infra, w.Objects.Networks["walled"].Egress = model.InfraNone, model.EgressNone
	w.Settle()
	for name, end := range map[string]model.Endpoint{
		"bare": {Address: w.FaceOf("red", "db"), Pod: model.PodKey{Namespace: "red", Name: "db"}, Ready: true},
		"away": {Address: netip.MustParseAddr("192.0.2.9"), Ready: true},
	} {
		key := model.SliceKey{Namespace: "red", Name: name}
		w.Objects.Slices[key] = &model.Slice{
			Key: key, UID: "uid-" + name, Service: name, Endpoints: []model.Endpoint{end},
			Ports: []model.SlicePort{{Name: "web", Protocol: model.TCP, Port: 80}},
		}
	}
	for _, test := range []struct {
		ask  string
		want []string
	}{
		// Behind a translator is what would be refused without one.
		{"six/client 64:ff9b::6440:105 tcp 80", []string{"porthole", "stands for 100.64.1.5 behind a translator"}},
		{"six/client 64:ff9b::a60:107 tcp 80", []string{"porthole", "64:ff9b::a60:107 is a range of the cluster's Services"}},
		{"six/client 64:ff9b::a9fe:a9fe tcp 80", []string{"porthole", "special range"}},
		{"six/client 2001:db8:80::1 tcp 80", []string{"reached as the address of node n1"}},
		// Where pods of IPv6 alone find names and API.
		{"six/client www.example.com tcp 443", []string{"reached as the address of node n1", "answers at fdd7:5e3c:91a4::a703:35"}},
		{"six/client kubernetes.default tcp 443", []string{"reached as the address of node n1", "infraAccess services lets it pass"}},
		{"walled/client fdd7:5e3c:91a4::a703:1 tcp 443", []string{"porthole", "special range"}},
		// Load balancers' ranges are no infrastructure: such an address is outside.
		{"blue/client 198.51.100.7 tcp 80", []string{"reached as the address of node n1"}},
		{"green/client 198.51.100.7 tcp 80", []string{"reached as the address of node n1", "it leaves node n1"}},
		// What is closed is so with direct access, too, and tunnels are.
		{"green/client 203.0.113.7 tcp 80", []string{"porthole", "closedCIDRs"}},
		{"green/client 192.168.77.1 udp 6081", []string{"porthole", "or is a tunnel's address"}},
		{"blue/client 192.168.77.1 udp 6081", []string{"porthole", "or is a tunnel's address"}},
		// Names of endpoints that have no hostname, and endpoints that are no pods.
		{"red/web 10-0-1-2.bare tcp 80", []string{"reached as 10.0.0.2", "is of Service red/bare"}},
		{"blue/client 10-0-1-2.bare.red tcp 80", []string{"name", "has no endpoint for pods of Network blue"}},
		{"red/web away tcp 80", []string{"porthole", "this one is 192.0.2.9", "egress none"}},
		{"blue/client away.red tcp 80", []string{"name", "has no endpoint for pods of Network blue"}},
		// The API's address at another port.
		{"red/web 10.96.0.1 tcp 80", []string{"porthole", "the Kubernetes API has no port 80"}},
		{"green/client 10.96.0.1 tcp 80", []string{"porthole", "the Kubernetes API has no port 80"}},
	} {
		q, err := questionOf(test.ask)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Explain(makeWorld(w.Rows, w.Objects, settings, nil), q)
		if err != nil {
			t.Errorf("%s: %v", test.ask, err)
			continue
		}
		text := said(got)
		if lacks := slices.DeleteFunc(test.want, func(want string) bool { return strings.Contains(text, want) }); len(lacks) > 0 {
			t.Errorf("%s: no %q in:\n%s", test.ask, lacks, text)
		}
	}
}
