//go:build integration

package chassis_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/daemons/chassis"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/stream"
)

// world is two nodes: on the first are a and b, on the second is c, all in one logical switch.
type world struct {
	*cluster
	one, two *machine
	a, b, c  *ovn.Guest
	// streams is how many ports streams had so far: each keeps its own until the test ends.
	streams uint16
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{cluster: newCluster(t)}
	w.one, w.two = w.machine(t, "n1", "192.0.2.1"), w.machine(t, "n2", "192.0.2.2")
	join(t, w.one, w.two)
	for _, m := range []*machine{w.one, w.two} {
		// All at once, as kubelet starts containers: each waits for what it needs.
		for _, part := range parts3() {
			m.start(t, part)
		}
	}
	for _, m := range []*machine{w.one, w.two} {
		m.serves(t, parts3()...)
		m.door(t)
	}
	if _, err := w.central.NBCtl(t.Context(), "ls-add", "ls",
		"--", "lsp-add", "ls", "a", "--", "lsp-set-addresses", "a", mac("1")+" 10.0.0.1",
		"--", "lsp-add", "ls", "b", "--", "lsp-set-addresses", "b", mac("2")+" 10.0.0.2",
		"--", "lsp-add", "ls", "c", "--", "lsp-set-addresses", "c", mac("3")+" 10.0.0.3"); err != nil {
		t.Fatal(err)
	}
	w.a, w.b, w.c = w.plug(t, w.one, "a", "1"), w.plug(t, w.one, "b", "2"), w.plug(t, w.two, "c", "3")
	return w
}

func mac(n string) string { return "02:00:00:00:00:0" + n }

func (w *world) plug(t *testing.T, m *machine, port, n string) *ovn.Guest {
	t.Helper()
	g, err := m.Plug(t.Context(), ovn.Interface{
		Port: port, MAC: mac(n), Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0." + n + "/24")},
	})
	if err == nil {
		err = m.Installed(t.Context(), g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// door has ovn-controller come by the socket that the agent has the bridge open, as the agent does.
func (m *machine) door(t *testing.T) {
	t.Helper()
	eventually(t, "the bridge has its door", func() error {
		c, err := vswitch.Dial(t.Context(), "unix:"+m.dir+"/db.sock", "br-int", slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Throttle(t.Context(), m.dir, 1000); err != nil {
			return err
		}
		return c.Usher(t.Context())
	})
}

// loss is what a change cost.
type loss struct {
	lost int
	// gap is the longest time in a row, by the pace of a millisecond.
	gap int64
}

func lossOf(lost []int64) loss {
	out := loss{lost: len(lost)}
	slices.Sort(lost)
	for i := 0; i < len(lost); {
		j := i
		for j+1 < len(lost) && lost[j+1] == lost[j]+1 {
			j++
		}
		out.gap = max(out.gap, int64(j-i+1))
		i = j + 1
	}
	return out
}

// during counts what is lost of a datagram each millisecond, on the node and to the other one, while something happens and settle
// afterwards.
func (w *world) during(t *testing.T, settle int64, what func()) (same, across loss) {
	t.Helper()
	w.streams++
	to := func(address string) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(address), 9000+w.streams)
	}
	near := stream.New(t, w.a.Do, w.b.Do, to("10.0.0.2"), time.Millisecond)
	far := stream.New(t, w.a.Do, w.c.Do, to("10.0.0.3"), time.Millisecond)
	if err := near.Wait(500); err != nil {
		t.Fatal(err)
	}
	what()
	if err := near.Wait(settle); err != nil {
		t.Fatal(err)
	}
	return lossOf(near.End()), lossOf(far.End())
}

// reaches waits until a reaches b and c.
func (w *world) reaches(t *testing.T) {
	t.Helper()
	eventually(t, "a reaches b and c", func() error {
		same, across := w.during(t, 100, func() {})
		if same.lost > 0 || across.lost > 0 {
			return fmt.Errorf("lost %+v and %+v", same, across)
		}
		return nil
	})
}

// TestRestarts: what pods lose while a part of their node is replaced, dies or is killed.
func TestRestarts(t *testing.T) {
	w := newWorld(t)
	w.reaches(t)
	kind, err := ovn.Datapath()
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(how syscall.Signal, which ...string) func(*testing.T) {
		return func(t *testing.T) {
			for _, part := range which {
				if err := w.one.stop(t, part, how); err != nil && how == syscall.SIGTERM {
					t.Errorf("%s ends with %v", part, err)
				}
				w.one.start(t, part)
			}
			w.one.serves(t, which...)
		}
	}
	dies := func(part string) func(*testing.T) {
		return func(t *testing.T) {
			before, err := w.one.daemon(part)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, part+" is started again", func() error {
				now, err := w.one.daemon(part)
				if err == nil && now == before {
					err = fmt.Errorf("process %d is still there", now)
				}
				return err
			})
			w.one.serves(t, part)
		}
	}
	// On the userspace datapath ovs-vswitchd's main thread takes packets from ports, and it does nothing while it has not the database's lock.
	userspace := kind == ovn.UserspaceDatapath
	for _, c := range []struct {
		name string
		do   func(*testing.T)
		// forwards: the datapath goes on by flows that it is not without, so that nothing may be lost.
		forwards bool
	}{
		{"ovn-controller is replaced", replaced(syscall.SIGTERM, chassis.PartController), true},
		{"ovsdb-server is replaced", replaced(syscall.SIGTERM, chassis.PartDatabase), !userspace},
		{"ovs-vswitchd is replaced", replaced(syscall.SIGTERM, chassis.PartSwitch), !userspace},
		{"all are replaced", replaced(syscall.SIGTERM, parts3()...), !userspace},
		{"ovn-controller dies", dies(chassis.PartController), true},
		{"ovsdb-server dies", dies(chassis.PartDatabase), !userspace},
		{"ovs-vswitchd dies", dies(chassis.PartSwitch), false},
		{"ovn-controller's container is killed", replaced(syscall.SIGKILL, chassis.PartController), true},
		{"ovsdb-server's container is killed", replaced(syscall.SIGKILL, chassis.PartDatabase), !userspace},
		{"ovs-vswitchd's container is killed", replaced(syscall.SIGKILL, chassis.PartSwitch), false},
		{"the southbound database is away, and ovn-controller is replaced", func(t *testing.T) {
			w.central.Kill("sb")
			if err := w.one.stop(t, chassis.PartController, syscall.SIGTERM); err != nil {
				t.Errorf("ovn-controller ends with %v", err)
			}
			w.one.start(t, chassis.PartController)
			eventually(t, "ovn-controller lives", func() error {
				return chassis.Check(t.Context(), chassis.Directories{Switch: w.one.dir, OVN: w.one.dir}, chassis.PartController, chassis.Lives)
			})
			<-time.After(6 * time.Second)
			if err := chassis.Check(t.Context(), chassis.Directories{Switch: w.one.dir, OVN: w.one.dir}, chassis.PartController,
				chassis.Serves); err == nil {
				t.Error("ovn-controller is ready without the southbound database")
			}
			if err := w.central.StartDatabase(t.Context(), "sb"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.central.Ask(t.Context(), "sb", "ovsdb-server/add-remote", fmt.Sprintf("ptcp:%d:127.0.0.1", w.port)); err != nil {
				t.Fatal(err)
			}
			w.one.serves(t, chassis.PartController)
		}, true},
		{"the southbound database's members change", func(t *testing.T) {
			second := w.listen(t)
			w.record(t, w.member(second))
			eventually(t, "the node hears of it", func() error {
				now, err := w.one.VSCtl(t.Context(), "--no-wait", "get", "Open_vSwitch", ".", "external_ids:ovn-remote")
				if err == nil && strings.Trim(now, `"`) != w.member(second) {
					err = fmt.Errorf("ovn-remote is %s", now)
				}
				return err
			})
			w.one.serves(t, chassis.PartController)
			w.record(t, w.member(w.port), w.member(second))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var same, across loss
			// A busy machine loses a datagram by itself, now and then: what a restart loses, it loses each time.
			for range 3 {
				same, across = w.during(t, 7000, func() { c.do(t) })
				t.Logf("lost on the node: %d of a datagram each ms, longest %d ms; to the other node: %d, longest %d ms", same.lost, same.gap,
					across.lost, across.gap)
				w.reaches(t)
				if !c.forwards || same.lost == 0 && across.lost == 0 {
					return
				}
			}
			t.Errorf("lost %+v on the node, %+v to the other", same, across)
		})
	}
	t.Run("ovn-controller was sent away", func(t *testing.T) { restoredWhenSentAway(t, w) })
	if said := w.one.words(chassis.PartSwitch); !strings.Contains(said, "flows are restored") {
		t.Error("ovs-vswitchd never had its flows back")
	}
	if wait, err := w.one.VSCtl(t.Context(), "--no-wait", "get", "Open_vSwitch", ".",
		"other_config"); err != nil || strings.Contains(wait, "flow-restore-wait") {
		t.Errorf("in the end other_config is %s, %v", wait, err)
	}
	entries, err := os.ReadDir(w.one.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "atoll-flows") || strings.HasSuffix(e.Name(), ".log") {
			t.Errorf("%s is left", e.Name())
		}
	}
}
