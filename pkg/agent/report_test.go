package agent

import (
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// A node tells of itself once, again when there is something else to tell or somebody else wrote it, and not before it knows what it is.
func TestReportIsWrittenWhenItChanges(t *testing.T) {
	t.Parallel()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{v1alpha1.SchemeGroupVersion.WithResource("nodereports"): "NodeReportList"})
	a := &Agent{node: "n1", bridge: "br-int", world: testWorld("n1"), log: slog.New(slog.DiscardHandler)}
	writes := func(name string, want int) {
		t.Helper()
		client.ClearActions()
		if err := a.report(t.Context(), reportsOf(client)); err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "create" || action.GetVerb() == "update" {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d writes, want %d", name, got, want)
		}
	}
	seen := func() *model.NodeReport {
		t.Helper()
		u, err := reportsOf(client).Get(t.Context(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		report := v1alpha1.NodeReport{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &report); err != nil {
			t.Fatal(err)
		}
		return intake.NodeReport(&report)
	}
	tunnel := netip.MustParseAddr("198.51.100.9")
	writes("before anything is known", 0)
	a.world.SetSynced(world.Reports)
	a.world.SetSynced(world.Settings)
	writes("before the switch was asked", 0)
	a.world.SetUnderlay(underlayOf(tunnel), nil)
	writes("at first", 1)
	first := seen()
	if first.NodeUID != "uid-n1" || !reflect.DeepEqual(first.Tunnels, []netip.Addr{tunnel}) ||
		!reflect.DeepEqual(first.DNS, []netip.Addr{netip.MustParseAddr("10.96.0.10")}) {
		t.Errorf("it says %+v", *first)
	}
	a.world.SetReport(first)
	writes("when all is said", 0)
	a.world.SetUnderlay(underlayOf(netip.MustParseAddr("198.51.100.10")), nil)
	writes("when a tunnel moves", 1)
	a.world.SetReport(&model.NodeReport{Node: "n1", NodeUID: "uid-n1"})
	writes("when somebody else wrote it", 1)
	a.world.SetReport(seen())
	a.world.SetNode(&model.Node{Name: "n1", UID: "uid-n1-again"})
	writes("when the Node is another one", 1)
	if again := seen(); again.NodeUID != "uid-n1-again" {
		t.Errorf("it belongs to %s", again.NodeUID)
	}
	if err := reportsOf(client).Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	a.world.DropReport("n1")
	writes("when it was deleted", 1)
	a.world.DropNode("n1", time.Now())
	a.world.DropReport("n1")
	writes("when there is no Node, with which Kubernetes deletes it", 0)
	a.world.SetNode(&model.Node{Name: "n1", UID: "uid-n1-third"})
	writes("when the Node is there again", 1)
}

// testWorld is a cluster of two nodes and two Networks, as one of the nodes sees it.
func testWorld(self string) *world.World {
	w := world.New(self)
	w.SetInfrastructure(world.Infrastructure{DNS: []netip.Addr{netip.MustParseAddr("10.96.0.10")}})
	for _, name := range []string{"red", "default"} {
		w.SetNetwork(&model.Network{Name: name, UID: "uid-of-" + name})
	}
	for _, name := range []string{"n1", "n2"} {
		w.SetNode(&model.Node{Name: name, UID: "uid-" + name})
	}
	return w
}

func underlayOf(own ...netip.Addr) vswitch.Underlay { return vswitch.Underlay{Own: own} }

func TestWhoseLinksAreReported(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]bool{
		"eth0": true, "bond1.20": true, "storage": true, "br-ex": true, "docker0": true, "lo": true, "br-int": false, "atoll0": false,
		"atoll1": false, "atoll-0123456789": false, "kube-ipvs0": false, "nodelocaldns": false,
	} {
		if got := !notTheNodes(link, "br-int"); got != want {
			t.Errorf("%s is reported: %t, want %t", link, got, want)
		}
	}
}
