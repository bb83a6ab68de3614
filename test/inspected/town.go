package inspected

import (
	"net/netip"
	"testing"
	"time"

	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/match"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// vpc makes a Network with its namespace, of the same addresses as all others unless it gets others.
func (w *World) vpc(name string, change func(*model.Network)) {
	w.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{model.LabelNetwork: name}}
	p := netip.MustParsePrefix
	n := &model.Network{
		Name: name, UID: "uid-" + name, Generation: 2, Type: model.VPC, Finalized: true, Created: time.Unix(int64(len(w.Objects.Networks)), 0),
		Egress: model.EgressNone, Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
		Subnets: []model.Subnet{
			{Name: "front", CIDRs: []netip.Prefix{p("10.0.0.0/24")}}, {Name: "back", CIDRs: []netip.Prefix{p("10.0.1.0/24")}},
		},
	}
	if change != nil {
		change(n)
	}
	w.Objects.Networks[name] = n
}

func (w *World) pod(namespace, name, node string) *model.Pod {
	pod := w.AddPod(namespace, name, node)
	pod.Labels = map[string]string{"app": name}
	return pod
}

func AppIs(namespace, app string) match.Pods {
	return match.Pods{
		Namespace: namespace, Labels: match.Selector{Requirements: []match.Requirement{{Key: "app", Op: match.In, Values: []string{app}}}},
	}
}

func (w *World) Policy(name string, subject match.Pods, direction model.Direction, rules ...model.Rule) {
	p := &model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: subject.Namespace, Name: name}, UID: "uid-" + name, Tier: model.TierTenant,
		Subject: subject,
	}
	p.Isolates[direction], p.Rules[direction] = true, rules
	w.Objects.Policies[p.Key] = p
}

// TownWorld has a bit of everything: red serves blue by face, and has policies; own serves blue by own addresses; east serves
// west, joined; green is nobody's, has direct access, a way out and name servers of its own; mute has nothing at all; and pods of
// the default Network, of which those of kube-system are infrastructure. red, blue, green and mute have the same addresses.
func TownWorld(t testing.TB) *World {
	t.Helper()
	w := WorldOf(t, nil, 0)
	w.Settings = defaultsof.Of(Explained())
	p := netip.MustParsePrefix
	w.AddNode("n1", 0)
	w.AddNode("n2", 1)
	w.Objects.Networks["default"] = &model.Network{
		Name: "default", UID: "uid-default", Generation: 2, Type: model.Flat, Finalized: true, Created: time.Unix(1, 0),
		Egress: model.EgressNode, Infra: model.InfraDirect, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
	}
	for _, name := range []string{"kube-system", "plain", "default"} {
		w.Objects.Namespaces[name] = &model.Namespace{Name: name, Labels: map[string]string{}}
	}
	w.vpc("red", func(n *model.Network) { n.CompatibleWith = []model.CompatiblePeer{{Network: "blue"}} })
	w.vpc("blue", func(n *model.Network) { n.Egress = model.EgressNode })
	w.vpc("green", func(n *model.Network) {
		n.Infra, n.Egress, n.DNS, n.DNSService = model.InfraDirect, model.EgressNode, model.DNSService, model.ServiceRef{
			Namespace: "green", Name: "names",
		}
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
	w.Objects.Namespaces["foreign"].Labels[model.LabelTenant] = "umbrella"
	w.Objects.Networks["red"].CompatibleWith = append(w.Objects.Networks["red"].CompatibleWith, model.CompatiblePeer{Network: "foreign"})

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

	friend, client := AppIs("red", "friend"), AppIs("blue", "client")
	w.Policy("lock", AppIs("red", "locked"), model.PolicyIngress, model.Rule{
		Verdict: model.Allow, Peers: []model.Peer{{Pods: &friend}, {Pods: &client}}, Ports: []model.PolicyPort{
			{Protocol: model.TCP, First: 5432, Last: 5432},
		},
	})
	w.Policy("mute", AppIs("red", "mute"), model.PolicyEgress, model.Rule{
		Verdict: model.Allow, Peers: []model.Peer{{Pods: &friend}}, AnyPort: true,
	})
	w.Settle()

	ports := []model.ServicePort{{Name: "web", Protocol: model.TCP, Port: 80}}
	w.Serve("red", "db", 0, ports, db)
	w.Serve("red", "locked", 1, ports, locked)
	w.Serve("red", "two", 2, ports, db, locked)
	w.Serve("red", "none", 3, ports)
	w.Serve("red", "sick", 4, ports, db)
	w.Serve("red", "going", 5, ports, db)
	w.Serve("green", "names", 6, []model.ServicePort{
		{Name: "dns-udp", Protocol: model.UDP, Port: 53}, {Name: "dns-tcp", Protocol: model.TCP, Port: 53},
	})
	w.Serve("kube-system", "kube-dns", 7, []model.ServicePort{{Name: "dns", Protocol: model.UDP, Port: 53}}, dns)
	w.Serve("plain", "app", 8, ports, w.Objects.Pods[model.PodKey{Namespace: "plain", Name: "app"}])
	w.Serve("red", "self", 9, ports, web)
	for i, name := range []string{"sick-true", "going-true"} {
		for k := range w.Objects.Slices[model.SliceKey{Namespace: "red", Name: name}].Endpoints {
			end := &w.Objects.Slices[model.SliceKey{Namespace: "red", Name: name}].Endpoints[k]
			end.Ready, end.Serving = false, i == 1
		}
	}
	w.Slice(model.ServiceKey{Namespace: "red", Name: "peers"}, ports, web, db)
	w.Slice(model.ServiceKey{Namespace: "red", Name: "unready"}, ports, db)
	for k := range w.Objects.Slices[model.SliceKey{Namespace: "red", Name: "unready-true"}].Endpoints {
		w.Objects.Slices[model.SliceKey{Namespace: "red", Name: "unready-true"}].Endpoints[k].Ready = false
	}
	api := &model.Service{
		Key: snapshot.APIKey(), UID: "uid-api", Created: time.Unix(1, 0), ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports: []model.ServicePort{{Name: "https", Protocol: model.TCP, Port: 443}},
	}
	w.Objects.Services[api.Key] = api
	server := &model.Slice{
		Key: model.SliceKey{Namespace: "default", Name: "kubernetes"}, UID: "uid-api-slice", Service: "kubernetes",
		Ports:     []model.SlicePort{{Name: "https", Protocol: model.TCP, Port: 6443}},
		Endpoints: []model.Endpoint{{Address: netip.MustParseAddr("172.18.0.9"), Ready: true, Serving: true}},
	}
	w.Objects.Slices[server.Key] = server
	w.Settle()
	return w
}

// FaceOf and ownOf are the addresses of a pod.
func (w *World) FaceOf(namespace, name string) netip.Addr {
	return w.Objects.Pods[model.PodKey{Namespace: namespace, Name: name}].Assigned[0].Faces[0]
}

func (w *World) OwnOf(namespace, name string) netip.Addr {
	return w.Objects.Pods[model.PodKey{Namespace: namespace, Name: name}].Assigned[0].Addresses[0].Addr()
}

// ClosedPolicy isolates every pod of a namespace, in both directions.
func ClosedPolicy(namespace string) *model.Policy {
	p := &model.Policy{
		Key: model.PolicyKey{Kind: model.NetworkPolicy, Namespace: namespace, Name: "closed"}, UID: "uid-closed", Tier: model.TierTenant,
		Isolates: [2]bool{true, true},
	}
	p.Subject.Namespace = namespace
	return p
}
