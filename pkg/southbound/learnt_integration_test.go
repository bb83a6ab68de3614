//go:build integration

package southbound

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/atoll-net/atoll/pkg/ovsdb"
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
	for table, want := range map[string]float64{"FDB": 2, "Controller_Event": 1, "IGMP_Group": 1} {
		if got := testutil.ToFloat64(s.Learnt.planted.WithLabelValues(table)); got != want {
			t.Errorf("of %s %v rows were deleted, want %v", table, got, want)
		}
	}
	if got := testutil.ToFloat64(s.Learnt.rows); got != 1 || do("--bare", "--columns=ip", "list", "MAC_Binding") != "10.0.0.9" {
		t.Errorf("%v neighbours are counted", got)
	}
}
