//go:build integration

package capture

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
	"github.com/vishvananda/netlink"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/test/wait"
)

// pair are two network namespaces that a pair of interfaces connects, each called eth0; of addresses 10.0.0.1 and 10.0.0.2.
func pair(t *testing.T) (one, two ns.NetNS) {
	t.Helper()
	var both []ns.NetNS
	for range 2 {
		n, err := testutils.NewNS()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = testutils.UnmountNS(n); _ = n.Close() })
		both = append(both, n)
	}
	one, two = both[0], both[1]
	inside(t, one, func() error {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(two.Fd()))}
		return netlink.LinkAdd(veth)
	})
	for i, n := range both {
		inside(t, n, func() error {
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			address, err := netlink.ParseAddr(fmt.Sprintf("10.0.0.%d/24", i+1))
			return errors.Join(err, netlink.AddrAdd(link, address), netlink.LinkSetUp(link), netlink.LinkSetUp(lo))
		})
	}
	return one, two
}

func inside(t *testing.T, n ns.NetNS, f func() error) {
	t.Helper()
	if err := n.Do(func(ns.NetNS) error { return f() }); err != nil {
		t.Fatal(err)
	}
}

// sends has datagrams sent from a namespace to a port of an address, each with a text.
func sends(t *testing.T, n ns.NetNS, to string, texts ...string) {
	t.Helper()
	inside(t, n, func() error {
		conn, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		for _, text := range texts {
			// An answer that nobody listens is an error of the next.
			_, _ = conn.Write([]byte(text))
		}
		return nil
	})
}

func opened(t *testing.T, n ns.NetNS, s Spec) *Socket {
	t.Helper()
	socket, err := Open(s, func(f func() error) error { return n.Do(func(ns.NetNS) error { return f() }) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

// datagrams are the texts of what a socket has, each with its direction, until there are so many.
func datagrams(t *testing.T, s *Socket, count int) (out []string) {
	t.Helper()
	wait.Eventually(t, wait.Patience, "datagrams", func(context.Context) error {
		records, err := s.Batch(time.Now().Add(100 * time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			out = append(out, text(r.PodCapturePacket))
		}
		if len(out) < count {
			return fmt.Errorf("%d of %d: %q", len(out), count, out)
		}
		return nil
	})
	return out
}

func text(r api.PodCapturePacket) string {
	direction := "in "
	if r.Out {
		direction = "out "
	}
	return direction + string(r.Data[min(42, len(r.Data)):])
}

func udp(port uint16, direction Direction) Spec {
	return Spec{Interface: "eth0", Direction: direction, SnapLength: 1500, Filter: Filter{Protocols: []string{"udp"}, Ports: []uint16{port}}}
}

// TestSocketsTakeWhatIsAskedFor: by the filter, the direction and the interface, with times and lengths; and what no interface
// is, is an error.
func TestSocketsTakeWhatIsAskedFor(t *testing.T) {
	one, two := pair(t)
	both, in, out := opened(t, one, udp(7000, Both)), opened(t, one, udp(7000, In)), opened(t, one, udp(7000, Out))
	short := udp(7000, In)
	short.SnapLength, short.Filter.Prefixes = MinSnapLength, []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")}
	cut := opened(t, one, short)
	elsewhere := udp(7000, Both)
	elsewhere.Filter.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.3/32")}
	none := opened(t, one, elsewhere)
	began := time.Now()
	sends(t, one, "10.0.0.2:7000", "first")
	sends(t, one, "10.0.0.2:7001", "another port")
	sends(t, two, "10.0.0.1:7000", "second")
	long := strings.Repeat("x", 500)
	sends(t, two, "10.0.0.1:7000", long)
	for name, c := range map[string]struct {
		socket *Socket
		want   string
	}{"both": {both, "out first in second in " + long}, "in": {in, "in second in " + long}, "out": {out, "out first"}} {
		if got := strings.Join(datagrams(t, c.socket, strings.Count(c.want, "in ")+strings.Count(c.want, "out ")), " "); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	records, err := cut.Batch(time.Now().Add(5 * time.Second))
	if err != nil || len(records) != 2 || records[1].Length != 14+20+8+500 || len(records[1].Data) != MinSnapLength {
		t.Errorf("%v: of a long packet is kept %+v", err, records)
	} else if seen := time.Unix(0, records[1].Time); seen.Before(began) || seen.After(time.Now()) {
		t.Errorf("it was there at %s", seen)
	}
	if stats, err := none.Stats(); err != nil || stats.Received != 0 {
		t.Errorf("%v: of a filter that nothing fits, %+v", err, stats)
	}
	loopback := udp(7000, Both)
	loopback.Interface = "lo"
	lo := opened(t, one, loopback)
	sends(t, one, "127.0.0.1:7000", "to itself")
	sends(t, one, "127.0.0.1:7000", "again")
	if got := strings.Join(datagrams(t, lo, 2), ", "); got != "in to itself, in again" {
		t.Errorf("of loopback each packet is taken once: %q", got)
	}
	missing := udp(1, Both)
	missing.Interface = "eth1"
	if _, err := Open(missing, func(f func() error) error { return one.Do(func(ns.NetNS) error { return f() }) }); !errors.Is(err,
		ErrInterface) {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// TestPartsLoseNothing: what arrives between two parts is in the second; what there is no room for is counted; and nobody else gets a part.
func TestPartsLoseNothing(t *testing.T) {
	one, two := pair(t)
	k := &Keeper{}
	spec, owner := udp(7000, Both), Owner{User: "jo", PodUID: "uid-1", ID: "0123456789abcdef"}
	var got []string
	part := func(owner Owner, spec Spec, p Part, each func(Update) error) (Outcome, error) {
		p.ID = owner.ID
		return k.Run(t.Context(), owner, spec, p, Means{
			Open:  func() (*Socket, error) { return opened(t, one, spec), nil },
			Lives: func() error { return nil },
			Begun: func() {},
			Each:  each,
		})
	}
	hear := func(u Update) error {
		for _, r := range u.Packets {
			got = append(got, text(r))
		}
		return nil
	}
	first, err := part(owner, spec, Part{Time: time.Millisecond}, hear)
	if err != nil || !first.More || first.Told != 0 {
		t.Fatalf("%v: %+v", err, first)
	}
	sends(t, two, "10.0.0.1:7000", "between")
	stranger, other := owner, spec
	stranger.User, other.SnapLength = "ann", 1000
	for name, c := range map[string]struct {
		owner Owner
		spec  Spec
		part  Part
	}{
		"of another user": {stranger, spec, Part{Number: 1, Time: time.Second}},
		"of another spec": {owner, other, Part{Number: 1, Time: time.Second}},
		"out of turn":     {owner, spec, Part{Number: 2, Time: time.Second}},
	} {
		if _, err := part(c.owner, c.spec, c.part, hear); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	second, err := part(owner, spec, Part{Number: 1, Time: 50 * time.Millisecond}, hear)
	if err != nil || strings.Join(got, ", ") != "in between" || second.Told != 1 || second.Counts != (api.PodCaptureCounts{Received: 1}) {
		t.Errorf("%v: %q, %+v", err, got, second)
	}
	// More than there is room for, while nobody reads.
	const flood = 40000
	inside(t, two, func() error {
		conn, err := net.Dial("udp", "10.0.0.1:7000")
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		text := make([]byte, 1000)
		for range flood {
			_, _ = conn.Write(text)
		}
		return nil
	})
	got = nil
	last, err := part(owner, spec, Part{Number: 2, Time: 5 * time.Second, Last: true}, hear)
	if err != nil || last.More || last.Counts.Dropped == 0 || last.Counts.Received < flood/2 ||
		uint64(len(got)) != last.Counts.Received-last.Counts.Dropped-1 || last.Told != len(got)+1 {
		t.Errorf("%v: %d arrived, %+v", err, len(got), last)
	}
	if _, err := part(owner, spec, Part{Number: 3, Time: time.Second}, hear); !errors.Is(err, ErrUnknown) {
		t.Errorf("after the last: %v", err)
	}
}

// TestCapturesAreBounded: in packets, in bytes, in number, by the pod's life and by whoever reads.
func TestCapturesAreBounded(t *testing.T) {
	one, two := pair(t)
	k := &Keeper{}
	lives := error(nil)
	run := func(ctx context.Context, id string, spec Spec, p Part, each func(Update) error) (Outcome, error) {
		p.ID = "0123456789abcdef-" + id
		return k.Run(ctx, Owner{"jo", "uid-1", p.ID}, spec, p, Means{
			Open:  func() (*Socket, error) { return opened(t, one, spec), nil },
			Lives: func() error { return lives },
			Begun: func() {
				if p.Number == 0 {
					sends(t, two, "10.0.0.1:7000", "1", "2", "3", "4", "5")
				}
			},
			Each: each,
		})
	}
	told := 0
	count := func(u Update) error { told += len(u.Packets); return nil }
	counted, sized := udp(7000, In), udp(7000, In)
	counted.Count, sized.Bytes = 3, 43*2-1
	if out, err := run(t.Context(), "count", counted, Part{Time: 5 * time.Second}, count); err != nil || told != 3 || out.More ||
		out.Why != "3 packets were captured" {
		t.Errorf("%v: %d, %+v", err, told, out)
	}
	told = 0
	if out, err := run(t.Context(), "bytes", sized, Part{Time: 5 * time.Second}, count); err != nil || told != 2 || out.More {
		t.Errorf("%v: %d, %+v", err, told, out)
	}
	gone := errors.New("the reader has gone")
	if _, err := run(t.Context(), "reader", udp(7000, In), Part{Time: 5 * time.Second}, func(Update) error { return gone }); !errors.Is(err,
		gone) {
		t.Errorf("without a reader: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := run(ctx, "cancelled", udp(7000, In), Part{Time: 5 * time.Second},
		func(Update) error { cancel(); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("when its question ends: %v", err)
	}
	lives = errors.New("the pod has gone")
	if out, err := run(t.Context(), "pod", udp(7000, In), Part{Time: 5 * time.Second}, count); err != nil || out.Why != "the pod has gone" ||
		out.More {
		t.Errorf("without its pod: %v, %+v", err, out)
	}
	lives = nil
	for i := range maxHeld {
		if out, err := run(t.Context(), fmt.Sprint(i), udp(7000, In), Part{Time: time.Millisecond}, count); err != nil || !out.More {
			t.Fatalf("%d: %v, %+v", i, err, out)
		}
	}
	_, err := run(t.Context(), "too-many", udp(7000, In), Part{Time: time.Millisecond}, count)
	if _, ok := errors.AsType[*BusyError](err); !ok {
		t.Errorf("one too many: %v", err)
	}
	// A part of each that is there may be asked for, and the interface goes meanwhile.
	inside(t, two, func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
	out, err := run(t.Context(), "0", udp(7000, In), Part{Number: 1, Time: 5 * time.Second}, count)
	if err != nil || out.More || !strings.Contains(out.Why, "is gone") {
		t.Errorf("without its interface: %v, %+v", err, out)
	}
}
