// Package connlimit bounds connections whose clients have not proved who they are.
//
//	a connection ──▶ Strangers.Enter ──▶ the client proves who it is ──▶ leave
//	                                └──▶ too many of its source, or in all: the oldest is closed
//
// What must stay true: a stranger holds a place only until newer ones need it. So nobody keeps another away by connections that
// say nothing.
package connlimit

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// Strangers are the connections of clients that have not proved who they are.
type Strangers struct {
	// Each bounds the connections of one source, All those of all sources. A source is an address, or 64 bits of IPv6, which one
	// machine may have for itself.
	Each, All int
	// Alone reports whether an address of IPv6 is a source by itself, whoever else is in its 64 bits. It may be nil.
	Alone func(netip.Addr) bool

	mu sync.Mutex
	// waiting are the strangers, oldest first.
	waiting list.List
	counts  map[netip.Prefix]int
}

type stranger struct {
	conn net.Conn
	from netip.Prefix
}

// Enter counts a connection until leave is called. It closes the oldest connection of the same source if there are more than
// Each, and the oldest of all if there are more than All. leave may be called more than once.
func (s *Strangers) Enter(conn net.Conn) (leave func()) {
	from := s.source(conn.RemoteAddr())
	s.mu.Lock()
	var closed []net.Conn
	if s.counts[from] >= s.Each {
		closed = append(closed, s.oldest(func(other *stranger) bool { return other.from == from }))
	}
	if s.waiting.Len() >= s.All {
		closed = append(closed, s.oldest(func(*stranger) bool { return true }))
	}
	if s.counts == nil {
		s.counts = map[netip.Prefix]int{}
	}
	s.counts[from]++
	place := s.waiting.PushBack(&stranger{conn: conn, from: from})
	s.mu.Unlock()
	for _, c := range closed {
		_ = c.Close()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(place)
	}
}

// oldest removes the oldest stranger that is meant, and returns its connection. There must be one.
func (s *Strangers) oldest(meant func(*stranger) bool) net.Conn {
	for place := s.waiting.Front(); ; place = place.Next() {
		if other := place.Value.(*stranger); meant(other) {
			s.remove(place)
			return other.conn
		}
	}
}

// remove removes a stranger; one that was removed before is left alone.
func (s *Strangers) remove(place *list.Element) {
	gone := place.Value.(*stranger)
	if gone.conn == nil {
		return
	}
	s.waiting.Remove(place)
	if s.counts[gone.from]--; s.counts[gone.from] == 0 {
		delete(s.counts, gone.from)
	}
	place.Value = &stranger{}
}

// source is what a client has by itself.
func (s *Strangers) source(client net.Addr) netip.Prefix {
	at, ok := client.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	a := at.AddrPort().Addr().Unmap().WithZone("")
	bits := min(a.BitLen(), 64)
	if s.Alone != nil && s.Alone(a) {
		bits = a.BitLen()
	}
	return netip.PrefixFrom(a, bits).Masked()
}
