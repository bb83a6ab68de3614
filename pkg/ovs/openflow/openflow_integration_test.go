//go:build integration

package openflow_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/ovs/openflow"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// bridge is a bridge of a real ovs-vswitchd, with no ports.
type bridge struct {
	chassis *ovn.Chassis
	dir     string
}

func newBridge(tb testing.TB) bridge {
	tb.Helper()
	dir, err := os.MkdirTemp("", "flows")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := ovn.StartChassis(tb.Context(), ovn.ChassisOptions{
		Dir: dir, Name: "n1", Southbound: "unix:" + filepath.Join(dir, "nobody.sock"), Datapath: ovn.UserspaceDatapath,
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Stop)
	if _, err := c.VSCtl(tb.Context(), "add-br", "ours", "--", "set", "Bridge",
		"ours", "datapath_type=netdev", "fail_mode=secure"); err != nil {
		tb.Fatal(err)
	}
	return bridge{c, dir}
}

func (b bridge) ofctl(tb testing.TB, args ...string) {
	tb.Helper()
	if _, err := b.chassis.OFCtl(tb.Context(), args...); err != nil {
		tb.Fatal(err)
	}
}

func (b bridge) dial(tb testing.TB) *openflow.Conn {
	tb.Helper()
	c, err := openflow.Dial(tb.Context(), filepath.Join(b.dir, "ours.mgmt"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// flows adds flows, one for each line.
func (b bridge) flows(tb testing.TB, lines []string) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "flows")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		tb.Fatal(err)
	}
	b.ofctl(tb, "add-flows", "ours", file)
}

// packet has the bridge look at an empty Ethernet frame as if a port had received it.
func (b bridge) packet(tb testing.TB) {
	tb.Helper()
	b.ofctl(tb, "packet-out", "ours", "in_port=local packet=ffffffffffff02000000000108000000 actions=resubmit(,0)")
}

func TestFlowsAreCountedByCookieAndTable(t *testing.T) {
	b := newBridge(t)
	b.flows(t, []string{
		"cookie=0x1,table=0,priority=7,actions=load:0x5->NXM_NX_REG14[],load:0x3->OXM_OF_METADATA[],resubmit(,1)",
		"cookie=0x2,table=1,priority=9,metadata=0x3,reg14=0x5,actions=drop",
		"cookie=0x2,table=1,priority=8,metadata=0x3,reg15=0x6,actions=drop",
		"cookie=0x2,table=2,priority=1,actions=drop",
	})
	for range 3 {
		b.packet(t)
	}
	c := b.dial(t)
	ask := []openflow.Selection{{1, openflow.AnyTable}, {2, 1}, {2, openflow.AnyTable}, {2, 5}, {3, openflow.AnyTable}}
	want := []openflow.Count{{Flows: 1, Packets: 3}, {Flows: 2, Packets: 3}, {Flows: 3, Packets: 3}, {}, {}}
	wait.Eventually(t, wait.Patience, "counts", func(ctx context.Context) error {
		got, err := c.Counts(ctx, ask)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got)\n%s", diff)
		}
		return nil
	})
	flows, err := c.Flows(t.Context(), openflow.Selection{Cookie: 2, Table: openflow.AnyTable})
	if err != nil {
		t.Fatal(err)
	}
	found := map[openflow.Flow]bool{}
	for _, f := range flows {
		found[f] = true
	}
	if diff := cmp.Diff(map[openflow.Flow]bool{
		{Table: 1, Priority: 9, Packets: 3, Datapath: 3, InPort: 5}: true,
		{Table: 1, Priority: 8, Datapath: 3, OutPort: 6}:            true,
		{Table: 2, Priority: 1}:                                     true,
	}, found); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if none, err := c.Flows(t.Context(), openflow.Selection{Cookie: 9, Table: openflow.AnyTable}); err != nil || len(none) > 0 {
		t.Errorf("of a cookie that nobody has: %v, %v", none, err)
	}
}

// TestDropsAreAddedOnce: a bridge drops the messages of one type, and nothing else.
func TestDropsAreAddedOnce(t *testing.T) {
	b := newBridge(t)
	c := b.dial(t)
	for range 2 {
		if err := c.Drop(t.Context(), openflow.Drop{Cookie: 1 << 40, Priority: 60000, ICMPv6Type: 134}); err != nil {
			t.Fatal(err)
		}
	}
	b.flows(t, []string{"cookie=0x2,table=0,priority=1,actions=drop"})
	for _, kind := range []string{"86", "87", "86"} {
		b.ofctl(t, "packet-out", "ours", "in_port=local packet=333300000001020000000001"+"86dd6000000000083aff"+
			strings.Repeat("fe80000000000000000000000000000"+"1", 2)+kind+"00000000000000 actions=resubmit(,0)")
	}
	b.packet(t)
	ask := []openflow.Selection{{1 << 40, 0}, {2, 0}}
	want := []openflow.Count{{Flows: 1, Packets: 2}, {Flows: 1, Packets: 2}}
	wait.Eventually(t, wait.Patience, "counts", func(ctx context.Context) error {
		got, err := c.Counts(ctx, ask)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got)\n%s", diff)
		}
		return nil
	})
}

// Many more flows than fit in one answer, and more questions than ovs-vswitchd answers before it is read from.
func TestMoreFlowsThanOneAnswerHolds(t *testing.T) {
	const many = 2_000
	b := newBridge(t)
	lines := make([]string, 0, many)
	ask := make([]openflow.Selection, 0, many)
	for i := range many {
		lines = append(lines, fmt.Sprintf("cookie=0x7,table=3,metadata=%d,reg15=%d,actions=drop", 1+i/100, 1+i%100),
			fmt.Sprintf("cookie=%d,table=4,metadata=%d,actions=drop", 1000+i, 1+i))
		ask = append(ask, openflow.Selection{Cookie: uint64(1000 + i), Table: 4})
	}
	b.flows(t, lines)
	c := b.dial(t)
	flows, err := c.Flows(t.Context(), openflow.Selection{Cookie: 7, Table: 3})
	if err != nil || len(flows) != many {
		t.Fatalf("%d flows, %v", len(flows), err)
	}
	counts, err := c.Counts(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range counts {
		if n.Flows != 1 {
			t.Fatalf("question %d: %+v", i, n)
		}
	}
}

func TestBridgesThatCannotAnswer(t *testing.T) {
	b := newBridge(t)
	if _, err := openflow.Dial(t.Context(), filepath.Join(b.dir, "nobody.mgmt")); err == nil {
		t.Error("a bridge that is not there answers")
	}
	c := b.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Counts(ctx, []openflow.Selection{{1, 0}}); err == nil {
		t.Error("a question is answered after its end")
	}
	if _, err := b.chassis.VSCtl(t.Context(), "set", "Bridge", "ours", "protocols=OpenFlow15"); err != nil {
		t.Fatal(err)
	}
	if _, err := openflow.Dial(t.Context(), filepath.Join(b.dir, "ours.mgmt")); !errors.Is(err, openflow.ErrVersion) {
		t.Errorf("a bridge of OpenFlow 1.5 only: %v", err)
	}
}

// BenchmarkCounts asks for 2,000 cookies among 20,000 flows.
func BenchmarkCounts(b *testing.B) {
	const cookies, each = 2_000, 10
	br := newBridge(b)
	var lines []string
	var ask []openflow.Selection
	for i := range cookies {
		for j := range each {
			lines = append(lines, fmt.Sprintf("cookie=%d,table=4,metadata=%d,reg15=%d,actions=drop", 1000+i, 1+i, 1+j))
		}
		ask = append(ask, openflow.Selection{Cookie: uint64(1000 + i), Table: 4})
	}
	br.flows(b, lines)
	c := br.dial(b)
	for b.Loop() {
		if _, err := c.Counts(b.Context(), ask); err != nil {
			b.Fatal(err)
		}
	}
}
