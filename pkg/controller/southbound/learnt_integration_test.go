//go:build integration

package southbound

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
)

// TestWhatANodePlantsGoes: rows that any node may add go with the next look where nothing uses them; neighbours stay, and are counted.
func TestWhatANodePlantsGoes(t *testing.T) {
	c := ovn.Start(t, true)
	c.Kill("northd") // It would delete a switch's datapath that is made by hand.
	do := func(args ...string) string {
		t.Helper()
		out, err := c.SBCtl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	do("chassis-add", "n1", "geneve", "192.0.2.1")
	datapath := do("create", "Datapath_Binding", "tunnel_key=1")
	do("create", "FDB", `mac="0a:00:00:00:00:01"`, "dp_key=1", "port_key=1")
	do("create", "FDB", `mac="0a:00:00:00:00:02"`, "dp_key=1", "port_key=1")
	do("create", "Controller_Event", "event_type=empty_lb_backends", "seq_num=1")
	do("create", "IGMP_Group", "address=224.0.0.9", "datapath="+datapath, "chassis_name=n1")
	port := do("create", "Port_Binding", "logical_port=p", "datapath="+datapath, "tunnel_key=1")
	do("create", "Learned_Route", "datapath="+datapath, "logical_port="+port, "ip_prefix=10.0.0.0/24", "nexthop=10.0.0.9")
	do("create", "MAC_Binding", "logical_port=p", "ip=10.0.0.9", `mac="0a:00:00:00:00:09"`, "datapath="+datapath)
	s := Sweeper{
		Kube: kubefake.NewClientset(), Southbound: ovsdb.Config{Addresses: []string{c.SBAddress()}, Log: slog.New(slog.DiscardHandler)},
		Learnt: NewLearnt(prometheus.NewRegistry()), GoneAfter: goneAfter, Log: slog.New(slog.DiscardHandler),
	}
	for range 2 {
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range ovsdb.UnusedTables() {
		if left := do("--bare", "--columns=_uuid", "list", table); left != "" {
			t.Errorf("%s still has %s", table, left)
		}
	}
	for table, want := range map[string]float64{"FDB": 2, "Controller_Event": 1, "IGMP_Group": 1, "Learned_Route": 1} {
		if got := testutil.ToFloat64(s.Learnt.planted.WithLabelValues(table)); got != want {
			t.Errorf("of %s %v rows were deleted, want %v", table, got, want)
		}
	}
	if got := testutil.ToFloat64(s.Learnt.rows); got != 1 || do("--bare", "--columns=ip", "list", "MAC_Binding") != "10.0.0.9" {
		t.Errorf("%v neighbours are counted", got)
	}
}

// relayed is an address that leads to a server's, and how many bytes of answers have come by it.
func relayed(t *testing.T, server string) (string, *atomic.Int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var read atomic.Int64
	go func() { // ends with the listener
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(t, client, server, &read) // ends with the client
		}
	}()
	return "unix:" + path, &read
}

func relay(t *testing.T, client net.Conn, server string, read *atomic.Int64) {
	defer client.Close()
	kind, rest, _ := strings.Cut(server, ":")
	conn, err := net.Dial(kind, rest)
	if err != nil {
		t.Error(err)
		return
	}
	go func() { // ends with the client
		_, _ = io.Copy(conn, client)
		_ = conn.Close()
	}()
	_, _ = io.Copy(client, io.TeeReader(conn, counter{read}))
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}

// TestPlantedRowsAreNotRead: however many rows a node adds, the controller reads no more of them than how many there are.
func TestPlantedRowsAreNotRead(t *testing.T) {
	c := ovn.Start(t, true)
	c.Kill("northd")
	out, err := c.SBCtl(t.Context(), "create", "Datapath_Binding", "tunnel_key=1")
	if err != nil {
		t.Fatal(err)
	}
	datapath := strings.TrimSpace(out)
	address, read := relayed(t, c.SBAddress())
	s := Sweeper{
		Kube: kubefake.NewClientset(), Southbound: ovsdb.Config{Addresses: []string{address}, Log: slog.New(slog.DiscardHandler)},
		Learnt: NewLearnt(prometheus.NewRegistry()), GoneAfter: goneAfter, Log: slog.New(slog.DiscardHandler),
	}
	const planted = 500
	var sizes []int64
	for _, rows := range []int{0, planted} {
		var args []string
		for i := range rows {
			args = append(args, "--", "create", "MAC_Binding", "logical_port=p", fmt.Sprintf("ip=10.0.%d.%d", i/250, i%250),
				`mac="0a:00:00:00:00:09"`, "datapath="+datapath,
				"--", "create", "FDB", fmt.Sprintf(`mac="0a:00:00:00:%02x:%02x"`, i/250, i%250), "dp_key=1", "port_key=1")
		}
		if len(args) > 0 {
			if _, err := c.SBCtl(t.Context(), args[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		before := read.Load()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := testutil.ToFloat64(s.Learnt.rows); got != float64(rows) {
			t.Errorf("%v neighbours are counted, want %d", got, rows)
		}
		sizes = append(sizes, read.Load()-before)
	}
	if sizes[0] == 0 || sizes[1] > sizes[0]+planted {
		t.Errorf("with %d rows in two tables the controller reads %d bytes, and with none %d", planted, sizes[1], sizes[0])
	}
	if out, err := c.SBCtl(t.Context(), "--bare", "--columns=ip", "list", "MAC_Binding"); err != nil || len(strings.Fields(out)) != planted {
		t.Errorf("%d neighbours are left, want %d: %v", len(strings.Fields(out)), planted, err)
	}
}

// TestAChassisOfANodeThatIsShutOutGoes at once, although there is a Node of its name; it is deleted anew when the node makes it
// anew. Others stay.
func TestAChassisOfANodeThatIsShutOutGoes(t *testing.T) {
	c := ovn.Start(t, true)
	do := func(args ...string) string {
		t.Helper()
		out, err := c.SBCtl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	nodes := kubefake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	s := Sweeper{
		Kube: nodes, Southbound: ovsdb.Config{Addresses: []string{c.SBAddress()}, Log: slog.New(slog.DiscardHandler)},
		Learnt: NewLearnt(prometheus.NewRegistry()), GoneAfter: goneAfter, Log: slog.New(slog.DiscardHandler),
	}
	sweep := func(want string) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if have := do("--bare", "--columns=name", "list", "Chassis"); have != want {
			t.Errorf("there are chassis %q, want %q", have, want)
		}
	}
	do("chassis-add", "n1", "geneve", "192.0.2.1")
	sweep("n1")
	if s.listed(t.Context()) {
		t.Error("somebody is shut out")
	}
	if _, err := shutout.Add(t.Context(), nodes, "n1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if !s.listed(t.Context()) {
		t.Error("nobody is shut out")
	}
	for range 2 {
		sweep("")
		do("chassis-add", "n1", "geneve", "192.0.2.1")
	}
	// The node may write to its own row that the chassis is of another zone.
	do("set", "Chassis", "n1", "other_config:is-remote=true")
	sweep("")
	do("chassis-add", "n1", "geneve", "192.0.2.1")
	if s.listed(t.Context()) {
		t.Error("what was swept is news")
	}
	do("chassis-add", "n2", "geneve", "192.0.2.2")
	sweep("n2")
}
