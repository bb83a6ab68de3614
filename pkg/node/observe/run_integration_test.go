//go:build integration

package observe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/containernetworking/plugins/pkg/testutils"
	"github.com/vishvananda/netlink"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/test/wait"
)

// alone is a network namespace where somebody answers at port 7777 by TCP and UDP, of both families.
func alone(t *testing.T) ns.NetNS {
	t.Helper()
	n, err := testutils.NewNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = testutils.UnmountNS(n); _ = n.Close() })
	err = n.Do(func(ns.NetNS) error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(lo); err != nil {
			return err
		}
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "[::]:7777")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = listener.Close() })
		conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "[::]:7777")
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			for buffer := make([]byte, 2000); ; {
				_, from, err := conn.ReadFrom(buffer)
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err == nil {
					_, _ = conn.WriteTo([]byte("x"), from)
				}
			}
		}()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sent sends by a Spec while its mark is watched for, and is what is seen.
func sent(t *testing.T, n ns.NetNS, spec ping.Spec, w Watch) (seen []Sighting, replies []ping.Reply) {
	t.Helper()
	ctx := wait.Context(t, 5*time.Second)
	done, left := make(chan error, 1), -1
	err := n.Do(func(ns.NetNS) error {
		return w.Run(ctx, func(h Heard) error {
			switch {
			case h.Sighting != nil:
				seen = append(seen, *h.Sighting)
			case left < 0:
				left = 2
				go func() {
					done <- ping.Run(ctx, spec, func(do func() error) error { return n.Do(func(ns.NetNS) error { return do() }) },
						func(r ping.Reply) { replies = append(replies, r) })
				}()
			case len(done) > 0:
				// Two beats later all is told that was there when it ended.
				if left--; left == 0 {
					return io.EOF
				}
			}
			return nil
		})
	})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return seen, replies
}

// TestMarkedPacketsAreSeen: what package ping sends with a mark is seen with it, and so is the answer, by each protocol and
// family; a refusal is told as one; and what is sent with another mark is not seen, or without any.
func TestMarkedPacketsAreSeen(t *testing.T) {
	n := alone(t)
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	targets := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	for protocol, port := range map[model.Protocol]uint16{model.TCP: 7777, model.UDP: 7777, ping.ICMP: 0} {
		spec := ping.Spec{
			Protocol: protocol, Port: port, Targets: targets, Count: 1, Size: 56, Interval: time.Second, Timeout: time.Second, Mark: &mark,
		}
		w := Watch{Protocol: protocol, Mark: mark, Targets: 2, Time: 4 * time.Second}
		if port != 0 {
			w.Ports = []uint16{port}
		}
		seen, replies := sent(t, n, spec, w)
		told := map[[2]bool]int{}
		for _, s := range seen {
			if s.To.Addr() == targets[s.Target] && !s.Answer || s.From.Addr() == targets[s.Target] && s.Answer {
				told[[2]bool{s.Answer, s.Out}]++
			}
			if s.Refusal {
				t.Errorf("%s: a refusal is seen: %+v", protocol, s)
			}
		}
		for _, way := range [][2]bool{{false, true}, {false, false}, {true, true}, {true, false}} {
			if told[way] != 2 {
				t.Errorf("%s: answer %t, out %t is seen %d times: %+v, %+v", protocol, way[0], way[1], told[way], seen, replies)
			}
		}
		if len(replies) != 2 || !replies[0].Answered || !replies[1].Answered {
			t.Errorf("%s: %+v", protocol, replies)
		}
		if port != 0 {
			spec.Port, w.Ports = 7, []uint16{7}
			seen, _ := sent(t, n, spec, w)
			refusals := 0
			for _, s := range seen {
				if s.Refusal {
					refusals++
				}
			}
			if refusals != 4 {
				t.Errorf("%s: where nobody listens, %d refusals are seen: %+v", protocol, refusals, seen)
			}
		}
		for name, m := range map[string]*ping.Mark{"another mark": &other, "no mark": nil} {
			spec.Mark, spec.Port = m, port
			if seen, replies := sent(t, n, spec, w); len(seen) != 0 || len(replies) != 2 {
				t.Errorf("%s: with %s is seen %+v, %+v", protocol, name, seen, replies)
			}
		}
	}
}

// TestAFloodIsNotRead: who sends more than a Watch looks at, by what is like an answer, has it end, long before its time. The
// control is the same flood without a bound.
func TestAFloodIsNotRead(t *testing.T) {
	n := alone(t)
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]error{1000: errFlooded, 1 << 40: context.DeadlineExceeded} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		w := Watch{Protocol: model.UDP, Mark: mark, Targets: 1, Ports: []uint16{7778}, Time: MaxTime}
		err := n.Do(func(ns.NetNS) error {
			conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7778},
				&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7777})
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			flooding, begun := make(chan struct{}), false
			defer func() {
				if begun {
					<-flooding
				}
			}()
			err = w.run(ctx, most, func(h Heard) error {
				if h.Sighting != nil {
					t.Errorf("it is seen: %+v", h.Sighting)
				}
				if !begun {
					begun = true
					go func() {
						defer close(flooding)
						for range 5000 {
							_, _ = conn.Write([]byte("nothing that anybody has marked"))
						}
					}()
				}
				return nil
			})
			return errors.Join(err, ctx.Err())
		})
		if !errors.Is(err, want) || errors.Is(err, errFlooded) != errors.Is(want, errFlooded) {
			t.Errorf("of at most %d: %v, want %v", most, err, want)
		}
	}
}
