package flows

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/ovs/ipfix"
)

var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func nobody(ipfix.Record) string { return "" }

// record is one of a switch, by numbers.
func record(datapath uint32, n int) ipfix.Record {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], uint32(n))
	return ipfix.Record{
		Domain: 1<<keyBits | datapath, Point: 7, Source: netip.AddrFrom4(address), Destination: netip.MustParseAddr("10.0.0.5"),
		Protocol: 6, SourcePort: uint16(n), DestinationPort: uint16(n), Packets: 1, Bytes: 60,
	}
}

// Connections that differ by the source's port alone are counted together, and by minute.
func TestConnectionsAreCountedTogether(t *testing.T) {
	t.Parallel()
	s := newStore()
	for i := range 10 {
		r := record(1, 5)
		r.SourcePort = uint16(i)
		s.add(r, began.Add(time.Duration(i)*20*time.Second), nobody)
	}
	minutes := s.switches[1].minutes
	if len(minutes) != 4 || s.rows != 4 {
		t.Fatalf("%d minutes, %d rows", len(minutes), s.rows)
	}
	if c := minutes[0].rows[keyOf(record(1, 5))]; c == nil || c.connections != 3 || c.packets != 3 || c.bytes != 180 {
		t.Errorf("%+v", c)
	}
	s.expire(began.Add(kept + 2*time.Minute))
	if n := len(s.switches[1].minutes); n != 2 || s.rows != 2 {
		t.Errorf("after an hour %d minutes, %d rows", n, s.rows)
	}
	s.expire(began.Add(3 * kept))
	if len(s.switches) != 0 || s.rows != 0 {
		t.Errorf("after three hours %v", s.switches)
	}
}

// A tenant floods for an hour, each packet with a new address and port. It fills its own share and takes nothing from other tenants.
func TestStoreIsBounded(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newStore()
	quiet := 0
	for i := range 61 {
		now := began.Add(time.Duration(i) * time.Minute)
		s.expire(now)
		s.add(record(2, 5), now, nobody)
		for range 3 * maxMinuteRows {
			quiet++
			s.add(record(1, quiet), now, nobody)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if s.rows > maxRows {
		t.Errorf("%d rows", s.rows)
	}
	took := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d rows in %d bytes; %d folded, %d cut, %d lost", s.rows, took, s.folded, s.cut, s.lost)
	if took > 32<<20 {
		t.Errorf("%d bytes", took)
	}
	if s.folded == 0 || s.cut == 0 {
		t.Error("this test shows nothing")
	}
	if n := len(s.switches[2].minutes); n != 61 {
		t.Errorf("of the quiet one %d minutes are left", n)
	}
	// What has no address of its own any more still counts for its rule.
	minutes := s.switches[1].minutes
	if c := minutes[len(minutes)-1].rows[key{point: 7}]; c == nil || c.packets != 2*maxMinuteRows {
		t.Errorf("the rest: %+v", c)
	}
	// And so does a tenant with many Networks.
	for i := range 10 * maxRows {
		s.add(record(uint32(10+i%5000), i), began.Add(61*time.Minute), nobody)
	}
	if s.rows > maxRows || s.lost == 0 {
		t.Errorf("%d rows, %d lost", s.rows, s.lost)
	}
	runtime.KeepAlive(s)
}
