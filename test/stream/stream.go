// Package stream sends datagrams at a pace from one place to another, and says which arrived: to see what a change does to what passes.
package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Place runs a function in a network namespace.
type Place func(func() error) error

// Stream sends numbered datagrams until it is ended.
type Stream struct {
	sent, newest      atomic.Int64
	seen              sync.Map
	arriving, leaving *net.UDPConn
	end               chan struct{}
	ended             sync.WaitGroup
	pace              time.Duration
}

// New begins to send from one place to an address of another, where what comes to its port is taken: a datagram each time that
// pace has passed. It ends with the test at the latest.
func New(t testing.TB, from, to Place, target netip.AddrPort, pace time.Duration) *Stream {
	t.Helper()
	s := &Stream{end: make(chan struct{}), pace: pace}
	err := to(func() (err error) {
		s.arriving, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(target.Port())})
		return err
	})
	if err == nil {
		err = from(func() (err error) {
			s.leaving, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(target))
			return err
		})
	}
	if err == nil {
		err = s.arriving.SetReadBuffer(4 << 20)
	}
	if err != nil {
		t.Fatalf("send datagrams to %s: %v", target, err)
	}
	go s.take() // ends with the socket
	s.ended.Go(s.send)
	t.Cleanup(func() { s.stop(); _ = s.arriving.Close() })
	return s
}

func (s *Stream) stop() {
	select {
	case <-s.end:
	default:
		close(s.end)
	}
	s.ended.Wait()
	_ = s.leaving.Close()
}

func (s *Stream) take() {
	packet := make([]byte, 8)
	for {
		n, _, err := s.arriving.ReadFromUDPAddrPort(packet)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil && n == len(packet) {
			number := int64(binary.BigEndian.Uint64(packet))
			s.seen.Store(number, true)
			s.newest.Store(max(number, s.newest.Load()))
		}
	}
}

func (s *Stream) send() {
	ticks := time.NewTicker(s.pace)
	defer ticks.Stop()
	for {
		select {
		case <-s.end:
			return
		case <-ticks.C:
			// That an earlier one was refused is no reason to stop: this one was not sent then.
			if _, err := s.leaving.Write(binary.BigEndian.AppendUint64(nil, uint64(s.sent.Load()))); err == nil {
				s.sent.Add(1)
			}
		}
	}
}

// Sent is how many were sent so far. It is the number of the next one.
func (s *Stream) Sent() int64 { return s.sent.Load() }

// Wait waits until that many more are sent.
func (s *Stream) Wait(more int64) error {
	until := s.Sent() + more
	if !s.until(func() bool { return s.Sent() >= until }) {
		return fmt.Errorf("send %d datagrams: only %d were in a minute", more, more-until+s.Sent())
	}
	return nil
}

// Drain waits until one has arrived that was sent after it was called: what was sent before, on the same way, has arrived by
// then, or is lost.
func (s *Stream) Drain() error {
	from := s.Sent() + 1
	if !s.until(func() bool { return s.newest.Load() >= from }) {
		return errors.New("drain a stream: none arrived in a minute")
	}
	return nil
}

// until waits for a minute at most until a condition holds, and reports whether it does.
func (s *Stream) until(holds func() bool) bool {
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	ticks := time.NewTicker(s.pace)
	defer ticks.Stop()
	for !holds() {
		select {
		case <-ticks.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// End ends it, once what is on its way had time to arrive, and gives the numbers of those that did not.
func (s *Stream) End() (lost []int64) {
	s.stop()
	const patience = time.Second
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for {
		if lost = s.missing(); len(lost) == 0 {
			return nil
		}
		select {
		case <-ticks.C:
		case <-deadline.C:
			return lost
		}
	}
}

func (s *Stream) missing() (lost []int64) {
	for i := range s.Sent() {
		if _, seen := s.seen.Load(i); !seen {
			lost = append(lost, i)
		}
	}
	return lost
}
