package inspect

import (
	"net/netip"
	"testing"
	"time"

	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// vpc makes a Network with its namespace, of the same addresses as all others unless it gets others.
func (w *world) vpc(name string, change func(*model.Network)) {
	w.objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
	p := netip.MustParsePrefix
	n := &model.Network{
		Name: name, UID: "uid-" + name, Generation: 2, Type: model.VPC, Finalized: true, Created: time.Unix(int64(len(w.objects.Networks)), 0),
		Egress: model.EgressNone, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
		Subnets: []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{p("10.0.0.0/24")}}, {Name: "back", CIDRs: []netip.Prefix{p("10.0.1.0/24")}}},
	}
	if change != nil {
		change(n)
	}
	w.objects.Networks[name] = n
}

func (w *world) pod(namespace, name, node string) *model.Pod {
	pod := w.addPod(namespace, name, node)
	pod.Labels = map[string]string{"app": name}
	return pod
}

func appIs(namespace, app string) match.Pods {
	return match.Pods{Namespace: namespace, Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}}}
}

func (w *world) policy(name string, subject match.Pods, direction model.Direction, rules ...model.Rule) {
	p := &model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: subject.Namespace, Name: name}, UID: "uid-" + name, Tier: model.TierTenant, Subject: subject,
	}
	p.Isolates[direction], p.Rules[direction] = true, rules
	w.objects.Policies[p.Key] = p
}

// townWorld has a bit of everything: red serves blue by face, and has policies; own serves blue by own addresses; east serves west, joined; green is
// nobody's, has direct access, a way out and name servers of its own; mute has nothing at all; and pods of the default Network, of which
// those of kube-system are infrastructure. red, blue, green and mute have the same addresses.
func townWorld(t testing.TB) *world {
	t.Helper()
	w := worldOf(t, nil, 0)
	w.settings = defaultsof.Of(explained())
	p := netip.MustParsePrefix
	w.addNode("n1", 0)
	w.addNode("n2", 1)
	w.objects.Networks["default"] = &model.Network{
		Name: "default", UID: "uid-default", Generation: 2, Type: model.Flat, Finalized: true, Created: time.Unix(1, 0),
		Egress: model.EgressNode, Infra: model.InfraDirect, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
	}
	for _, name := range []string{"kube-system", "plain", "default"} {
		w.objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{}}
	}
	w.vpc("red", func(n *model.Network) { n.CompatibleWith = []model.CompatiblePeer{{Network: "blue"}} })
	w.vpc("blue", func(n *model.Network) { n.Egress = model.EgressNode })
	w.vpc("green", func(n *model.Network) {
		n.Infra, n.Egress, n.DNS, n.DNSService = model.InfraDirect, model.EgressNode, model.DNSService, model.ServiceRef{Namespace: "green", Name: "names"}
	})
	w.vpc("mute", func(n *model.Network) { n.Infra, n.DNS = model.InfraNone, model.DNSNone })
	other := func(cidr string, peer model.CompatiblePeer) func(*model.Network) {
		return func(n *model.Network) {
			n.Subnets = []model.Subnet{{Name: "front", CIDRs: []netip.Prefix{p(cidr)}}}
			if peer.Network != "" {
				n.CompatibleWith = []model.CompatiblePeer{peer}
			}
		}
	}
	w.vpc("own", other("10.9.0.0/24", model.CompatiblePeer{Network: "blue", Addresses: true}))
	w.vpc("east", other("10.7.0.0/24", model.CompatiblePeer{Network: "west", Mode: model.Routed}))
	w.vpc("west", other("10.8.0.0/24", model.CompatiblePeer{}))
	w.vpc("foreign", func(n *model.Network) {
		n.Tenant = "umbrella"
		n.Uses = nil
	})
	w.objects.Namespaces["foreign"].Labels[model.LabelTenant] = "umbrella"
	w.objects.Networks["red"].CompatibleWith = append(w.objects.Networks["red"].CompatibleWith, model.CompatiblePeer{Network: "foreign"})

	web, db, locked, mute := w.pod("red", "web", "n1"), w.pod("red", "db", "n2"), w.pod("red", "locked", "n2"), w.pod("red", "mute", "n1")
	db.NIC.Subnet, mute.NIC.Subnet = "back", "back"
	w.pod("red", "friend", "n1")
	w.pod("red", "nowhere", "n1").NIC.IP = netip.MustParseAddr("10.44.0.1")
	for _, name := range []string{"blue", "green", "mute", "own", "west", "foreign"} {
		w.pod(name, "client", "n1")
	}
	w.pod("green", "names", "n1")
	w.pod("east", "web", "n2")
	w.pod("own", "web", "n2")
	w.pod("kube-system", "operator", "n1")
	dns := w.pod("kube-system", "dns", "n2")
	w.pod("plain", "app", "n1")

	friend, client := appIs("red", "friend"), appIs("blue", "client")
	w.policy("lock", appIs("red", "locked"), model.PolicyIngress, model.Rule{
		Verdict: model.Allow, Peers: []model.Peer{{Pods: &friend}, {Pods: &client}}, Ports: []model.PolicyPort{{Protocol: model.TCP, First: 5432, Last: 5432}},
	})
	w.policy("mute", appIs("red", "mute"), model.PolicyEgress, model.Rule{Verdict: model.Allow, Peers: []model.Peer{{Pods: &friend}}, AnyPort: true})
	w.settle()

	ports := []model.ServicePort{{Name: "web", Protocol: model.TCP, Port: 80}}
	w.serve("red", "db", 0, ports, db)
	w.serve("red", "locked", 1, ports, locked)
	w.serve("red", "two", 2, ports, db, locked)
	w.serve("red", "none", 3, ports)
	w.serve("red", "sick", 4, ports, db)
	w.serve("red", "going", 5, ports, db)
	w.serve("green", "names", 6, []model.ServicePort{{Name: "dns-udp", Protocol: model.UDP, Port: dnsPort}, {Name: "dns-tcp", Protocol: model.TCP, Port: dnsPort}})
	w.serve("kube-system", "kube-dns", 7, []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: dnsPort}}, dns)
	w.serve("plain", "app", 8, ports, w.objects.Pods[model.PodKey{Namespace: "plain", Name: "app"}])
	w.serve("red", "self", 9, ports, web)
	for i, name := range []string{"sick-true", "going-true"} {
		for k := range w.objects.Slices[model.SliceKey{Namespace: "red", Name: name}].Endpoints {
			end := &w.objects.Slices[model.SliceKey{Namespace: "red", Name: name}].Endpoints[k]
			end.Ready, end.Serving = false, i == 1
		}
	}
	w.slice(model.ServiceKey{Namespace: "red", Name: "peers"}, ports, web, db)
	w.slice(model.ServiceKey{Namespace: "red", Name: "unready"}, ports, db)
	for k := range w.objects.Slices[model.SliceKey{Namespace: "red", Name: "unready-true"}].Endpoints {
		w.objects.Slices[model.SliceKey{Namespace: "red", Name: "unready-true"}].Endpoints[k].Ready = false
	}
	api := &model.Service{
		Key: apiKey(), UID: "uid-api", Created: time.Unix(1, 0), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []model.ServicePort{{Name: "https", Protocol: model.TCP, Port: 443}},
	}
	w.objects.Services[api.Key] = api
	server := &model.Slice{
		Key: model.SliceKey{Namespace: "default", Name: "kubernetes"}, UID: "uid-api-slice", Service: "kubernetes", Ports: []model.SlicePort{{Name: "https", Protocol: model.TCP, Port: 6443}},
		Endpoints: []model.Endpoint{{Address: netip.MustParseAddr("172.18.0.9"), Ready: true, Serving: true}},
	}
	w.objects.Slices[server.Key] = server
	w.settle()
	return w
}

// faceOf and ownOf are the addresses of a pod.
func (w *world) faceOf(namespace, name string) netip.Addr {
	return w.objects.Pods[model.PodKey{Namespace: namespace, Name: name}].Assigned[0].Faces[0]
}

func (w *world) ownOf(namespace, name string) netip.Addr {
	return w.objects.Pods[model.PodKey{Namespace: namespace, Name: name}].Assigned[0].Addresses[0].Addr()
}
