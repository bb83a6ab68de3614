package observe

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/atoll-net/atoll/pkg/node/capture"
)

// beat is how often it is told that all was told that there was so far.
const beat = 50 * time.Millisecond

// errFlooded is the error of a Watch that has looked at as many packets as one may.
var errFlooded = errors.New("too many packets look like the marked one or its answer: no more are looked at")

// Heard are what Run tells.
type Heard struct {
	// Sighting is nil with a beat: all that the kernel had before it has been told.
	Sighting *Sighting
	// Dropped is how many packets the kernel had no room for so far.
	Dropped uint64
}

// maxLooked is how many packets one Watch looks at. Pods can send any number that look like answers, or have a mark that they
// were sent: nobody else's packets are to wait for an agent that reads those.
const maxLooked = 500_000

// Run watches at all interfaces of this network namespace until the Watch's time is over, ctx ends, or each fails, whose error it
// returns. The first thing that it tells is a beat: packets are seen from then on. It is an error, too, when more packets look
// like its own than are looked at.
func (w Watch) Run(ctx context.Context, each func(Heard) error) error {
	return w.run(ctx, maxLooked, each)
}

func (w Watch) run(ctx context.Context, most int, each func(Heard) error) error {
	if err := w.Check(); err != nil {
		return err
	}
	_, filter, err := w.program()
	if err != nil {
		return err
	}
	socket, err := capture.OpenAll(filter)
	if err != nil {
		return fmt.Errorf("watch for packets: %w", err)
	}
	defer func() { _ = socket.Close() }()
	defer context.AfterFunc(ctx, socket.Interrupt)()
	seen := newSeen(w)
	if err := each(Heard{}); err != nil {
		return err
	}
	for end, next := time.Now().Add(w.Time), time.Now().Add(beat); ; {
		records, err := socket.Batch(next)
		if err != nil {
			return fmt.Errorf("watch for packets: %w", err)
		}
		if most -= len(records); most < 0 {
			return errFlooded
		}
		for _, r := range records {
			if s, first := seen.see(r); first {
				if err := each(Heard{Sighting: &s}); err != nil {
					return err
				}
			}
		}
		now := time.Now()
		if ctx.Err() != nil || now.After(end) {
			return nil
		}
		if now.Before(next) || len(records) >= capture.MaxBatch {
			continue
		}
		next = now.Add(beat)
		stats, err := socket.Stats()
		if err != nil {
			return fmt.Errorf("watch for packets: %w", err)
		}
		if err := each(Heard{Dropped: stats.Dropped}); err != nil {
			return err
		}
	}
}

// place is where a packet was, with all that tells it from the same packet elsewhere.
type place struct {
	link           int
	out, tunnelled bool
}

// spoken are two who talk at a place.
type spoken struct {
	place
	from, to netip.AddrPort
}

// seen are what was seen so far.
type seen struct {
	Watch
	first map[first]bool
	// asked are who has sent marked datagrams to whom, and to which target.
	asked map[spoken]int
}

type first struct {
	place
	target int
	answer bool
}

func newSeen(w Watch) *seen { return &seen{w, map[first]bool{}, map[spoken]int{}} }

// see reports what a record is, and whether that is told: the first time, at a place, of what is looked for.
func (s *seen) see(r capture.Record) (Sighting, bool) {
	p, unsure, ok := s.read(r.Data)
	if !ok {
		return Sighting{}, false
	}
	at := place{r.Link, r.Out, p.Tunnel != Tunnel{}}
	if unsure {
		back := at
		back.out = !at.out
		target, asked := s.asked[spoken{back, p.To, p.From}]
		if !asked {
			return Sighting{}, false
		}
		p.Target = target
	} else if !p.Answer && len(s.asked) < MaxSightings {
		s.asked[spoken{at, p.From, p.To}] = p.Target
	}
	key := first{at, p.Target, p.Answer}
	if s.first[key] || len(s.first) >= MaxSightings {
		return Sighting{}, false
	}
	s.first[key] = true
	return Sighting{Packet: p, Link: r.Link, Out: r.Out, Time: r.Time}, true
}
