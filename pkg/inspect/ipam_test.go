package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// addressWorld is a world in which all is well with addresses: Networks red and blue of the same ones, with pods, nodes' blocks, a Service, and Gateways.
type addressWorld struct {
	*world
	h Held
	// tell changes what a Network's status tells.
	tell map[string]func(*atoll.NetworkStatus)
}

func newAddressWorld(t testing.TB) *addressWorld {
	t.Helper()
	w := &addressWorld{world: inspectedWorld(t), tell: map[string]func(*atoll.NetworkStatus){}}
	for i, name := range []string{"n1", "n2"} {
		w.objects.Nodes[name].Created = time.Unix(5, 0)
		w.objects.Nodes[name].Assigned = &model.NodeNetwork{NodeUID: name, Faces: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("100.64.%d.0/23", 2*i))}}
	}
	for _, p := range w.objects.Pods {
		block := map[string]int{"n1": 0, "n2": 2}[p.Node]
		number := 10*len(p.Key.Namespace) + int(p.Key.Name[len(p.Key.Name)-1]-'0')
		p.Assigned[0].Faces = []netip.Addr{netip.MustParseAddr(fmt.Sprintf("100.64.%d.%d", block, number))}
	}
	red := w.objects.Networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	red.CompatibleWith = []model.CompatiblePeer{{Network: "blue", Mode: model.ByFace}, {Tenant: "them", Mode: model.Routed}}
	web := w.objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}]
	web.Created, web.Assigned.NetworkUID = time.Unix(20, 0), red.UID
	w.objects.Classes["atoll"] = &model.GatewayClass{Name: "atoll"}
	for namespace, address := range map[string]string{"red": "10.9.0.11", "blue": "198.18.0.1"} {
		key := model.GatewayKey{Namespace: namespace, Name: "edge"}
		w.objects.Gateways[key] = &model.Gateway{Key: key, Class: "atoll", Created: time.Unix(30, 0), Held: []netip.Addr{netip.MustParseAddr(address)}}
	}
	// Somebody else's Gateway has an address that is none of ours.
	others := model.GatewayKey{Namespace: "red", Name: "others"}
	w.objects.Gateways[others] = &model.Gateway{Key: others, Class: "others", Held: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}
	told := w.held()
	w.h = told
	w.h.Pools = ClusterRanges{
		Faces: []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fd64:a701::/64")}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Gateways: []netip.Prefix{netip.MustParsePrefix("198.18.0.0/16")},
	}
	w.h.Status = func(name, uid string) (atoll.NetworkStatus, bool) {
		s, known := told.Status(name, uid)
		if name == "red" {
			s.ServiceCIDRs = []atoll.ServiceCIDRStatus{{CIDR: "10.9.0.0/24", Used: 2, Free: 252}}
		}
		if change := w.tell[name]; change != nil {
			change(&s)
		}
		return s, known
	}
	return w
}

// pod is a pod of a Network.
func (w *addressWorld) pod(namespace, name string) *model.Pod {
	return w.objects.Pods[model.PodKey{Namespace: namespace, Name: name}]
}

// plant puts a port into a switch of red.
func (w *addressWorld) plant(name, address string, ids map[string]string) {
	port := &nb.LogicalSwitchPort{UUID: name, Name: name, Addresses: []string{"0a:58:0a:00:00:63 " + address}, ExternalIDs: ids}
	w.rows[nb.RefOf(port)] = port
	front := find[*nb.LogicalSwitch](w.world, "red/front")
	front.Ports = append(front.Ports, port.UUID)
}

// findings are all that are found, as NETWORK KIND OBJECT ADDRESS.
func (w *addressWorld) findings() (out []string) {
	for _, c := range w.h.IPAMChecks(w.rows, "") {
		for _, f := range c.Status.Findings {
			out = append(out, strings.Join([]string{c.Name, string(f.Kind), f.Object, f.Address}, " "))
		}
	}
	return out
}

func TestIPAMGolden(t *testing.T) {
	t.Parallel()
	w := newAddressWorld(t)
	goldenValue(t, "ipams-two", api.IPAMList{TypeMeta: listType("IPAMList"), Items: w.h.IPAMs()})
	for file, name := range map[string]string{"ipam-red": "red", "ipam-cluster": api.ClusterPools} {
		one, there := w.h.IPAM(name)
		if !there {
			t.Fatal(name)
		}
		goldenValue(t, file, one)
	}
	if _, there := w.h.IPAM("nowhere"); there {
		t.Error("there is no such Network")
	}
	goldenValue(t, "ipamchecks-well", api.IPAMCheckList{TypeMeta: listType("IPAMCheckList"), Items: w.h.IPAMChecks(w.rows, "")})
	goldenValue(t, "ipamchecks-not-asked", api.IPAMCheckList{TypeMeta: listType("IPAMCheckList"), Items: w.h.IPAMChecks(nil, notAsked)})
	w.plant("ghost", "10.0.0.77", nil)
	w.pod("red", "web-1").Assigned[0].Addresses = w.pod("red", "web-0").Assigned[0].Addresses
	goldenValue(t, "ipamchecks-ill", api.IPAMCheckList{TypeMeta: listType("IPAMCheckList"), Items: w.h.IPAMChecks(w.rows, "")})
}

// TestIPAMFinds: each thing that can be wrong is found, and named with its object. That nothing is found where all is well, with the same addresses in two
// Networks, is the control.
func TestIPAMFinds(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	addresses := func(p *model.Pod, text string) { p.Assigned[0].Addresses = []netip.Prefix{prefix(text)} }
	for name, c := range map[string]struct {
		damage func(w *addressWorld)
		want   []string
	}{
		"nothing": {func(*addressWorld) {}, nil},
		"a port of nobody": {
			func(w *addressWorld) { w.plant("ghost", "10.0.0.77", nil) },
			[]string{"red Leak Logical_Switch_Port/ghost 10.0.0.77"},
		},
		"a port of nobody with a pod's address": {
			func(w *addressWorld) { w.plant("ghost", "10.0.0.2", nil) },
			[]string{"red Duplicate Pod/red/web-0 10.0.0.2", "red Leak Logical_Switch_Port/ghost 10.0.0.2"},
		},
		"a port of a pod that has gone": {func(w *addressWorld) {
			w.plant("red/gone", "10.0.0.77", map[string]string{nb.KeyOwner: "Pod/red/gone", nb.KeyUID: "uid", nb.KeyNetwork: "red"})
		}, []string{"red Leak Logical_Switch_Port/red/gone 10.0.0.77"}},
		"a port of an earlier pod of that name": {
			func(w *addressWorld) { w.pod("red", "web-0").UID = "another" },
			[]string{"red Duplicate Pod/red/web-0 10.0.0.2", "red Leak Logical_Switch_Port/red/web-0 10.0.0.2"},
		},
		"a port of a node that has gone": {func(w *addressWorld) {
			w.plant("red:node:n7", "10.0.0.77", map[string]string{nb.KeyOwner: "Node/n7", nb.KeyUID: "uid", nb.KeyNetwork: "red"})
		}, []string{"red Leak Logical_Switch_Port/red:node:n7 10.0.0.77"}},
		"a status that counts more": {
			func(w *addressWorld) { w.tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 5 } },
			[]string{"red Leak Network/red 10.0.0.0/24"},
		},
		"a status that counts more of Services": {func(w *addressWorld) {
			w.tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 3 }
		}, []string{"red Leak Network/red 10.9.0.0/24"}},
		"an address of a former Network": {func(w *addressWorld) {
			w.objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}].Assigned.NetworkUID = "former"
			w.tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 1 }
		}, []string{"red Leak Service/red/web 10.9.0.10"}},
		"a Network that has gone": {func(w *addressWorld) {
			w.addPod("blue", "old", "n1").Assigned = []model.Attachment{{Network: "gone", NetworkUID: "gone", Addresses: []netip.Prefix{prefix("10.0.0.9/24")}}}
		}, []string{"system:cluster Leak Pod/blue/old 10.0.0.9"}},
		"a load balancer of a Service that has gone": {func(w *addressWorld) {
			lb := &nb.LoadBalancer{UUID: "lb", Name: "red/gone", Vips: map[string]string{"10.9.0.99:80": "10.0.0.2:80", "127.0.0.1:1": "10.0.0.2:80"}, ExternalIDs: map[string]string{nb.KeyOwner: "Service/red/gone", nb.KeyNetwork: "red"}}
			w.rows[nb.RefOf(lb)] = lb
		}, []string{"red Leak Load_Balancer/red/gone 10.9.0.99"}},
		"two pods of one address": {
			func(w *addressWorld) { addresses(w.pod("red", "web-1"), "10.0.0.2/24") },
			[]string{"red Duplicate Pod/red/web-1 10.0.0.2", "red PortDiffers Pod/red/web-1 10.0.0.3"},
		},
		"a pod with the router's": {func(w *addressWorld) {
			addresses(w.pod("red", "web-1"), "10.0.0.1/24")
			find[*nb.LogicalSwitchPort](w.world, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.0.1"}
		}, []string{"red Duplicate Pod/red/web-1 10.0.0.1"}},
		"a Service and a Gateway of one address": {func(w *addressWorld) {
			w.objects.Gateways[model.GatewayKey{Namespace: "red", Name: "edge"}].Held[0] = netip.MustParseAddr("10.9.0.10")
		}, []string{"red Duplicate Gateway/red/edge 10.9.0.10"}},
		"two pods of one face": {
			func(w *addressWorld) {
				w.pod("red", "web-0").Assigned[0].Faces = w.pod("blue", "web-0").Assigned[0].Faces
			},
			[]string{"blue Duplicate Pod/blue/web-0 100.64.0.40", "red Duplicate Pod/red/web-0 100.64.0.40"},
		},
		"two nodes of one block": {func(w *addressWorld) {
			w.objects.Nodes["n3"] = &model.Node{Name: "n3", UID: "n3", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{prefix("100.64.2.0/23")}}}
		}, []string{"system:cluster Duplicate Node/n3 100.64.2.0/23"}},
		"a pod outside": {func(w *addressWorld) {
			addresses(w.pod("red", "web-1"), "10.7.0.3/24")
			find[*nb.LogicalSwitchPort](w.world, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.7.0.3"}
			w.tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 2 }
		}, []string{"red OutOfRange Pod/red/web-1 10.7.0.3"}},
		"a pod in another subnet": {func(w *addressWorld) {
			addresses(w.pod("red", "web-1"), "10.0.1.3/24")
			find[*nb.LogicalSwitchPort](w.world, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.1.3"}
			w.tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 2 }
		}, []string{"red OutOfRange Pod/red/web-1 10.0.1.3"}},
		"a Service outside": {func(w *addressWorld) {
			w.objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}].Assigned.Addresses[0] = netip.MustParseAddr("10.8.0.1")
			w.tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 1 }
		}, []string{"red OutOfRange Service/red/web 10.8.0.1"}},
		"a Gateway outside": {func(w *addressWorld) {
			w.objects.Gateways[model.GatewayKey{Namespace: "blue", Name: "edge"}].Held[0] = netip.MustParseAddr("192.0.2.9")
		}, []string{"blue OutOfRange Gateway/blue/edge 192.0.2.9"}},
		"a face outside of its node's blocks": {
			func(w *addressWorld) { w.pod("red", "web-0").Assigned[0].Faces[0] = netip.MustParseAddr("100.64.9.9") },
			[]string{"red OutOfRange Pod/red/web-0 100.64.9.9"},
		},
		"a block outside": {func(w *addressWorld) {
			w.objects.Nodes["n3"] = &model.Node{Name: "n3", UID: "n3", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{prefix("192.0.2.0/24")}}}
		}, []string{"system:cluster OutOfRange Node/n3 192.0.2.0/24"}},
		"a port with another address": {func(w *addressWorld) {
			find[*nb.LogicalSwitchPort](w.world, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.0.33"}
		}, []string{"red PortDiffers Pod/red/web-1 10.0.0.33"}},
		"subnets that overlap": {func(w *addressWorld) {
			w.objects.Networks["red"].Subnets[1].CIDRs[0] = prefix("10.0.0.128/25")
		}, []string{"red Overlap Network/red 10.0.0.128/25"}},
		"Services that overlap a subnet": {func(w *addressWorld) {
			w.objects.Networks["blue"].ServiceCIDRs = []netip.Prefix{prefix("10.0.0.0/16")}
		}, []string{"blue Overlap Network/blue 10.0.0.0/16", "blue Overlap Network/blue 10.0.0.0/16"}},
		"flat Networks that overlap": {func(w *addressWorld) {
			w.addFlat("flat", 40, "10.50.0.0/16")
			w.addFlat("flatter", 50, "10.50.1.0/24")
		}, []string{"flatter Overlap Network/flatter 10.50.1.0/24"}},
		"a flat Network over the cluster's Services": {
			func(w *addressWorld) { w.addFlat("flat", 40, "10.96.1.0/24") },
			[]string{"flat Overlap Network/flat 10.96.1.0/24"},
		},
		"a flat Network over faces": {
			func(w *addressWorld) { w.addFlat("flat", 40, "100.70.1.0/24") },
			[]string{"flat Overlap Network/flat 100.70.1.0/24"},
		},
		"a flat Network over a node": {func(w *addressWorld) {
			w.objects.Nodes["n1"].Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
			w.addFlat("flat", 40, "192.0.2.0/24")
		}, []string{"flat Overlap Network/flat 192.0.2.0/24"}},
		"flat Networks beside one another, and beside a vpc of the same": {func(w *addressWorld) {
			w.addFlat("flat", 40, "10.0.0.0/24")
			w.addFlat("flatter", 50, "10.51.0.0/16")
		}, nil},
		"compatible Networks that conflict": {func(w *addressWorld) {
			w.tell["red"] = func(s *atoll.NetworkStatus) {
				s.Compatibility[0].State, s.Compatibility[0].Reason, s.Compatibility[0].Message = "Refused", model.ReasonAddressConflict, "both have 10.0.0.0/24"
			}
		}, []string{"red Overlap Network/red blue"}},
		"a compatible Network that waits": {func(w *addressWorld) {
			w.tell["red"] = func(s *atoll.NetworkStatus) {
				s.Compatibility[0].State, s.Compatibility[0].Reason = "Waiting", "NotUsed"
			}
		}, nil},
		"what could not be read": {func(w *addressWorld) {
			w.h.Unread = map[string]bool{"pods": true, "services": true, "gateways": true, "nodes": true}
			clear(w.objects.Pods)
			clear(w.objects.Services)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newAddressWorld(t)
			c.damage(w)
			if got := w.findings(); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			for _, one := range w.h.IPAMChecks(w.rows, "") {
				for _, f := range one.Status.Findings {
					if f.Next == "" || f.Message == "" {
						t.Errorf("%+v does not say what to do", f)
					}
				}
			}
		})
	}
}

func (w *addressWorld) addFlat(name string, created int64, cidr string) {
	w.objects.Networks[name] = &model.Network{Name: name, UID: name, Type: model.Flat, Created: time.Unix(created, 0), Subnets: []model.Subnet{{Name: "all", CIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}}}
}

func TestTopologyGolden(t *testing.T) {
	t.Parallel()
	w := newAddressWorld(t)
	w.addFlat("default", 1, "10.128.0.0/14")
	w.shown["default"] = w.shown["red"]
	w.tell["default"] = func(s *atoll.NetworkStatus) {
		s.Subnets, s.Pods = []atoll.SubnetStatus{{Name: "all", CIDR: "10.128.0.0/14", Gateway: "10.128.0.1"}, {Name: "all", CIDR: "fd00:1::/64", Gateway: "fd00:1::1"}}, 0
	}
	w.tell["blue"] = func(s *atoll.NetworkStatus) {
		s.Compatibility = []atoll.CompatibilityStatus{{Network: "red", Direction: atoll.CompatibilityUses, Mode: "ByFace", State: "Active"}, {Network: "shared", Direction: atoll.CompatibilityUses, Mode: "Routed", State: "Waiting", Message: `Network "shared" does not exist, or is not compatible with it`}}
	}
	goldenValue(t, "topologies-three", api.TopologyList{TypeMeta: listType("TopologyList"), Items: w.h.Topologies()})
	one, _ := w.h.Topology("red")
	goldenValue(t, "topology-red", one)
	if _, there := w.h.Topology("nowhere"); there {
		t.Error("there is no such Network")
	}
}
