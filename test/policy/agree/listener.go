package agree

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/process/wake"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/policy/frame"
)

// listener is a guest that sends frames and hears all that come.
type listener struct {
	guest  *ovn.Guest
	socket *os.File
	heard  *heard

	mu    sync.Mutex
	point place
}

// listen opens a packet socket in a guest. (packet(7).)
func listen(g *ovn.Guest, to *heard) (*listener, error) {
	l := &listener{guest: g, heard: to}
	err := g.Do(func() error {
		link, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		l.socket = os.NewFile(uintptr(fd), "packets")
		// In the order of the network.
		all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	})
	if err != nil {
		return nil, fmt.Errorf("listen to a guest: %w", err)
	}
	go l.read()
	return l, nil
}

// read ends when the socket is closed.
func (l *listener) read() {
	b := make([]byte, 2048)
	for {
		n, err := l.socket.Read(b)
		if err != nil {
			return
		}
		if frame.IsReply(b[:n]) {
			l.heard.reply(l)
		}
		if p, ok := frame.Read(b[:n]); ok {
			l.mu.Lock()
			at := l.point
			l.mu.Unlock()
			l.heard.add(at, p)
		}
	}
}

func (l *listener) send(b []byte) error {
	if _, err := l.socket.Write(b); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// move says what the guest is from now on.
func (l *listener) move(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.point = at
}

func (l *listener) close() { _ = l.socket.Close() }

// sighting is a packet where it came out.
type sighting struct {
	place
	frame.Packet
}

func (s sighting) String() string {
	return fmt.Sprintf("%s %s -> %s at %s", s.Protocol, s.From, s.To, s.place)
}

// mark tells the packets of a connection from others: the port of who asks, and the direction.
type mark struct {
	client uint16
	answer bool
}

func markOf(p frame.Packet) mark {
	if p.Answer {
		return mark{p.To.Port(), true}
	}
	return mark{p.From.Port(), false}
}

// heard is what all listeners heard.
type heard struct {
	news wake.Signal

	mu sync.Mutex
	// seen holds each sighting once.
	seen map[mark][]sighting
	// replies counts what answered to requests of ARP.
	replies map[*listener]int
}

func newHeard() *heard {
	return &heard{news: wake.NewSignal(), seen: map[mark][]sighting{}, replies: map[*listener]int{}}
}

func (h *heard) add(at place, p frame.Packet) {
	h.mu.Lock()
	if s := (sighting{at, p}); !slices.Contains(h.seen[markOf(p)], s) {
		h.seen[markOf(p)] = append(h.seen[markOf(p)], s)
	}
	h.mu.Unlock()
	h.news.Send()
}

func (h *heard) reply(l *listener) {
	h.mu.Lock()
	h.replies[l]++
	h.mu.Unlock()
	h.news.Send()
}

// of are the sightings of a packet.
func (h *heard) of(m mark) []sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen[m])
}

func (h *heard) repliesTo(l *listener) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.replies[l]
}

// forget empties the memory, for the next case.
func (h *heard) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.seen)
}

// Patience with packets: on a busy machine, or when a node has still to find its neighbour, one needs a second try.
const (
	patience  = 5 * time.Second
	hurry     = 500 * time.Millisecond
	sendAgain = 300 * time.Millisecond
)

// await sends some things and waits until all are there, with further tries for those that are not. It returns those that
// did not come about.
func await[T any](ctx context.Context, l *Lab, missing []T, send func(T) error, there func(T) bool) ([]T, error) {
	end, again := time.NewTimer(l.patience), time.NewTicker(sendAgain)
	defer end.Stop()
	defer again.Stop()
	try := func() error {
		for _, one := range missing {
			if err := send(one); err != nil {
				return err
			}
		}
		return nil
	}
	if err := try(); err != nil {
		return nil, err
	}
	for {
		missing = slices.DeleteFunc(slices.Clone(missing), there)
		if len(missing) == 0 {
			return nil, nil
		}
		select {
		case <-l.heard.news:
		case <-again.C:
			if err := try(); err != nil {
				return nil, err
			}
		case <-end.C:
			return missing, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
