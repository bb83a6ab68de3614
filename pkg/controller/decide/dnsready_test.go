package decide_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/graph"
)

// TestDNSReady: a Network says when nobody can answer for its names, and no other says anything.
func TestDNSReady(t *testing.T) {
	w := &world{cluster: newCluster(), graph: graph.New()}
	settings := withFaces("100.64.0.0/10")
	settings.DNS = model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}
	w.state = decide.NewState(settings, w.graph, w.cluster)
	w.setNamespace("a", map[string]string{model.LabelNetwork: "red"})
	w.setNamespace("kube-system", nil)
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		w.setNode(node(name, 1))
	}
	dns := model.ServiceKey{Namespace: "a", Name: "dns"}
	red := network("red", "front", "10.0.0.0/24")
	red.DNS, red.DNSService = model.DNSService, model.ServiceRef(dns)
	plain, none := network("plain", "front", "10.0.0.0/24"), network("none", "front", "10.0.0.0/24")
	plain.DNS, none.DNS = model.DNSNode, model.DNSNone
	w.setNetwork(red)
	w.setNetwork(plain)
	w.setNetwork(none)
	want := func(when, network, reason string, status, unknown bool) {
		t.Helper()
		w.settle()
		if c := w.condition(network, model.ConditionDNSReady); c.Reason != reason || c.Status != status || c.Unknown != unknown {
			t.Errorf("%s: Network %s: %+v, want %s", when, network, c, reason)
		}
	}
	want("without the cluster's DNS", "red", model.ReasonClusterDNSNotFound, false, true)
	want("without the cluster's DNS", "plain", model.ReasonClusterDNSNotFound, false, true)
	want("without the cluster's DNS", "none", "", false, false)
	cluster := model.Service{
		Key: settings.DNS, UID: "uid-dns", ClusterIPs: []netip.Addr{at("10.96.0.10")}, Ports: []model.ServicePort{
			{Name: "dns", Protocol: model.UDP, Port: 53},
		},
	}
	w.setService(cluster)
	want("with the cluster's DNS", "plain", "", false, false)
	w.setReport(model.NodeReport{Node: "n1", DNS: []netip.Addr{at("10.96.0.10")}})
	want("with agents that know it", "plain", "", false, false)
	for _, name := range []string{"n2", "n3", "n4", "n5"} {
		w.setReport(model.NodeReport{Node: name})
	}
	want("with agents that do not know it", "plain", model.ReasonClusterDNSNotSet, false, false)
	want("with agents that do not know it", "none", "", false, false)
	if c := w.condition("plain", model.ConditionDNSReady); !strings.HasPrefix(c.Message,
		"pods on n2, n3, n4 and 1 more node have no names: ") {
		t.Errorf("it says %q", c.Message)
	}
	for _, name := range []string{"n2", "n3", "n4", "n5"} {
		w.deleteReport(name)
	}
	want("once they have gone", "plain", "", false, false)
	want("without its Service", "red", model.ReasonDNSServiceNotFound, false, false)
	own := cluster
	own.Key, own.UID, own.ClusterIPs = dns, "uid-own", []netip.Addr{at("10.96.0.77")}
	w.setService(own)
	want("without an endpoint", "red", model.ReasonDNSServiceWithoutEndpoints, false, false)
	p := pod("a", "server", "red")
	w.setPod(p)
	w.settle()
	face := w.attachment(p.Key).Faces[0]
	w.setSlice(model.Slice{
		Key: model.SliceKey{Namespace: "a", Name: "dns-1"}, Service: "dns", Ports: []model.SlicePort{
			{Name: "dns", Protocol: model.UDP, Port: 53},
		},
		Endpoints: []model.Endpoint{{Address: face, Pod: p.Key, PodUID: p.UID, Ready: true, Serving: true}},
	})
	want("with an endpoint", "red", "Answered", true, false)
	w.deletePod(p.Key)
	w.deleteSlice(model.SliceKey{Namespace: "a", Name: "dns-1"})
	want("without it again", "red", model.ReasonDNSServiceWithoutEndpoints, false, false)
	w.deleteService(dns)
	want("without its Service again", "red", model.ReasonDNSServiceNotFound, false, false)
}
