package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	defaultsof "github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/matrix/between"
	"github.com/atoll-net/atoll/test/matrix/random"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// explained are the settings of worlds whose ways are explained.
func explained() config.Settings {
	p := netip.MustParsePrefix
	return config.Settings{
		Network: "default", Subnet: p("10.128.0.0/14"), Services: []netip.Prefix{p("10.96.0.0/16"), p("fd96::/112")},
		Faces: []netip.Prefix{p("100.64.0.0/10"), p("fd64:a701::/64")}, Gateways: []netip.Prefix{p("198.18.0.0/16")},
		DNS:             config.DNS{Service: model.ServiceKey{Namespace: "kube-system", Name: "kube-dns"}, Domain: "cluster.local"},
		InfraNamespaces: []string{"kube-system"},
	}
}

// addNode gives a node its blocks of faces, and an address of its own and in the default Network.
func (w *world) addNode(name string, i int) {
	w.objects.Nodes[name] = &model.Node{
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

// settle writes on pods and Services what the controller decides, until it decides no more; then the databases hold what follows.
func (w *world) settle() {
	w.t.Helper()
	for range 4 {
		all := compileAll(w.settings, w.objects, w.rows.Rows)
		for key, list := range all.decided.attachments {
			w.objects.Pods[key].Assigned = list
		}
		for key, a := range all.decided.services {
			w.objects.Services[key].Assigned = a
		}
		for name, n := range all.decided.nodes {
			w.objects.Nodes[name].Assigned = &n
		}
	}
	clear(w.rows)
	clear(w.bindings)
	w.interfaces = nil
	w.write(0)
}

// serve makes a Service with a ClusterIP of each family, and the slices of the pods behind it.
func (w *world) serve(namespace, name string, ip int, ports []model.ServicePort, behind ...*model.Pod) *model.Service {
	s := &model.Service{
		Key: model.ServiceKey{Namespace: namespace, Name: name}, UID: "uid-svc-" + namespace + "-" + name, Created: time.Unix(1, 0), Ports: ports,
		ClusterIPs: []netip.Addr{random.Nth(netip.MustParseAddr("10.96.1.0"), ip), random.Nth(netip.MustParseAddr("fd96::100"), ip)},
		Selector:   map[string]string{"app": name},
	}
	w.objects.Services[s.Key] = s
	w.slice(s.Key, ports, behind...)
	return s
}

// slice makes the EndpointSlices of a Service, of each family, as Kubernetes does: with faces.
func (w *world) slice(key model.ServiceKey, ports []model.ServicePort, behind ...*model.Pod) {
	for _, v4 := range []bool{true, false} {
		slice := &model.Slice{Key: model.SliceKey{Namespace: key.Namespace, Name: fmt.Sprintf("%s-%t", key.Name, v4)}, UID: fmt.Sprintf("uid-slice-%s-%t", key, v4), Service: key.Name}
		for _, p := range ports {
			slice.Ports = append(slice.Ports, model.SlicePort{Name: p.Name, Protocol: p.Protocol, Port: wire.DefaultPort})
		}
		for _, pod := range behind {
			addresses := pod.Assigned[0].Faces
			if len(addresses) == 0 {
				addresses = addressesOf(pod.Assigned[0].Addresses)
			}
			if a, has := ofFamily(addresses, v4); has {
				slice.Endpoints = append(slice.Endpoints, model.Endpoint{Address: a, Pod: pod.Key, PodUID: pod.UID, Ready: true, Serving: true, Hostname: pod.Key.Name, Node: pod.Node})
			}
		}
		w.objects.Slices[slice.Key] = slice
	}
}

// betweenWorld is a scene with what the controller makes of it.
func betweenWorld(t testing.TB, scene between.Scene) (*world, between.World) {
	t.Helper()
	w := worldOf(t, nil, 0)
	w.settings = defaultsof.Of(explained())
	nodes := []string{"n1", "n2", "n3"}
	for i, name := range nodes {
		w.addNode(name, i)
	}
	known := between.World{Policies: scene.Policies}
	for i, n := range scene.Networks {
		labels := map[string]string{model.LabelNetwork: n.Name, corev1.LabelMetadataName: n.Name}
		if n.Tenant != "" {
			labels[model.LabelTenant] = n.Tenant
		}
		w.objects.Namespaces[n.Name] = &model.Namespace{Name: n.Name, Labels: labels}
		k := between.Known{Network: n, Created: time.Unix(int64(i), 0)}
		known.Networks = append(known.Networks, k)
		w.objects.Networks[n.Name] = networkOfScene(k)
	}
	for _, p := range scene.Policies {
		policy := intake.NetworkPolicy(&p)
		policy.UID = "uid-" + p.Name
		w.objects.Policies[policy.Key] = policy
	}
	for _, p := range scene.Pods {
		pod := w.addPod(p.Namespace, p.Name, p.Node)
		pod.Labels = map[string]string{"app": p.App}
		if p.Guest() {
			pod.Network = p.Network
		}
		pod.NIC.IP = p.Asks
	}
	w.settle()
	ports := []model.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: wire.DefaultPort}, {Name: "udp", Protocol: model.UDP, Port: wire.DefaultPort}}
	for i, n := range scene.Networks {
		var behind []*model.Pod
		for _, p := range scene.Pods {
			if p.Namespace == n.Name && p.App == "web" {
				behind = append(behind, w.objects.Pods[model.PodKey{Namespace: p.Namespace, Name: p.Name}])
			}
		}
		w.serve(n.Name, "web", 2*i, ports, behind...)
	}
	w.settle()
	for _, n := range scene.Networks {
		s := w.objects.Services[model.ServiceKey{Namespace: n.Name, Name: "web"}]
		served := between.Service{Network: n.Name, ClusterIPs: s.ClusterIPs}
		if s.Assigned != nil {
			served.Own = s.Assigned.Addresses
		}
		known.Services = append(known.Services, served)
	}
	for _, p := range scene.Pods {
		pod := w.objects.Pods[model.PodKey{Namespace: p.Namespace, Name: p.Name}]
		if len(pod.Assigned) == 0 {
			t.Fatalf("%s has no address", p)
		}
		placed := between.Placed{Placed: random.Placed{Pod: p.Pod, UID: "pod " + pod.Key.String(), Own: addressesOf(pod.Assigned[0].Addresses), Faces: pod.Assigned[0].Faces}, App: p.App}
		known.Pods = append(known.Pods, placed)
	}
	return w, known
}

// networkOfScene is a drawn Network as the product reads it. What it does not know must not be answered from outside.
func networkOfScene(n between.Known) *model.Network {
	m := &model.Network{
		Name: n.Name, UID: "uid-" + n.Name, Generation: 2, Created: n.Created, Type: model.VPC, Tenant: n.Tenant, Finalized: true, Egress: model.EgressNone,
		Infra: model.InfraServices, Ingress: model.InfraIngressInfrastructure, DNS: model.DNSNode,
		Subnets: []model.Subnet{{Name: "a", CIDRs: n.Plan.Subnet}}, ServiceCIDRs: n.Plan.Services, Uses: n.Uses, UsesAddressesOf: n.UsesAddressesOf, UsesServiceCIDRs: n.UsesServiceCIDRs,
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

func (w *world) explainable() *World { return makeWorld(w.rows, w.objects, explained(), nil) }

// outcome is whom an explanation says that a packet reaches, and whether it may reach others whom it does not get to.
func outcome(e Explanation) (reached []string, open bool) {
	for _, way := range e.Ways {
		if way.Reached && !slices.Contains(reached, way.To) {
			reached = append(reached, way.To)
		}
	}
	slices.Sort(reached)
	return reached, len(reached) > 0 && !e.Reached
}

// TestExplainAgreesWithTheOracle: of each path of random scenes, with Networks of both modes, Services with endpoints in several of them and
// policies across, an explanation says the same as an oracle that knows the objects alone and shares nothing with the product.
func TestExplainAgreesWithTheOracle(t *testing.T) {
	t.Parallel()
	const seeds = 3
	paths, across := 0, map[random.Way]int{}
	for seed := range uint64(seeds) {
		w, known := betweenWorld(t, between.Draw(seed, []string{"n1", "n2", "n3"}))
		all := known.Paths()
		wrong := disagreements(t, w.explainable(), known, all)
		paths += len(all)
		for way, n := range known.Across(all) {
			across[way] += n
		}
		if len(wrong) > 0 {
			t.Fatalf("seed %d: %d of %d paths are explained wrong:\n%s", seed, len(wrong), len(all), strings.Join(wrong[:min(len(wrong), 8)], "\n"))
		}
	}
	t.Logf("%d paths, into other Networks %v", paths, across)
	if paths < 1000*seeds || len(across) < 3 {
		t.Error("that is too few to be worth asking")
	}
}

// TestExplainDisagreesWhereRowsDiffer is the control: rows of a scene, and the oracle of the scene as it is after a change.
func TestExplainDisagreesWhereRowsDiffer(t *testing.T) {
	t.Parallel()
	scene := between.Draw(1, []string{"n1", "n2", "n3"})
	w, known := betweenWorld(t, scene)
	for i, n := range scene.Change(1).Networks {
		known.Networks[i].Network = n
	}
	if wrong := disagreements(t, w.explainable(), known, known.Paths()); len(wrong) == 0 {
		t.Error("explanations of the rows before a change agree with what is so after it")
	}
}

// disagreements are the paths of which an explanation says something else than the oracle.
func disagreements(t *testing.T, w *World, known between.World, paths []random.Path) (wrong []string) {
	t.Helper()
	placed := known.Placed()
	for _, p := range paths {
		from := placed[p.From]
		got, err := Explain(w, Question{
			From: End{Pod: model.PodKey{Namespace: from.Namespace, Name: from.Name}}, To: End{Address: p.Address}, Protocol: model.Protocol(p.Protocol), Port: wire.DefaultPort,
		})
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", p.String(placed), err))
			continue
		}
		reached, open := outcome(got)
		want := slices.Sorted(slices.Values(p.May))
		if !slices.Equal(reached, want) || open != p.Open {
			wrong = append(wrong, fmt.Sprintf("%s: reaches %q (others, too: %t), want %q (%t): %s", p.String(placed), reached, open, want, p.Open, got.Verdict()))
		}
	}
	return wrong
}
