package inspected

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// Explained are the settings of worlds whose ways are explained.
func Explained() config.Settings {
	p := netip.MustParsePrefix
	return config.Settings{
		Network: "default", Subnet: p("10.128.0.0/14"), Services: []netip.Prefix{p("10.96.0.0/16"), p("fd96::/112")},
		Faces: []netip.Prefix{p("100.64.0.0/10"), p("fd64:a701::/64")}, Gateways: []netip.Prefix{p("198.18.0.0/16")},
		DNS:             config.DNS{Service: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}, Domain: "cluster.local"},
		InfraNamespaces: []string{"kube-system"},
	}
}

// AddNode gives a node its blocks of faces, and an address of its own and in the default Network.
func (w *World) AddNode(name string, i int) {
	w.Objects.Nodes[name] = &model.Node{
		Name: name, UID: "uid-" + name, Created: time.Unix(1, 0), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{172, 18, 0, byte(i + 1)})},
		Assigned: &model.NodeNetwork{
			NodeUID: "uid-" + name,
			Faces: []netip.Prefix{
				netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, byte(2 * i), 0}), 23),
				netip.MustParsePrefix(fmt.Sprintf("fd64:a701::%x00/119", 2*i)),
			},
		},
	}
}

// Settle writes on pods and Services what the controller decides, until it decides no more; then the databases hold what follows.
func (w *World) Settle() {
	w.T.Helper()
	for range 4 {
		all := drift.Compile(w.Settings, w.Objects, w.Rows.Rows)
		for key, list := range all.Decided.Attachments {
			w.Objects.Pods[key].Assigned = list
		}
		for key, a := range all.Decided.Services {
			w.Objects.Services[key].Assigned = a
		}
		for name, n := range all.Decided.Nodes {
			w.Objects.Nodes[name].Assigned = &n
		}
	}
	clear(w.Rows)
	clear(w.Bindings)
	w.Interfaces = nil
	w.Write(0)
}

// Serve makes a Service with a ClusterIP of each family, and the slices of the pods behind it.
func (w *World) Serve(namespace, name string, ip int, ports []model.ServicePort, behind ...*model.Pod) *model.Service {
	s := &model.Service{
		Key: model.ServiceKey{Namespace: namespace, Name: name}, UID: "uid-svc-" + namespace + "-" + name, Created: time.Unix(1, 0), Ports: ports,
		ClusterIPs: []netip.Addr{random.Nth(netip.MustParseAddr("10.96.1.0"), ip), random.Nth(netip.MustParseAddr("fd96::100"), ip)},
		Selector:   map[string]string{"app": name},
	}
	w.Objects.Services[s.Key] = s
	w.Slice(s.Key, ports, behind...)
	return s
}

// Slice makes the EndpointSlices of a Service, of each family, as Kubernetes does: with faces.
func (w *World) Slice(key model.ServiceKey, ports []model.ServicePort, behind ...*model.Pod) {
	for _, v4 := range []bool{true, false} {
		slice := &model.Slice{
			Key: model.SliceKey{Namespace: key.Namespace, Name: fmt.Sprintf("%s-%t", key.Name, v4)}, UID: fmt.Sprintf("uid-slice-%s-%t", key, v4),
			Service: key.Name,
		}
		for _, p := range ports {
			slice.Ports = append(slice.Ports, model.SlicePort{Name: p.Name, Protocol: p.Protocol, Port: wire.DefaultPort})
		}
		for _, pod := range behind {
			addresses := pod.Assigned[0].Faces
			if len(addresses) == 0 {
				addresses = ownOf(pod)
			}
			if i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == v4 }); i >= 0 {
				slice.Endpoints = append(slice.Endpoints, model.Endpoint{
					Address: addresses[i], Pod: pod.Key, PodUID: pod.UID, Ready: true, Serving: true, Hostname: pod.Key.Name, Node: pod.Node,
				})
			}
		}
		w.Objects.Slices[slice.Key] = slice
	}
}

// ownOf are the own addresses of a pod.
func ownOf(p *model.Pod) (out []netip.Addr) {
	for _, a := range p.Assigned[0].Addresses {
		out = append(out, a.Addr())
	}
	return out
}

// BetweenWorld is a scene with what the controller makes of it.
func BetweenWorld(t testing.TB, scene between.Scene) (*World, between.World) {
	t.Helper()
	w := WorldOf(t, nil, 0)
	w.Settings = defaultsof.Of(Explained())
	nodes := []string{"n1", "n2", "n3"}
	for i, name := range nodes {
		w.AddNode(name, i)
	}
	known := between.World{Policies: scene.Policies}
	for i, n := range scene.Networks {
		labels := map[string]string{model.LabelNetwork: n.Name, corev1.LabelMetadataName: n.Name}
		if n.Tenant != "" {
			labels[model.LabelTenant] = n.Tenant
		}
		w.Objects.Namespaces[n.Name] = &model.Namespace{Name: n.Name, Labels: labels}
		k := between.Known{Network: n, Created: time.Unix(int64(i), 0)}
		known.Networks = append(known.Networks, k)
		w.Objects.Networks[n.Name] = networkOfScene(k)
	}
	for _, p := range scene.Policies {
		policy := intake.NetworkPolicy(&p)
		policy.UID = "uid-" + p.Name
		w.Objects.Policies[policy.Key] = policy
	}
	for _, p := range scene.Pods {
		pod := w.AddPod(p.Namespace, p.Name, p.Node)
		pod.Labels = map[string]string{"app": p.App}
		if p.Guest() {
			pod.Network = p.Network
		}
		pod.NIC.IP = p.Asks
	}
	w.Settle()
	ports := []model.ServicePort{
		{Name: "tcp", Protocol: model.TCP, Port: wire.DefaultPort}, {Name: "udp", Protocol: model.UDP, Port: wire.DefaultPort},
	}
	for i, n := range scene.Networks {
		var behind []*model.Pod
		for _, p := range scene.Pods {
			if p.Namespace == n.Name && p.App == "web" {
				behind = append(behind, w.Objects.Pods[model.PodKey{Namespace: p.Namespace, Name: p.Name}])
			}
		}
		w.Serve(n.Name, "web", 2*i, ports, behind...)
	}
	w.Settle()
	for _, n := range scene.Networks {
		s := w.Objects.Services[model.ServiceKey{Namespace: n.Name, Name: "web"}]
		served := between.Service{Network: n.Name, ClusterIPs: s.ClusterIPs}
		if s.Assigned != nil {
			served.Own = s.Assigned.Addresses
		}
		known.Services = append(known.Services, served)
	}
	for _, p := range scene.Pods {
		pod := w.Objects.Pods[model.PodKey{Namespace: p.Namespace, Name: p.Name}]
		if len(pod.Assigned) == 0 {
			t.Fatalf("%s has no address", p)
		}
		placed := between.Placed{
			Placed: random.Placed{Pod: p.Pod, UID: "pod " + pod.Key.String(), Own: ownOf(pod), Faces: pod.Assigned[0].Faces}, App: p.App,
		}
		known.Pods = append(known.Pods, placed)
	}
	return w, known
}

// networkOfScene is a drawn Network as the product reads it. What it does not know must not be answered from outside.
func networkOfScene(n between.Known) *model.Network {
	m := &model.Network{
		Name: n.Name, UID: "uid-" + n.Name, Generation: 2, Created: n.Created, Type: model.VPC, Tenant: n.Tenant, Finalized: true,
		Egress: model.EgressNone,
		Infra:  model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
		Subnets: []model.Subnet{{Name: "a", CIDRs: n.Plan.Subnet}}, ServiceCIDRs: n.Plan.Services, Uses: n.Uses,
		UsesAddressesOf: n.UsesAddressesOf, UsesServiceCIDRs: n.UsesServiceCIDRs,
	}
	for _, p := range n.CompatibleWith {
		peer := model.CompatiblePeer{Network: p.Network, Tenant: p.Tenant, All: p.All, Mode: model.ByFace, Addresses: p.Addresses}
		if p.Routed {
			peer.Mode = model.Routed
		}
		m.CompatibleWith = append(m.CompatibleWith, peer)
	}
	return m
}
