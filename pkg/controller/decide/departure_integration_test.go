//go:build integration

package decide_test

import (
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// Clients that send by UDP without a pause, each from one port, move to another endpoint soon after theirs has left: while
// that still answers, when it is going, or when it was found not to be ready. Of what they send next to nothing is lost.
func TestBusyClientsLeaveEndpointsWithPackets(t *testing.T) {
	const clients, rounds = 4, 4
	s := newStage(t)
	client := s.pod("r", "client")
	for _, name := range []string{"one", "two"} {
		s.serve(s.pod("r", name), 8080, name)
	}
	s.setService(dualService("r", "web"))
	for _, test := range []struct {
		what  string
		leave func(*model.Endpoint)
	}{
		{"going", func(e *model.Endpoint) { e.Ready = false }},
		{"not ready", func(e *model.Endpoint) { e.Ready, e.Serving = false, false }},
	} {
		t.Run(test.what, func(t *testing.T) {
			s.t = t
			from, to := "one", "two"
			s.behind("r", "web", false, from)
			s.leads("red", "r/web", "udp", vip4, s.at(from))
			busy := startBusy(t, client, vip4, clients)
			for range rounds {
				busy.led(from)
				s.behind("r", "web", false, from, to)
				left := *s.slices[model.SliceKey{Namespace: "r", Name: "web-4"}]
				left.Endpoints = slices.Clone(left.Endpoints)
				test.leave(&left.Endpoints[0])
				s.setSlice(left)
				s.leads("red", "r/web", "udp", vip4, s.at(to))
				busy.led(to)
				from, to = to, from
			}
			sent, lost := busy.stop()
			t.Logf("%d of %d packets had no answer", lost, sent)
			if lost > clients*rounds {
				t.Errorf("%d of %d packets had no answer, of %d clients that moved %d times", lost, sent, clients, rounds)
			}
		})
	}
}

// at is where a pod of red serves.
func (s *stage) at(name string) netip.AddrPort {
	s.t.Helper()
	return netip.AddrPortFrom(s.own("r", name, false), 8080)
}

// A new client is not led to an endpoint that is going, and the old ones are told to be forgotten.
func TestNewClientsOfEndpointsThatAreGoingWithPackets(t *testing.T) {
	s := newStage(t)
	client := s.pod("r", "client")
	for _, name := range []string{"one", "two"} {
		s.serve(s.pod("r", name), 8080, name)
	}
	s.setService(dualService("r", "web"))
	s.behind("r", "web", false, "one", "two")
	one, two := s.at("one"), s.at("two")
	s.leads("red", "r/web", "udp", vip4, one, two)
	going := *s.slices[model.SliceKey{Namespace: "r", Name: "web-4"}]
	going.Endpoints = slices.Clone(going.Endpoints)
	going.Endpoints[0].Ready = false
	s.setSlice(going)
	s.leads("red", "r/web", "udp", vip4, two)
	s.isLeft(vip4 + "=" + one.String())
	for range 24 {
		if got := asks(t, client, "udp", vip4); !strings.HasPrefix(got, "two") {
			t.Fatalf("a new client: %q", got)
		}
	}
	s.behind("r", "web", false, "two")
	s.isLeft("")
	if got := asks(t, client, "udp", vip4); !strings.HasPrefix(got, "two") {
		t.Errorf("when it has gone: %q", got)
	}
}

// isLeft waits until the database says of the Service web of red that these endpoints have been left.
func (s *stage) isLeft(want string) {
	s.t.Helper()
	eventually(s.t, want, func() string {
		return nbctl(s.t, s.central, "--bare", "--columns=vips", "find", "Load_Balancer", `name="red/r/web:udp:left"`)
	})
}

// busy are clients that ask without a pause, each from one port.
type busy struct {
	t       *testing.T
	running sync.WaitGroup
	ended   chan struct{}

	mu sync.Mutex
	// answers say who answered each client last.
	answers    map[int]string
	sent, lost int
}

// waits is how long a busy client waits for an answer.
const waits = 200 * time.Millisecond

func startBusy(t *testing.T, g *ovn.Guest, address string, clients int) *busy {
	t.Helper()
	b := &busy{t: t, ended: make(chan struct{}), answers: map[int]string{}}
	for i := range clients {
		conn, err := dial(t, g, "udp", address)
		if err != nil {
			t.Fatal(err)
		}
		b.running.Go(func() {
			for {
				select {
				case <-b.ended:
					return
				default:
				}
				b.ask(i, conn)
			}
		})
	}
	t.Cleanup(b.end)
	return b
}

func (b *busy) ask(client int, conn talk) {
	packet := make([]byte, 100)
	defer wait.Limit(conn, waits)()
	_, err := io.WriteString(conn, "who?\n")
	n := 0
	if err == nil {
		n, err = conn.Read(packet)
	}
	who, _, _ := strings.Cut(string(packet[:n]), " ")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent++
	if err != nil {
		b.lost++
		return
	}
	b.answers[client] = who
}

// led waits until one server is the last that answered each client.
func (b *busy) led(by string) {
	b.t.Helper()
	want := fmt.Sprintf("all by %s", by)
	eventually(b.t, want, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, who := range b.answers {
			if who != by {
				return fmt.Sprint(maps.Clone(b.answers))
			}
		}
		return map[bool]string{true: want, false: "nobody has been answered"}[len(b.answers) > 0]
	})
}

// end stops the clients; stop also says how much they sent, and how much of that nobody answered.
func (b *busy) end() {
	select {
	case <-b.ended:
	default:
		close(b.ended)
	}
	b.running.Wait()
}

func (b *busy) stop() (sent, lost int) {
	b.end()
	return b.sent, b.lost
}
