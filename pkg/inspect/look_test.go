package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

func TestNothingIsFoundWhereNothingDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// What is not ours does not count, wherever it is.
	foreign := &nb.LogicalSwitchPort{UUID: "foreign", Name: "theirs"}
	theirs := &nb.LogicalSwitch{UUID: "theirs", Name: "theirs", Ports: []string{foreign.UUID}}
	w.rows[nb.RefOf(foreign)], w.rows[nb.RefOf(theirs)] = foreign, theirs
	front := find[*nb.LogicalSwitch](w, "red/front")
	front.Ports = append(front.Ports, foreign.UUID)
	// 2 x (router, 2 switches, 2 pairs of ports) and 6 ports of pods.
	if diff := cmp.Diff(Report{Networks: 2, Pods: 6, Rows: 46}, w.look()); diff != "" {
		t.Error(diff)
	}
}

func TestEveryRowThatIsMissingIsNamedWithItsOwner(t *testing.T) {
	t.Parallel()
	for ref, row := range newWorld(t).rows {
		w := newWorld(t)
		w.delete(w.rows[ref])
		want := Difference{
			Owner: ownerOf(row), Place: PlaceNorthbound, Kind: RowMissing, Object: describe(row), Want: "the row",
		}
		if diff := cmp.Diff([]Difference{want}, w.look().Differences); diff != "" {
			t.Errorf("%s: %s", describe(row), diff)
		}
	}
}

// TestAddressesOfServices: what is written on a Service is compared with what it has, or should have.
func TestAddressesOfServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	red := w.objects.Networks["red"]
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
		w.objects.Services[key] = &model.Service{
			Key: key, UID: "uid", Created: time.Unix(int64(i), 0), Assigned: service.assigned,
			ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.5")},
		}
	}
	got := compileAll(defaults, w.objects, w.rows.Rows).compareServices()
	slices.SortFunc(got, compareDifferences)
	const object = "annotation atoll.dev/service-addresses"
	text := func(network, uid, ip string) string {
		return `{"serviceUID":"uid","network":"` + network + `","networkUID":"` + uid + `","addresses":["` + ip + `"]}`
	}
	want := []Difference{
		{nb.ServiceOwner("blue", "too-much"), PlaceAPI, "", AnnotationDiffers, object, "", "-", text("red", "uid-red", "10.9.0.6")},
		{nb.ServiceOwner("red", "new"), PlaceAPI, "", AnnotationDiffers, object, "", "addresses of Network red", "-"},
		{nb.ServiceOwner("red", "wrong"), PlaceAPI, "", AnnotationDiffers, object, "", text("red", "uid-red", "10.9.0.1"), text("red", "uid-red", "10.0.0.5")},
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
		damage func(w *world)
		want   []Difference
	}{
		{"column of a pod's port", func(w *world) {
			find[*nb.LogicalSwitchPort](w, "red/web-0").Addresses = []string{"unknown"}
		}, []Difference{{podOwner, PlaceNorthbound, "", ColumnDiffers, "Logical_Switch_Port red/web-0", "addresses", "0a:58:0a:00:00:02 10.0.0.2", "unknown"}}},
		{"only what differs of a map", func(w *world) {
			find[*nb.LogicalSwitchPort](w, "red/web-0").Options["requested-chassis"] = "n9"
		}, []Difference{{podOwner, PlaceNorthbound, "", ColumnDiffers, "Logical_Switch_Port red/web-0", "options", "requested-chassis=n1", "requested-chassis=n9"}}},
		{"mark lost", func(w *world) {
			delete(find[*nb.LogicalRouter](w, "red").ExternalIDs, nb.KeyOwner)
		}, []Difference{{networkOwner, PlaceNorthbound, "", ColumnDiffers, "Logical_Router red", "external_ids", "atoll.dev/owner=Network/red", "-"}}},
		{"port of no pod", func(w *world) {
			delete(w.objects.Pods, red0)
			w.shown["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: 2}
			delete(w.bindings, "red/web-0")
			w.dropInterface("red/web-0")
		}, []Difference{{podOwner, PlaceNorthbound, "", RowSurplus, "Logical_Switch_Port red/web-0", "", "", "the row"}}},
		{"port taken out of its switch", func(w *world) {
			front, port := find[*nb.LogicalSwitch](w, "red/front"), find[*nb.LogicalSwitchPort](w, "red/web-0")
			front.Ports = without(front.Ports, port.UUID)
		}, []Difference{{podOwner, PlaceNorthbound, "", ElementMissing, "Logical_Switch red/front", "ports", "Logical_Switch_Port red/web-0", ""}}},
		{"port in the other tenant's switch", func(w *world) {
			front := find[*nb.LogicalSwitch](w, "blue/front")
			front.Ports = append(front.Ports, find[*nb.LogicalSwitchPort](w, "red/web-0").UUID)
		}, []Difference{{podOwner, PlaceNorthbound, "", ElementSurplus, "Logical_Switch blue/front", "ports", "", "Logical_Switch_Port red/web-0"}}},
		{"port in somebody else's switch", func(w *world) {
			theirs := &nb.LogicalSwitch{UUID: "theirs", Name: "theirs", Ports: []string{find[*nb.LogicalSwitchPort](w, "red/web-0").UUID}}
			w.rows[nb.RefOf(theirs)] = theirs
		}, []Difference{{podOwner, PlaceNorthbound, "", ElementSurplus, "Logical_Switch theirs", "ports", "", "Logical_Switch_Port red/web-0"}}},
		{"annotation that does not follow from the Network", func(w *world) {
			w.objects.Pods[red0].Assigned[0].MAC = "02:00:00:00:00:01"
		}, []Difference{{
			podOwner, PlaceAPI, "", AnnotationDiffers, "annotation atoll.dev/attachments", "",
			"red/front eth0 0a:58:0a:00:00:02 10.0.0.2/24 via 10.0.0.1", "red/front eth0 02:00:00:00:00:01 10.0.0.2/24 via 10.0.0.1",
		}}},
		{"annotation with another address than the database", func(w *world) {
			port := find[*nb.LogicalSwitchPort](w, "red/web-0")
			port.Addresses, port.PortSecurity = []string{"0a:58:0a:00:00:63 10.0.0.99"}, []string{"0a:58:0a:00:00:63 10.0.0.99"}
		}, []Difference{
			{podOwner, PlaceNorthbound, "", ColumnDiffers, "Logical_Switch_Port red/web-0", "addresses", "0a:58:0a:00:00:02 10.0.0.2", "0a:58:0a:00:00:63 10.0.0.99"},
			{podOwner, PlaceNorthbound, "", ColumnDiffers, "Logical_Switch_Port red/web-0", "port_security", "0a:58:0a:00:00:02 10.0.0.2", "0a:58:0a:00:00:63 10.0.0.99"},
		}},
		{"new pod", func(w *world) {
			w.addPod("red", "new", "n2")
			w.shown["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Ready, Pods: 4}
		}, []Difference{{nb.PodOwner("red", "new"), PlaceAPI, "", PodPending, "annotation atoll.dev/attachments", "", "an address in Network red", "none"}}},
		{"annotation lost", func(w *world) {
			w.objects.Pods[red0].Assigned = nil
		}, []Difference{{
			podOwner, PlaceAPI, "", PodPending, "annotation atoll.dev/attachments", "",
			"an address in Network red", "none, but a port with 0a:58:0a:00:00:02 10.0.0.2",
		}}},
		{"status behind", func(w *world) {
			w.shown["red"] = kube.Shown{ObservedGeneration: 1, Phase: model.Ready, Pods: 3}
		}, []Difference{{networkOwner, PlaceAPI, "", StatusBehind, "status.observedGeneration", "", "2", "1"}}},
		{"status wrong", func(w *world) {
			w.shown["red"] = kube.Shown{ObservedGeneration: 2, Phase: model.Pending, Pods: 1}
		}, []Difference{
			{networkOwner, PlaceAPI, "", StatusDiffers, "status.phase", "", "Ready", "Pending"},
			{networkOwner, PlaceAPI, "", StatusDiffers, "status.pods", "", "3", "1"},
		}},
		{"no finalizer", func(w *world) {
			w.objects.Networks["red"].Finalized = false
		}, []Difference{{networkOwner, PlaceAPI, "", FinalizerMissing, "metadata.finalizers", "", "atoll.dev/network", "-"}}},
		{"no binding", func(w *world) {
			delete(w.bindings, "red/web-0")
		}, []Difference{{podOwner, PlaceSouthbound, "", NotBound, "Port_Binding red/web-0", "", "up on n1", "no such row"}}},
		{"not bound", func(w *world) {
			w.bindings["red/web-0"] = ovsdb.Binding{}
		}, []Difference{{podOwner, PlaceSouthbound, "", NotBound, "Port_Binding red/web-0", "", "up on n1", "on no chassis"}}},
		{"bound elsewhere", func(w *world) {
			w.bindings["red/web-0"] = ovsdb.Binding{Chassis: "n3", Hostname: "n3", Up: true}
		}, []Difference{{podOwner, PlaceSouthbound, "", NotBound, "Port_Binding red/web-0", "", "up on n1", "on chassis n3"}}},
		{"chassis called otherwise than its host", func(w *world) {
			w.bindings["red/web-0"] = ovsdb.Binding{Chassis: "c-17", Hostname: "n1", Up: true}
		}, nil},
		{"not up", func(w *world) {
			w.bindings["red/web-0"] = ovsdb.Binding{Chassis: "n1"}
		}, []Difference{{podOwner, PlaceSouthbound, "", NotBound, "Port_Binding red/web-0", "", "up on n1", "not up"}}},
		{"no interface", func(w *world) {
			w.dropInterface("red/web-0")
		}, []Difference{{podOwner, PlaceNode, "", InterfaceMissing, "Interface", "", "iface-id=red/web-0", ""}}},
		{"interface of an earlier pod of that name", func(w *world) {
			w.iface("red/web-0").IfaceIDVer = "old"
		}, []Difference{{podOwner, PlaceNode, "", InterfaceDiffers, "Interface atoll-redweb-0", "external_ids", "iface-id-ver=uid-red-web-0", "iface-id-ver=old"}}},
		{"interface not installed", func(w *world) {
			w.iface("red/web-0").Installed = false
		}, []Difference{{podOwner, PlaceNode, "", InterfaceDiffers, "Interface atoll-redweb-0", "external_ids", "ovn-installed=true", "-"}}},
		{"interface with a problem", func(w *world) {
			w.iface("red/web-0").Problem = "no such device"
		}, []Difference{{podOwner, PlaceNode, "", InterfaceDiffers, "Interface atoll-redweb-0", "error", "-", "no such device"}}},
		{"interface of no pod of the node", func(w *world) {
			gone := *w.iface("red/web-0")
			gone.Name, gone.Pod, gone.IfaceID = "atoll-gone", "red/web-1", "red/web-1"
			w.interfaces = append(w.interfaces, gone)
		}, []Difference{{nb.PodOwner("red", "web-1"), PlaceNode, "", InterfaceSurplus, "Interface atoll-gone", "", "", "iface-id=red/web-1"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.damage(w)
			if diff := cmp.Diff(test.want, w.look().Differences); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A pod that may not attach has no port: that is no difference, but a port that it has all the same is one.
func TestARefusedPodHasNoPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.objects.Networks["red"].Tenant = "somebody"
	got := w.look()
	if got.Refused != 3 {
		t.Errorf("%d pods are refused, want 3", got.Refused)
	}
	surplus := map[nb.Owner]Kind{}
	for _, d := range got.Differences {
		if d.Place == PlaceNorthbound {
			surplus[d.Owner] = d.Kind
		}
	}
	want := map[nb.Owner]Kind{nb.PodOwner("red", "web-0"): RowSurplus, nb.PodOwner("red", "web-1"): RowSurplus, nb.PodOwner("red", "web-2"): RowSurplus}
	if diff := cmp.Diff(want, surplus); diff != "" {
		t.Error(diff)
	}
}

// A Network that was deleted and has no pods any more should go, and its rows before it.
func TestADeletedNetworkThatStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.objects.Networks["red"].Deleting = true
	for key := range w.objects.Pods {
		if key.Namespace == "red" {
			w.delete(find[*nb.LogicalSwitchPort](w, key.String()))
			w.dropInterface(key.String())
			delete(w.objects.Pods, key)
		}
	}
	kinds := map[Kind]int{}
	for _, d := range w.look().Differences {
		if d.Owner != nb.NetworkOwner("red") {
			t.Errorf("unexpected: %+v", d)
		}
		kinds[d.Kind]++
	}
	if diff := cmp.Diff(map[Kind]int{RowSurplus: 20, FinalizerLeft: 1}, kinds); diff != "" {
		t.Error(diff)
	}
}

func without(list []string, value string) []string {
	var out []string
	for _, v := range list {
		if v != value {
			out = append(out, v)
		}
	}
	return out
}

func (w *world) dropInterface(id string) {
	for i := range w.interfaces {
		if w.interfaces[i].IfaceID == id {
			w.interfaces = append(w.interfaces[:i:i], w.interfaces[i+1:]...)
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
	w := worldOf(b, networks, 50)
	for b.Loop() {
		if report := w.look(); len(report.Differences) > 0 {
			b.Fatalf("%+v", report.Differences[0])
		}
	}
}

func ownerOf(row nb.Row) nb.Owner {
	owner, _ := nb.ParseOwner(row.Owned()[nb.KeyOwner])
	return owner
}
