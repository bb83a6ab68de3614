//go:build integration

package southbound

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// claims runs Claims against a database until the test ends. The cluster has Nodes n1, n2 and thief, whose addresses are 192.0.2.1, 2 and
// 3.
func claims(t *testing.T, c *ovn.Central) *Claims {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	var objects []runtime.Object
	reports := map[string]*model.NodeReport{}
	nodes := map[string]*model.Node{}
	for name, address := range nodeAddresses {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
		}
		objects = append(objects, node)
		nodes[name], reports[name] = intake.Node(node), &model.NodeReport{Node: name, NodeUID: name, Tunnels: addrs(address)}
	}
	out := &Claims{
		Kube: kubefake.NewClientset(objects...), Southbound: ovsdb.Config{Addresses: []string{c.SBAddress()}, Log: log}, Settle: time.Millisecond,
		Machines: func() (map[string]*model.Node, map[string]*model.NodeReport, bool) { return nodes, reports, true },
		Metrics:  NewClaimMetrics(prometheus.NewRegistry()), Log: log,
	}
	run(t, out)
	return out
}

var nodeAddresses = map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2", "thief": "192.0.2.3"}

func run(t *testing.T, c *Claims) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
}

// control is ovn-sbctl and ovn-nbctl, whose failure ends the test.
func control(t *testing.T, ctl func(context.Context, ...string) (string, error)) func(words ...string) string {
	return func(words ...string) string {
		t.Helper()
		out, err := ctl(t.Context(), words...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out), " ")
	}
}

// TestFurtherChassisAreTakenBack: a port that a node says to be on further chassis is not there for long, however often it is said; one
// that is asked for there stays.
func TestFurtherChassisAreTakenBack(t *testing.T) {
	central := ovn.Start(t, true)
	nb, sb := control(t, central.NBCtl), control(t, central.SBCtl)
	for name, address := range nodeAddresses {
		sb("chassis-add", name, "geneve", address)
	}
	nb("--wait=sb", "ls-add", "sw", "--", "lsp-add", "sw", "p1", "--", "lsp-add", "sw", "moves",
		"--", "set", "Logical_Switch_Port", "p1", "options:requested-chassis=n1",
		"--", "set", "Logical_Switch_Port", "moves", "options:requested-chassis=n1,n2")
	id := func(table, condition string) string { return sb("--bare", "--columns=_uuid", "find", table, condition) }
	thief, encap, asked := id("Chassis", "name=thief"), id("Encap", "chassis_name=thief"), id("Chassis", "name=n2")
	further := func(port string) string {
		return sb("--bare", "--columns=additional_chassis,additional_encap", "find", "Port_Binding", "logical_port="+port)
	}

	// What was there before the controller led is taken back, too.
	sb("set", "Port_Binding", "p1", "additional_chassis="+thief, "additional_encap="+encap)
	if further("p1") != thief+" "+encap {
		t.Fatal("the control: the row does not say what was written")
	}
	sb("set", "Port_Binding", "moves", "additional_chassis="+asked)
	c := claims(t, central)
	gone := func(port, want string) {
		t.Helper()
		wait.Until(t, 10*time.Second, port+" is on its own chassis alone", func() bool { return further(port) == want })
	}
	gone("p1", "")
	for range 3 {
		sb("set", "Port_Binding", "p1", "additional_chassis="+thief)
		gone("p1", "")
	}
	sb("set", "Port_Binding", "p1", "additional_encap="+encap)
	gone("p1", "")
	sb("add", "Port_Binding", "moves", "additional_chassis", thief)
	gone("moves", asked)
	if got := testutil.ToFloat64(c.Metrics.further.WithLabelValues("thief")); got != 5 {
		t.Errorf("%v claims for the thief's chassis are counted, want 5", got)
	}
	if got := testutil.ToFloat64(c.Metrics.further.WithLabelValues("n2")); got != 0 {
		t.Errorf("%v claims are counted for a chassis that was asked for", got)
	}
}

// TestFalseChassisGo: a chassis goes that takes tunnels at another node's address or has its host name, however it says so; it may come
// back as it should be.
func TestFalseChassisGo(t *testing.T) {
	central := ovn.Start(t, true)
	sb := control(t, central.SBCtl)
	for name, address := range nodeAddresses {
		sb("chassis-add", name, "geneve", address)
	}
	id := func(table, condition string) string { return sb("--bare", "--columns=_uuid", "find", table, condition) }
	c := claims(t, central)
	uuid := id("Chassis", "name=thief")
	for i, attack := range [][]string{
		// OVN knows no two ends of one type at one address: it is of another type, or the other's very row, or free while the other is away.
		{"--id=@e", "create", "Encap", "type=vxlan", "ip=192.0.2.2", "chassis_name=thief", "--", "add", "Chassis", "thief", "encaps", "@e"},
		{"add", "Chassis", "thief", "encaps", id("Encap", "chassis_name=n2")},
		{"chassis-del", "n2", "--", "set", "Encap", id("Encap", "chassis_name=thief"), "ip=192.0.2.2"},
		{"--id=@e", "create", "Encap", "type=vxlan", "ip=448.0.2.2", "chassis_name=thief", "--", "add", "Chassis", "thief", "encaps", "@e"},
		{"set", "Chassis", "thief", "hostname=n2"},
	} {
		if i == 2 {
			attack[len(attack)-2] = id("Encap", "chassis_name=thief")
		}
		sb(attack...)
		wait.Until(t, 10*time.Second, "the thief's chassis goes", func() bool { return id("Chassis", "name=thief") != uuid })
		if got := testutil.ToFloat64(c.Metrics.deleted.WithLabelValues("thief")); got != float64(i+1) {
			t.Errorf("after attack %d, %v chassis are counted", i, got)
		}
		// An honest ovn-controller makes its own anew: it stays.
		sb("chassis-add", "thief", "geneve", nodeAddresses["thief"])
		uuid = id("Chassis", "name=thief")
	}
	sb("--may-exist", "chassis-add", "n2", "geneve", nodeAddresses["n2"])
	if have := sb("--bare", "--columns=name", "list", "Chassis"); len(strings.Fields(have)) != len(nodeAddresses) {
		t.Errorf("there are chassis %s", have)
	}
	if events, err := c.Kube.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{}); err != nil ||
		len(events.Items) != 1 {
		t.Errorf("%d Events within a minute, want one: %v", len(events.Items), err)
	}
}
