package check

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/drift"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/test/inspected"
)

func TestNothingIsFoundWhereNothingDiffers(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	// What is not ours does not count, wherever it is.
	foreign := &nb.LogicalSwitchPort{UUID: "foreign", Name: "theirs"}
	theirs := &nb.LogicalSwitch{UUID: "theirs", Name: "theirs", Ports: []string{foreign.UUID}}
	w.Rows[nb.RefOf(foreign)], w.Rows[nb.RefOf(theirs)] = foreign, theirs
	front := inspected.Find[*nb.LogicalSwitch](w, "red/front")
	front.Ports = append(front.Ports, foreign.UUID)
	// 2 x (router, 2 switches, 2 pairs of ports) and 6 ports of pods.
	if diff := cmp.Diff(Report{Networks: 2, Pods: 6, Rows: 46}, lookAt(w)); diff != "" {
		t.Error(diff)
	}
}

func TestEveryRowThatIsMissingIsNamedWithItsOwner(t *testing.T) {
	t.Parallel()
	for ref, row := range inspected.NewWorld(t).Rows {
		w := inspected.NewWorld(t)
		w.Delete(w.Rows[ref])
		want := drift.Difference{
			Owner: ownerOf(row), Place: drift.PlaceNorthbound, Kind: drift.RowMissing, Object: drift.Describe(row), Want: "the row",
		}
		if diff := cmp.Diff([]drift.Difference{want}, lookAt(w).Differences); diff != "" {
			t.Errorf("%s: %s", drift.Describe(row), diff)
		}
	}
}

// TestAddressesOfServices: what is written on a Service is compared with what it has, or should have.
func TestAddressesOfServices(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	red := w.Objects.Networks["red"]
	red.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
	addresses := func(network, uid, ip string) *model.ServiceAddresses {
		return &model.ServiceAddresses{
			ServiceUID: "uid", Network: network, NetworkUID: uid, Addresses: []netip.Addr{netip.MustParseAddr(ip)},
		}
	}
	for i, service := range []struct {
		namespace, name string
		assigned        *model.ServiceAddresses
	}{
		{"red", "as-it-should-be", addresses("red", "uid-red", "10.9.0.5")},
		{"red", "new", nil},
		{"red", "wrong", addresses("red", "uid-red", "10.0.0.5")},
		{"blue", "too-much", addresses("red", "uid-red", "10.9.0.6")},
		{"blue", "nothing", nil},
	} {
		key := model.ServiceKey{Namespace: service.namespace, Name: service.name}
		w.Objects.Services[key] = &model.Service{
			Key: key, UID: "uid", Created: time.Unix(int64(i), 0), Assigned: service.assigned,
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.5")},
		}
	}
	got := drift.Compile(inspected.Defaults, w.Objects, w.Rows.Rows).CompareServices()
	slices.SortFunc(got, drift.Compare)
	const object = "annotation atoll.dev/service-addresses"
	text := func(network, uid, ip string) string {
		return `{"serviceUID":"uid","network":"` + network + `","networkUID":"` + uid + `","addresses":["` + ip + `"]}`
	}
	want := []drift.Difference{
		{
			Owner: nb.ServiceOwner("blue", "too-much"), Place: drift.PlaceAPI, Kind: drift.AnnotationDiffers, Object: object, Want: "-",
			Have: text("red", "uid-red", "10.9.0.6"),
		},
		{
			Owner: nb.ServiceOwner("red", "new"), Place: drift.PlaceAPI, Kind: drift.AnnotationDiffers, Object: object,
			Want: "addresses of Network red", Have: "-",
		},
		{
			Owner: nb.ServiceOwner("red", "wrong"), Place: drift.PlaceAPI, Kind: drift.AnnotationDiffers, Object: object, Want: text("red",
				"uid-red", "10.9.0.1"), Have: text("red", "uid-red", "10.0.0.5"),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEachDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	podOwner, networkOwner := nb.PodOwner("red", "web-0"), nb.NetworkOwner("red")
	red0 := model.PodKey{Namespace: "red", Name: "web-0"}
	for _, test := range []struct {
		name   string
		damage func(w *inspected.World)
		want   []drift.Difference
	}{
		{
			"column of a pod's port", func(w *inspected.World) {
				inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0").Addresses = []string{"unknown"}
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ColumnDiffers, Object: "Logical_Switch_Port red/web-0", Column: "addresses",
					Want: "0a:58:0a:00:00:02 10.0.0.2", Have: "unknown",
				},
			},
		},
		{
			"only what differs of a map", func(w *inspected.World) {
				inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0").Options["requested-chassis"] = "n9"
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ColumnDiffers, Object: "Logical_Switch_Port red/web-0", Column: "options",
					Want: "requested-chassis=n1", Have: "requested-chassis=n9",
				},
			},
		},
		{
			"mark lost", func(w *inspected.World) {
				delete(inspected.Find[*nb.LogicalRouter](w, "red").ExternalIDs, nb.KeyOwner)
			},
			[]drift.Difference{
				{
					Owner: networkOwner, Place: drift.PlaceNorthbound, Kind: drift.ColumnDiffers, Object: "Logical_Router red", Column: "external_ids",
					Want: "atoll.dev/owner=Network/red", Have: "-",
				},
			},
		},
		{
			"port of no pod", func(w *inspected.World) {
				delete(w.Objects.Pods, red0)
				w.Statuses["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: 2}
				delete(w.Bindings, "red/web-0")
				dropInterface(w, "red/web-0")
			},
			[]drift.Difference{
				{Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.RowSurplus, Object: "Logical_Switch_Port red/web-0", Have: "the row"},
			},
		},
		{
			"port taken out of its switch", func(w *inspected.World) {
				front, port := inspected.Find[*nb.LogicalSwitch](w, "red/front"), inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0")
				front.Ports = inspected.Without(front.Ports, port.UUID)
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ElementMissing, Object: "Logical_Switch red/front", Column: "ports",
					Want: "Logical_Switch_Port red/web-0",
				},
			},
		},
		{
			"port in the other tenant's switch", func(w *inspected.World) {
				front := inspected.Find[*nb.LogicalSwitch](w, "blue/front")
				front.Ports = append(front.Ports, inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0").UUID)
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ElementSurplus, Object: "Logical_Switch blue/front", Column: "ports",
					Have: "Logical_Switch_Port red/web-0",
				},
			},
		},
		{
			"port in somebody else's switch", func(w *inspected.World) {
				theirs := &nb.LogicalSwitch{UUID: "theirs", Name: "theirs", Ports: []string{inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0").UUID}}
				w.Rows[nb.RefOf(theirs)] = theirs
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ElementSurplus, Object: "Logical_Switch theirs", Column: "ports",
					Have: "Logical_Switch_Port red/web-0",
				},
			},
		},
		{"annotation that does not follow from the Network", func(w *inspected.World) {
			w.Objects.Pods[red0].Assigned[0].MAC = "02:00:00:00:00:01"
		}, []drift.Difference{{
			Owner: podOwner, Place: drift.PlaceAPI, Kind: drift.AnnotationDiffers, Object: "annotation atoll.dev/attachments", Column: "",
			Want: "red/front eth0 0a:58:0a:00:00:02 10.0.0.2/24 via 10.0.0.1", Have: "red/front eth0 02:00:00:00:00:01 10.0.0.2/24 via 10.0.0.1",
		}}},
		{"annotation with another address than the database", func(w *inspected.World) {
			port := inspected.Find[*nb.LogicalSwitchPort](w, "red/web-0")
			port.Addresses, port.PortSecurity = []string{"0a:58:0a:00:00:63 10.0.0.99"}, []string{"0a:58:0a:00:00:63 10.0.0.99"}
		}, []drift.Difference{
			{
				Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ColumnDiffers, Object: "Logical_Switch_Port red/web-0", Column: "addresses",
				Want: "0a:58:0a:00:00:02 10.0.0.2", Have: "0a:58:0a:00:00:63 10.0.0.99",
			},
			{
				Owner: podOwner, Place: drift.PlaceNorthbound, Kind: drift.ColumnDiffers, Object: "Logical_Switch_Port red/web-0",
				Column: "port_security", Want: "0a:58:0a:00:00:02 10.0.0.2", Have: "0a:58:0a:00:00:63 10.0.0.99",
			},
		}},
		{
			"new pod", func(w *inspected.World) {
				w.AddPod("red", "new", "n2")
				w.Statuses["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: 4}
			},
			[]drift.Difference{
				{
					Owner: nb.PodOwner("red", "new"), Place: drift.PlaceAPI, Kind: drift.PodPending, Object: "annotation atoll.dev/attachments",
					Want: "an address in Network red", Have: "none",
				},
			},
		},
		{"annotation lost", func(w *inspected.World) {
			w.Objects.Pods[red0].Assigned = nil
		}, []drift.Difference{{
			Owner: podOwner, Place: drift.PlaceAPI, Kind: drift.PodPending, Object: "annotation atoll.dev/attachments", Column: "",
			Want: "an address in Network red", Have: "none, but a port with 0a:58:0a:00:00:02 10.0.0.2",
		}}},
		{
			"status behind", func(w *inspected.World) {
				w.Statuses["red"] = kube.Shown{ObservedGeneration: 1, Phase: model.Ready, Pods: 3}
			},
			[]drift.Difference{
				{Owner: networkOwner, Place: drift.PlaceAPI, Kind: drift.StatusBehind, Object: "status.observedGeneration", Want: "2", Have: "1"},
			},
		},
		{"status wrong", func(w *inspected.World) {
			w.Statuses["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Pending, Pods: 1}
		}, []drift.Difference{
			{Owner: networkOwner, Place: drift.PlaceAPI, Kind: drift.StatusDiffers, Object: "status.phase", Want: "Ready", Have: "Pending"},
			{Owner: networkOwner, Place: drift.PlaceAPI, Kind: drift.StatusDiffers, Object: "status.pods", Want: "3", Have: "1"},
		}},
		{
			"no finalizer", func(w *inspected.World) {
				w.Objects.Networks["red"].Finalized = false
			},
			[]drift.Difference{
				{
					Owner: networkOwner, Place: drift.PlaceAPI, Kind: drift.FinalizerMissing, Object: "metadata.finalizers", Want: "atoll.dev/network",
					Have: "-",
				},
			},
		},
		{
			"no binding", func(w *inspected.World) {
				delete(w.Bindings, "red/web-0")
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceSouthbound, Kind: drift.NotBound, Object: "Port_Binding red/web-0", Want: "up on n1",
					Have: "no such row",
				},
			},
		},
		{
			"not bound", func(w *inspected.World) {
				w.Bindings["red/web-0"] = ovsdb.Binding{}
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceSouthbound, Kind: drift.NotBound, Object: "Port_Binding red/web-0", Want: "up on n1",
					Have: "on no chassis",
				},
			},
		},
		{
			"bound elsewhere", func(w *inspected.World) {
				w.Bindings["red/web-0"] = ovsdb.Binding{Chassis: "n3", Hostname: "n3", Up: true}
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceSouthbound, Kind: drift.NotBound, Object: "Port_Binding red/web-0", Want: "up on n1",
					Have: "on chassis n3",
				},
			},
		},
		{"chassis called otherwise than its host", func(w *inspected.World) {
			w.Bindings["red/web-0"] = ovsdb.Binding{Chassis: "c-17", Hostname: "n1", Up: true}
		}, nil},
		{
			"not up", func(w *inspected.World) {
				w.Bindings["red/web-0"] = ovsdb.Binding{Chassis: "n1"}
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceSouthbound, Kind: drift.NotBound, Object: "Port_Binding red/web-0", Want: "up on n1",
					Have: "not up",
				},
			},
		},
		{
			"no interface", func(w *inspected.World) {
				dropInterface(w, "red/web-0")
			},
			[]drift.Difference{
				{Owner: podOwner, Place: drift.PlaceNode, Kind: drift.InterfaceMissing, Object: "Interface", Want: "iface-id=red/web-0"},
			},
		},
		{
			"interface of an earlier pod of that name", func(w *inspected.World) {
				w.Iface("red/web-0").IfaceIDVer = "old"
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNode, Kind: drift.InterfaceDiffers, Object: "Interface atoll-redweb-0", Column: "external_ids",
					Want: "iface-id-ver=uid-red-web-0", Have: "iface-id-ver=old",
				},
			},
		},
		{
			"interface not installed", func(w *inspected.World) {
				w.Iface("red/web-0").Installed = false
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNode, Kind: drift.InterfaceDiffers, Object: "Interface atoll-redweb-0", Column: "external_ids",
					Want: "ovn-installed=true", Have: "-",
				},
			},
		},
		{
			"interface with a problem", func(w *inspected.World) {
				w.Iface("red/web-0").Problem = "no such device"
			},
			[]drift.Difference{
				{
					Owner: podOwner, Place: drift.PlaceNode, Kind: drift.InterfaceDiffers, Object: "Interface atoll-redweb-0", Column: "error", Want: "-",
					Have: "no such device",
				},
			},
		},
		{
			"interface of no pod of the node", func(w *inspected.World) {
				gone := *w.Iface("red/web-0")
				gone.Name, gone.Pod, gone.IfaceID = "atoll-gone", "red/web-1", "red/web-1"
				w.Interfaces = append(w.Interfaces, gone)
			},
			[]drift.Difference{
				{
					Owner: nb.PodOwner("red", "web-1"), Place: drift.PlaceNode, Kind: drift.InterfaceSurplus, Object: "Interface atoll-gone",
					Have: "iface-id=red/web-1",
				},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := inspected.NewWorld(t)
			test.damage(w)
			if diff := cmp.Diff(test.want, lookAt(w).Differences); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A pod that may not attach has no port: that is no difference, but a port that it has all the same is one.
func TestARefusedPodHasNoPort(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	w.Objects.Networks["red"].Tenant = "somebody"
	got := lookAt(w)
	if got.Refused != 3 {
		t.Errorf("%d pods are refused, want 3", got.Refused)
	}
	surplus := map[nb.Owner]drift.Kind{}
	for _, d := range got.Differences {
		if d.Place == drift.PlaceNorthbound {
			surplus[d.Owner] = d.Kind
		}
	}
	want := map[nb.Owner]drift.Kind{
		nb.PodOwner("red", "web-0"): drift.RowSurplus, nb.PodOwner("red", "web-1"): drift.RowSurplus, nb.PodOwner("red",
			"web-2"): drift.RowSurplus,
	}
	if diff := cmp.Diff(want, surplus); diff != "" {
		t.Error(diff)
	}
}

// A Network that was deleted and has no pods any more should go, and its rows before it.
func TestADeletedNetworkThatStays(t *testing.T) {
	t.Parallel()
	w := inspected.NewWorld(t)
	w.Objects.Networks["red"].Deleting = true
	for key := range w.Objects.Pods {
		if key.Namespace == "red" {
			w.Delete(inspected.Find[*nb.LogicalSwitchPort](w, key.String()))
			dropInterface(w, key.String())
			delete(w.Objects.Pods, key)
		}
	}
	kinds := map[drift.Kind]int{}
	for _, d := range lookAt(w).Differences {
		if d.Owner != nb.NetworkOwner("red") {
			t.Errorf("unexpected: %+v", d)
		}
		kinds[d.Kind]++
	}
	if diff := cmp.Diff(map[drift.Kind]int{drift.RowSurplus: 20, drift.FinalizerLeft: 1}, kinds); diff != "" {
		t.Error(diff)
	}
}

func dropInterface(w *inspected.World, id string) {
	for i := range w.Interfaces {
		if w.Interfaces[i].IfaceID == id {
			w.Interfaces = append(w.Interfaces[:i:i], w.Interfaces[i+1:]...)
			return
		}
	}
}

// BenchmarkLook looks at 20,000 pods in 400 Networks of the same addresses.
func BenchmarkLook(b *testing.B) {
	var networks []string
	for i := range 400 {
		networks = append(networks, fmt.Sprintf("net-%d", i))
	}
	w := inspected.WorldOf(b, networks, 50)
	for b.Loop() {
		if report := lookAt(w); len(report.Differences) > 0 {
			b.Fatalf("%+v", report.Differences[0])
		}
	}
}

func ownerOf(row nb.Row) nb.Owner {
	owner, _ := nb.ParseOwner(row.Owned()[nb.KeyOwner])
	return owner
}

func lookAt(w *inspected.World) Report {
	w.T.Helper()
	s := &sources{
		defaults: inspected.Defaults, cluster: w, objects: model.NewChanges(), node: "n1",
		northbound: func() (snapshot.Northbound, error) { return w.Rows, nil },
		bindings:   func(context.Context) (map[string]ovsdb.Binding, error) { return w.Bindings, nil },
		interfaces: func(context.Context) ([]vswitch.Port, error) { return w.Interfaces, nil },
	}
	report, err := s.look(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return report
}
