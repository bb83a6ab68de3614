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

	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// claims runs Claims against a database until the test ends.
func claims(t *testing.T, c *ovn.Central) *Claims {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	out := &Claims{Southbound: ovsdb.Config{Addresses: []string{c.SBAddress()}, Log: log}, Metrics: NewClaimMetrics(prometheus.NewRegistry()), Log: log}
	run(t, out)
	return out
}

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

// TestFurtherChassisAreTakenBack: a port that a node says to be on further chassis is not there for long, however often it is said; one that is asked for there stays.
func TestFurtherChassisAreTakenBack(t *testing.T) {
	central := ovn.Start(t, true)
	nb, sb := control(t, central.NBCtl), control(t, central.SBCtl)
	for name, address := range map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2", "thief": "192.0.2.3"} {
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
