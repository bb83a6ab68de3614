//go:build integration

package decide_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	libovsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/controller/engine"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// libovsdb v0.8.1 leaves one goroutine behind for each connection to a raft cluster that ends.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/ovn-kubernetes/libovsdb/client.(*ovsdbClient).watchForLeaderChange.func2"))
}

// running is a controller's engine running against a real database.
type running struct {
	registry *prometheus.Registry
	cancel   context.CancelFunc
	done     chan error
}

func startEngine(t testing.TB, c *cluster, address, epoch string) *running {
	t.Helper()
	return startEngineOf(t, c, address, epoch, withFaces())
}

func startEngineOf(t testing.TB, c *cluster, address, epoch string, defaults decide.Defaults) *running {
	t.Helper()
	return startEngineWith(t, c, address, controller.Config{Epoch: epoch, Defaults: defaults})
}

// startEngineWith starts an engine that is set up so, with what all have.
func startEngineWith(t testing.TB, c *cluster, address string, cfg controller.Config) *running {
	t.Helper()
	e := &running{registry: prometheus.NewRegistry(), done: make(chan error, 1)}
	log := slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	cfg.Database = ovsdb.Config{Addresses: strings.Split(address, ","), Log: log}
	cfg.Source, cfg.Sink, cfg.Log, cfg.Metrics = c, c, log, controller.NewMetrics(e.registry)
	var ctx context.Context
	ctx, e.cancel = context.WithCancel(t.Context())
	go func() { e.done <- controller.New(cfg).Run(ctx) }()
	t.Cleanup(e.stop)
	return e
}

func (e *running) stop() {
	e.cancel()
	select {
	case err := <-e.done:
		e.done <- err
	case <-time.After(20 * time.Second):
	}
}

// committed counts the transactions that the engine has written.
func (e *running) committed(t *testing.T) float64 {
	t.Helper()
	families, err := e.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "atoll_nb_transactions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "committed" {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// eventually waits until what returns want, and returns how long it took.
func eventually(t *testing.T, want string, what func() string) time.Duration {
	t.Helper()
	start := time.Now()
	wait.Eventually(t, wait.Patience, "it does not become what is wanted", becomes(want, what))
	return time.Since(start)
}

// becomes is a check that what returns want.
func becomes(want string, what func() string) func(context.Context) error {
	return func(context.Context) error {
		if got := what(); got != want {
			return fmt.Errorf("\n%s\nwant:\n%s", got, want)
		}
		return nil
	}
}

func nbctl(t *testing.T, c *ovn.Central, args ...string) string {
	t.Helper()
	out, err := c.NBCtl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// northbound reads rows over a connection: a look by ovn-nbctl takes a processor 19 ms.
func northbound(t *testing.T, c *ovn.Central, selects ...libovsdb.Operation) ([][]libovsdb.Row, error) {
	t.Helper()
	asker := ovsdb.Asker{Config: ovsdb.Config{Addresses: []string{c.NBAddress()}}, Database: ovsdb.NorthboundDatabase}
	return asker.Select(t.Context(), selects...)
}

// dump is the database as text in which equal content is equal: every table that we write, sorted.
func dump(t *testing.T, c *ovn.Central) string {
	t.Helper()
	tables, err := northbound(t, c,
		ovsdb.SelectRows("Logical_Router", []string{"_uuid", "name", "ports", "options", "external_ids"}),
		ovsdb.SelectRows("Logical_Router_Port", []string{"_uuid", "name", "mac", "networks", "external_ids"}),
		ovsdb.SelectRows("Logical_Switch", []string{"_uuid", "name", "ports", "other_config", "external_ids"}),
		ovsdb.SelectRows("Logical_Switch_Port", []string{"_uuid", "name", "type", "addresses", "port_security", "options", "external_ids"}))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, rows := range tables {
		var lines []string
		for _, row := range rows {
			lines = append(lines, fmt.Sprint(row))
		}
		slices.Sort(lines)
		all = append(all, lines...)
	}
	return strings.Join(all, "\n")
}

func twoNetworks(c *cluster) {
	for _, name := range []string{"red", "blue"} {
		c.setNamespace(name, map[string]string{model.LabelNetwork: name})
		c.setNetwork(network(name, "front", "10.0.0.0/24", "back", "10.0.1.0/24"))
		for i := range 3 {
			c.setPod(pod(name, fmt.Sprintf("web-%d", i), ""))
		}
	}
}

// ports are the names of a switch's ports, sorted.
func ports(t *testing.T, c *ovn.Central, sw string) string {
	t.Helper()
	tables, err := northbound(t, c, ovsdb.SelectRows("Logical_Switch", []string{"ports"}, ovsdb.Equal("name", sw)),
		ovsdb.SelectRows("Logical_Switch_Port", []string{"_uuid", "name"}))
	switch {
	case err != nil:
		return err.Error()
	case len(tables[0]) != 1:
		return fmt.Sprintf("%d switches have the name %s", len(tables[0]), sw)
	}
	of := fmt.Sprint(tables[0][0]["ports"])
	var names []string
	for _, port := range tables[1] {
		if strings.Contains(of, ovsdb.Text(port, "_uuid")) {
			names = append(names, ovsdb.Text(port, "name"))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

const redFront = "red/front:router red/web-0 red/web-1 red/web-2"

func TestNetworksAndPodsBecomeRows(t *testing.T) {
	central, c := ovn.Start(t, true), newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, strings.ReplaceAll(redFront, "red", "blue"), func() string { return ports(t, central, "blue/front") })
	// The same addresses in both, each pod with the one that the annotation says.
	red, blue := c.attachment(model.PodKey{Namespace: "red", Name: "web-0"}), c.attachment(model.PodKey{Namespace: "blue", Name: "web-0"})
	if red == nil || blue == nil || red.Addresses[0] != blue.Addresses[0] {
		t.Fatalf("red %+v, blue %+v: want the same first address in both", red, blue)
	}
	if got, want := nbctl(t, central, "get", "Logical_Switch_Port", "red/web-0", "addresses"),
		fmt.Sprintf("[%q]", red.MAC+" "+red.Addresses[0].Addr().String()); got != want {
		t.Errorf("addresses in the database %s, in the annotation %s", got, want)
	}
	// northd understands it.
	if _, err := central.NBCtl(t.Context(), "--wait=sb", "sync"); err != nil {
		t.Fatal(err)
	}
	out, err := central.SBCtl(t.Context(), "--bare", "--columns=logical_port", "find", "Port_Binding", "logical_port=red/web-0")
	if err != nil || strings.TrimSpace(out) != "red/web-0" {
		t.Errorf("the southbound database has %q (%v), want a binding of red/web-0", out, err)
	}
	eventually(t, "Ready 3", func() string {
		s := c.status("red")
		return fmt.Sprintf("%s %d", s.Phase, s.Pods)
	})
}

func TestRestartWritesNothing(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	first := startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, "3", func() string { return fmt.Sprint(c.status("blue").Pods) })
	before := dump(t, central)
	first.stop()

	// A pod goes while nobody looks: its row is all that the next controller writes about.
	c.deletePod(model.PodKey{Namespace: "red", Name: "web-2"})
	c.replay(map[string]map[string]string{"red": {model.LabelNetwork: "red"}, "blue": {model.LabelNetwork: "blue"}})
	second := startEngine(t, c, central.NBAddress(), "two")
	eventually(t, "red/front:router red/web-0 red/web-1", func() string { return ports(t, central, "red/front") })
	eventually(t, "2", func() string { return fmt.Sprint(c.status("red").Pods) })
	second.stop()
	if n := second.committed(t); n != 1 {
		t.Errorf("the restart took %v transactions, want 1", n)
	}

	c.replay(map[string]map[string]string{"red": {model.LabelNetwork: "red"}, "blue": {model.LabelNetwork: "blue"}})
	patches, was := c.patches, c.status("red")
	unchanged := dump(t, central)
	c.phases("red")
	third := startEngine(t, c, central.NBAddress(), "three")
	// One report, the same as before: there is nothing to write.
	eventually(t, "Ready", func() string { return c.phases("red") })
	third.stop()
	if more, now := c.phases("red"), c.status("red"); more != "" || !reflect.DeepEqual(now, was) {
		t.Errorf("a restart with nothing to do reports %+v and then %q, want %+v", now, more, was)
	}
	if n := third.committed(t); n != 0 {
		t.Errorf("a restart with nothing to do took %v transactions, want none", n)
	}
	if got := dump(t, central); got != unchanged || got == before {
		t.Errorf("the database changed:\n%s\nwant:\n%s", got, unchanged)
	}
	if c.patches != patches {
		t.Errorf("a restart with nothing to do patched %d pods", c.patches-patches)
	}
}

func TestWhatSomebodyBreaksComesBackWithinASecond(t *testing.T) {
	central, c := ovn.Start(t, true), newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	// Somebody else's rows, which must stay as they are.
	nbctl(t, central, "ls-add", "theirs", "--", "lsp-add", "theirs", "their-port")
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, "3 3", func() string { return fmt.Sprint(c.status("blue").Pods, c.status("red").Pods) })
	want := dump(t, central)
	healed := func(what string, damage func()) {
		t.Helper()
		wait.Within(t, time.Second, what, damage, becomes(want, func() string { return dump(t, central) }))
	}
	for _, damage := range [][]string{
		{"lsp-del", "red/web-0"},
		{"lsp-del", "red/front:router"},
		{"ls-del", "red/front"},
		{"lr-del", "red"},
		{"lrp-del", "red/back:gateway"},
		{"clear", "Logical_Switch_Port", "red/web-1", "port_security"},
		{"set", "Logical_Switch_Port", "red/web-1", `addresses="unknown"`},
		{"clear", "Logical_Switch_Port", "red/web-1", "external_ids"},
		{"set", "Logical_Router_Port", "red/back:gateway", "networks=9.9.9.9/24"},
		{"set", "Logical_Switch", "red/front", "name=black", "external_ids={}"},
		{"clear", "Logical_Switch", "red/front", "ports"},
		{"clear", "Logical_Router", "red", "ports"},
		{"--", "ls-del", "red/front", "--", "ls-del", "red/back", "--", "lr-del", "red", "--", "ls-del", "blue/front"},
	} {
		healed(strings.Join(damage, " "), func() { nbctl(t, central, damage...) })
	}
	// Our port also in a foreign place, and rows that carry our mark but belong to nothing.
	healed("a stray port", func() {
		nbctl(t, central, "--id=@p", "create", "Logical_Switch_Port", "name=stray", `external_ids={"atoll.dev/owner"="Pod/no/body"}`,
			"--", "add", "Logical_Switch", "red/front", "ports", "@p")
		nbctl(t, central, "create", "Logical_Switch", "name=stray", `external_ids={"atoll.dev/owner"="Network/gone"}`)
	})
	healed("a port in two places", func() {
		uuid := nbctl(t, central, "--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=red/web-0")
		nbctl(t, central, "add", "Logical_Switch", "red/back", "ports", uuid)
	})
	healed("the epoch itself", func() {
		nbctl(t, central, "remove", "NB_Global", ".", "external_ids", "atoll.dev/epoch")
		nbctl(t, central, "lsp-del", "red/web-0")
	})
}

func TestADeposedControllerWritesNothing(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	old := startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	nbctl(t, central, "set", "NB_Global", ".", "external_ids:atoll.dev/epoch=two")
	before := dump(t, central)
	c.setPod(pod("red", "late", ""))
	select {
	case err := <-old.done:
		if !errors.Is(err, engine.ErrDeposed) {
			t.Errorf("the old controller ended with %v, want %v", err, engine.ErrDeposed)
		}
		old.done <- err
	case <-wait.Context(t, wait.Patience).Done():
		t.Fatal("the old controller goes on after another took over")
	}
	if got := dump(t, central); got != before {
		t.Errorf("the old controller wrote:\n%s\nwant:\n%s", got, before)
	}
}

func TestTheDatabaseMayBeKilledAtAnyMoment(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	c.setNamespace("red", map[string]string{model.LabelNetwork: "red"})
	c.setNetwork(network("red", "front", "10.0.0.0/16"))
	for i := range 600 {
		c.setPod(pod("red", fmt.Sprintf("p-%03d", i), ""))
		if i%200 == 100 {
			central.Kill("nb")
			if err := central.StartDatabase(t.Context(), "nb"); err != nil {
				t.Fatal(err)
			}
		}
	}
	eventually(t, "601", func() string {
		return fmt.Sprint(len(strings.Fields(ports(t, central, "red/front"))))
	})
}

func TestOneBadOwnerBlocksNobody(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	// Somebody else's port has the name that one of ours must have: names of ports are unique in OVN.
	nbctl(t, central, "ls-add", "theirs", "--", "lsp-add", "theirs", "red/web-1")
	startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, "red/front:router red/web-0 red/web-2", func() string { return ports(t, central, "red/front") })
	eventually(t, strings.ReplaceAll(redFront, "red", "blue"), func() string { return ports(t, central, "blue/front") })
	eventually(t, model.ReasonDatabaseRefused, func() string {
		for _, e := range c.eventsOf("red/web-1") {
			return e.Reason
		}
		return ""
	})
	nbctl(t, central, "ls-del", "theirs")
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
}

func TestADeletedNetworkLeavesNothing(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	startEngine(t, c, central.NBAddress(), "one")
	empty := dump(t, central)
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	for _, name := range []string{"red", "blue"} {
		c.mu.Lock()
		n := *c.networks[name]
		c.mu.Unlock()
		n.Deleting, n.Finalized = true, true
		c.setNetwork(n)
		eventually(t, string(model.Terminating), func() string { return string(c.status(name).Phase) })
		for i := range 3 {
			c.deletePod(model.PodKey{Namespace: name, Name: fmt.Sprintf("web-%d", i)})
		}
	}
	eventually(t, empty, func() string { return dump(t, central) })
	eventually(t, "0", func() string {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Sprint(len(c.networks))
	})
}

func TestWhatWasBrokenWhileNobodyLookedIsMended(t *testing.T) {
	central, c := ovn.Start(t, false), newCluster()
	labels := map[string]map[string]string{"red": {model.LabelNetwork: "red"}, "blue": {model.LabelNetwork: "blue"}}
	first := startEngine(t, c, central.NBAddress(), "one")
	twoNetworks(c)
	eventually(t, redFront, func() string { return ports(t, central, "red/front") })
	eventually(t, "3 3", func() string { return fmt.Sprint(c.status("blue").Pods, c.status("red").Pods) })
	want := dump(t, central)
	first.stop()

	// A port of red also in blue's switch: the two Networks would meet there.
	port := nbctl(t, central, "--bare", "--columns=_uuid", "find", "Logical_Switch_Port", "name=red/web-0")
	nbctl(t, central, "add", "Logical_Switch", "blue/front", "ports", port)
	nbctl(t, central, "lsp-del", "red/web-1")
	nbctl(t, central, "set", "Logical_Switch_Port", "red/web-2", "port_security=[]")
	nbctl(t, central, "create", "Logical_Router", "name=stray", `external_ids={"atoll.dev/owner"="Network/gone"}`)
	if dump(t, central) == want {
		t.Fatal("nothing is broken")
	}
	c.replay(labels)
	startEngine(t, c, central.NBAddress(), "two")
	eventually(t, want, func() string { return dump(t, central) })
}
