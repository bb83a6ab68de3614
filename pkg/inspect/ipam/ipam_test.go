package ipam

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	atoll "github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/inspected"
)

// findings are all that are found, as NETWORK KIND OBJECT ADDRESS.
func findings(w *inspected.AddressWorld) (out []string) {
	for _, c := range checks(w.Known, w.Rows, "") {
		for _, f := range c.Status.Findings {
			out = append(out, strings.Join([]string{c.Name, string(f.Kind), f.Object, f.Address}, " "))
		}
	}
	return out
}

func TestIPAMGolden(t *testing.T) {
	t.Parallel()
	w := inspected.NewAddressWorld(t)
	inspected.GoldenValue(t, "ipams-two", api.IPAMList{TypeMeta: inspected.ListType("IPAMList"), Items: list(w.Known)})
	for file, name := range map[string]string{"ipam-red": "red", "ipam-cluster": api.ClusterPools} {
		one, there := get(w.Known, name)
		if !there {
			t.Fatal(name)
		}
		inspected.GoldenValue(t, file, one)
	}
	if _, there := get(w.Known, "nowhere"); there {
		t.Error("there is no such Network")
	}
	inspected.GoldenValue(t, "ipamchecks-well", api.IPAMCheckList{
		TypeMeta: inspected.ListType("IPAMCheckList"), Items: checks(w.Known, w.Rows, ""),
	})
	inspected.GoldenValue(t, "ipamchecks-not-asked", api.IPAMCheckList{
		TypeMeta: inspected.ListType("IPAMCheckList"), Items: checks(w.Known, nil, notAsked),
	})
	w.Plant("ghost", "10.0.0.77", nil)
	w.Pod("red", "web-1").Assigned[0].Addresses = w.Pod("red", "web-0").Assigned[0].Addresses
	inspected.GoldenValue(t, "ipamchecks-ill", api.IPAMCheckList{
		TypeMeta: inspected.ListType("IPAMCheckList"), Items: checks(w.Known, w.Rows, ""),
	})
}

// TestIPAMFinds: each thing that can be wrong is found, and named with its object. That nothing is found where all is well, with
// the same addresses in two Networks, is the control.
func TestIPAMFinds(t *testing.T) {
	t.Parallel()
	prefix := netip.MustParsePrefix
	addresses := func(p *model.Pod, text string) { p.Assigned[0].Addresses = []netip.Prefix{prefix(text)} }
	for name, c := range map[string]struct {
		damage func(w *inspected.AddressWorld)
		want   []string
	}{
		"nothing": {func(*inspected.AddressWorld) {}, nil},
		"a port of nobody": {
			func(w *inspected.AddressWorld) { w.Plant("ghost", "10.0.0.77", nil) },
			[]string{"red Leak Logical_Switch_Port/ghost 10.0.0.77"},
		},
		"a port of nobody with a pod's address": {
			func(w *inspected.AddressWorld) { w.Plant("ghost", "10.0.0.2", nil) },
			[]string{"red Duplicate Pod/red/web-0 10.0.0.2", "red Leak Logical_Switch_Port/ghost 10.0.0.2"},
		},
		"a port of a pod that has gone": {func(w *inspected.AddressWorld) {
			w.Plant("red/gone", "10.0.0.77", map[string]string{nb.KeyOwner: "Pod/red/gone", nb.KeyUID: "uid", nb.KeyNetwork: "red"})
		}, []string{"red Leak Logical_Switch_Port/red/gone 10.0.0.77"}},
		"a port of an earlier pod of that name": {
			func(w *inspected.AddressWorld) { w.Pod("red", "web-0").UID = "another" },
			[]string{"red Duplicate Pod/red/web-0 10.0.0.2", "red Leak Logical_Switch_Port/red/web-0 10.0.0.2"},
		},
		"a port of a node that has gone": {func(w *inspected.AddressWorld) {
			w.Plant("red:node:n7", "10.0.0.77", map[string]string{nb.KeyOwner: "Node/n7", nb.KeyUID: "uid", nb.KeyNetwork: "red"})
		}, []string{"red Leak Logical_Switch_Port/red:node:n7 10.0.0.77"}},
		"a status that counts more": {
			func(w *inspected.AddressWorld) {
				w.Tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 5 }
			},
			[]string{"red Leak Network/red 10.0.0.0/24"},
		},
		"a status that counts more of Services": {func(w *inspected.AddressWorld) {
			w.Tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 3 }
		}, []string{"red Leak Network/red 10.9.0.0/24"}},
		"an address of a former Network": {func(w *inspected.AddressWorld) {
			w.Objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}].Assigned.NetworkUID = "former"
			w.Tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 1 }
		}, []string{"red Leak Service/red/web 10.9.0.10"}},
		"a Network that has gone": {func(w *inspected.AddressWorld) {
			w.AddPod("blue", "old", "n1").Assigned = []model.Attachment{
				{Network: "gone", NetworkUID: "gone", Addresses: []netip.Prefix{prefix("10.0.0.9/24")}},
			}
		}, []string{"system:cluster Leak Pod/blue/old 10.0.0.9"}},
		"a load balancer of a Service that has gone": {func(w *inspected.AddressWorld) {
			lb := &nb.LoadBalancer{
				UUID: "lb", Name: "red/gone", Vips: map[string]string{"10.9.0.99:80": "10.0.0.2:80", "127.0.0.1:1": "10.0.0.2:80"},
				ExternalIDs: map[string]string{nb.KeyOwner: "Service/red/gone", nb.KeyNetwork: "red"},
			}
			w.Rows[nb.RefOf(lb)] = lb
		}, []string{"red Leak Load_Balancer/red/gone 10.9.0.99"}},
		"two pods of one address": {
			func(w *inspected.AddressWorld) { addresses(w.Pod("red", "web-1"), "10.0.0.2/24") },
			[]string{"red Duplicate Pod/red/web-1 10.0.0.2", "red PortDiffers Pod/red/web-1 10.0.0.3"},
		},
		"a pod with the router's": {func(w *inspected.AddressWorld) {
			addresses(w.Pod("red", "web-1"), "10.0.0.1/24")
			inspected.Find[*nb.LogicalSwitchPort](w.World, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.0.1"}
		}, []string{"red Duplicate Pod/red/web-1 10.0.0.1"}},
		"a Service and a Gateway of one address": {func(w *inspected.AddressWorld) {
			w.Objects.Gateways[model.GatewayKey{Namespace: "red", Name: "edge"}].Held[0] = netip.MustParseAddr("10.9.0.10")
		}, []string{"red Duplicate Gateway/red/edge 10.9.0.10"}},
		"two pods of one face": {
			func(w *inspected.AddressWorld) {
				w.Pod("red", "web-0").Assigned[0].Faces = w.Pod("blue", "web-0").Assigned[0].Faces
			},
			[]string{"blue Duplicate Pod/blue/web-0 100.64.0.40", "red Duplicate Pod/red/web-0 100.64.0.40"},
		},
		"two nodes of one block": {func(w *inspected.AddressWorld) {
			w.Objects.Nodes["n3"] = &model.Node{Name: "n3", UID: "n3", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{prefix("100.64.2.0/23")}}}
		}, []string{"system:cluster Duplicate Node/n3 100.64.2.0/23"}},
		"a pod outside": {func(w *inspected.AddressWorld) {
			addresses(w.Pod("red", "web-1"), "10.7.0.3/24")
			inspected.Find[*nb.LogicalSwitchPort](w.World, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.7.0.3"}
			w.Tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 2 }
		}, []string{"red OutOfRange Pod/red/web-1 10.7.0.3"}},
		"a pod in another subnet": {func(w *inspected.AddressWorld) {
			addresses(w.Pod("red", "web-1"), "10.0.1.3/24")
			inspected.Find[*nb.LogicalSwitchPort](w.World, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.1.3"}
			w.Tell["red"] = func(s *atoll.NetworkStatus) { s.Subnets[0].Used = 2 }
		}, []string{"red OutOfRange Pod/red/web-1 10.0.1.3"}},
		"a Service outside": {func(w *inspected.AddressWorld) {
			w.Objects.Services[model.ServiceKey{Namespace: "red", Name: "web"}].Assigned.Addresses[0] = netip.MustParseAddr("10.8.0.1")
			w.Tell["red"] = func(s *atoll.NetworkStatus) { s.ServiceCIDRs[0].Used = 1 }
		}, []string{"red OutOfRange Service/red/web 10.8.0.1"}},
		"a Gateway outside": {func(w *inspected.AddressWorld) {
			w.Objects.Gateways[model.GatewayKey{Namespace: "blue", Name: "edge"}].Held[0] = netip.MustParseAddr("192.0.2.9")
		}, []string{"blue OutOfRange Gateway/blue/edge 192.0.2.9"}},
		"a face outside of its node's blocks": {
			func(w *inspected.AddressWorld) {
				w.Pod("red", "web-0").Assigned[0].Faces[0] = netip.MustParseAddr("100.64.9.9")
			},
			[]string{"red OutOfRange Pod/red/web-0 100.64.9.9"},
		},
		"a block outside": {func(w *inspected.AddressWorld) {
			w.Objects.Nodes["n3"] = &model.Node{Name: "n3", UID: "n3", Assigned: &model.NodeNetwork{Faces: []netip.Prefix{prefix("192.0.2.0/24")}}}
		}, []string{"system:cluster OutOfRange Node/n3 192.0.2.0/24"}},
		"a port with another address": {func(w *inspected.AddressWorld) {
			inspected.Find[*nb.LogicalSwitchPort](w.World, "red/web-1").Addresses = []string{"0a:58:0a:00:00:03 10.0.0.33"}
		}, []string{"red PortDiffers Pod/red/web-1 10.0.0.33"}},
		"subnets that overlap": {func(w *inspected.AddressWorld) {
			w.Objects.Networks["red"].Subnets[1].CIDRs[0] = prefix("10.0.0.128/25")
		}, []string{"red Overlap Network/red 10.0.0.128/25"}},
		"Services that overlap a subnet": {func(w *inspected.AddressWorld) {
			w.Objects.Networks["blue"].ServiceCIDRs = []netip.Prefix{prefix("10.0.0.0/16")}
		}, []string{"blue Overlap Network/blue 10.0.0.0/16", "blue Overlap Network/blue 10.0.0.0/16"}},
		"flat Networks that overlap": {func(w *inspected.AddressWorld) {
			w.AddFlat("flat", 40, "10.50.0.0/16")
			w.AddFlat("flatter", 50, "10.50.1.0/24")
		}, []string{"flatter Overlap Network/flatter 10.50.1.0/24"}},
		"a flat Network over the cluster's Services": {
			func(w *inspected.AddressWorld) { w.AddFlat("flat", 40, "10.96.1.0/24") },
			[]string{"flat Overlap Network/flat 10.96.1.0/24"},
		},
		"a flat Network over faces": {
			func(w *inspected.AddressWorld) { w.AddFlat("flat", 40, "100.70.1.0/24") },
			[]string{"flat Overlap Network/flat 100.70.1.0/24"},
		},
		"a flat Network over a node": {func(w *inspected.AddressWorld) {
			w.Objects.Nodes["n1"].Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.7")}
			w.AddFlat("flat", 40, "192.0.2.0/24")
		}, []string{"flat Overlap Network/flat 192.0.2.0/24"}},
		"flat Networks beside one another, and beside a vpc of the same": {func(w *inspected.AddressWorld) {
			w.AddFlat("flat", 40, "10.0.0.0/24")
			w.AddFlat("flatter", 50, "10.51.0.0/16")
		}, nil},
		"compatible Networks that conflict": {func(w *inspected.AddressWorld) {
			w.Tell["red"] = func(s *atoll.NetworkStatus) {
				s.Compatibility[0].State, s.Compatibility[0].Reason, s.Compatibility[0].Message = "Refused", model.ReasonAddressConflict,
					"both have 10.0.0.0/24"
			}
		}, []string{"red Overlap Network/red blue"}},
		"a compatible Network that waits": {func(w *inspected.AddressWorld) {
			w.Tell["red"] = func(s *atoll.NetworkStatus) {
				s.Compatibility[0].State, s.Compatibility[0].Reason = "Waiting", "NotUsed"
			}
		}, nil},
		"what could not be read": {func(w *inspected.AddressWorld) {
			w.Known.Unread = map[string]bool{"pods": true, "services": true, "gateways": true, "nodes": true}
			clear(w.Objects.Pods)
			clear(w.Objects.Services)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inspected.NewAddressWorld(t)
			c.damage(w)
			if got := findings(w); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
			for _, one := range checks(w.Known, w.Rows, "") {
				for _, f := range one.Status.Findings {
					if f.Next == "" || f.Message == "" {
						t.Errorf("%+v does not say what to do", f)
					}
				}
			}
		})
	}
}
