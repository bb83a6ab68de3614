package flows

import (
	"container/heap"
	"net/netip"
	"time"

	"github.com/atoll-net/atoll/pkg/ovs/ipfix"
)

const (
	// kept is how long flows are kept.
	kept = time.Hour
	// maxRows bounds what all of them take: a row is some 200 bytes (TestStoreIsBounded).
	maxRows = 1 << 16
	// maxMinuteRows bounds what one switch of a Network takes in a minute, so that one minute of a flood is not the whole of it.
	maxMinuteRows = 1 << 12
	// keyBits are those of an observation domain that are the datapath's key; above them is the application that samples. (ovn-nb(5), Sample.)
	keyBits = 24
)

// key tells apart what is counted apart. The source's port is not in it.
type key struct {
	// point is the observation point: the ACL's.
	point               uint32
	source, destination netip.Addr
	protocol            uint8
	port                uint16
}

// rest is the key of all of a rule whose own keys are too many.
func (k key) rest() key { return key{point: k.point} }

// count is what a key has in a minute.
type count struct {
	connections, packets, bytes uint64
	last                        time.Time
	// pod is the judged pod, as it was known when the row came.
	pod string
}

func (c *count) add(r ipfix.Record, now time.Time) {
	c.connections++
	c.packets += r.Packets
	c.bytes += r.Bytes
	c.last = now
}

// minute is one minute of one switch.
type minute struct {
	begins time.Time
	rows   map[key]*count
}

// history is what is kept of one switch.
type history struct {
	datapath uint32
	// minutes are those in which there was something, the oldest first.
	minutes []minute
	rows    int
}

// newest are the rows of the minute that begins then; nil when it has none yet.
func (h *history) newest(begins time.Time) map[key]*count {
	if h == nil || len(h.minutes) == 0 || h.minutes[len(h.minutes)-1].begins.Before(begins) {
		return nil
	}
	return h.minutes[len(h.minutes)-1].rows
}

// store keeps the flows of the last hour by the datapath key of a switch. Each Network has its own switch. The store is bounded:
// when it is full, the switches with the most rows lose their oldest minutes. So a tenant that floods loses its own rows.
type store struct {
	switches map[uint32]*history
	rows     int
	// full is the minute in which there was no room, since nobody has an older one.
	full time.Time
	// folded counts records that are kept without addresses, cut the rows that went before their time, and lost the records that are not kept.
	folded, cut, lost uint64
}

func newStore() *store { return &store{switches: map[uint32]*history{}} }

// switchOf is the key of a record's datapath.
func switchOf(domain uint32) uint32 { return domain & (1<<keyBits - 1) }

func keyOf(r ipfix.Record) key {
	return key{r.Point, r.Source, r.Destination, r.Protocol, r.DestinationPort}
}

// add counts a record. podOf is asked once for each row.
func (s *store) add(r ipfix.Record, now time.Time, podOf func(ipfix.Record) string) {
	k, begins := keyOf(r), now.Truncate(time.Minute)
	rows := s.switches[switchOf(r.Domain)].newest(begins)
	c := rows[k]
	if c == nil && len(rows) >= maxMinuteRows {
		s.folded++
		k = k.rest()
		c = rows[k]
	}
	if c == nil {
		if len(rows) >= 2*maxMinuteRows || !s.makeRoom(begins) {
			s.lost++
			return
		}
		c = s.row(switchOf(r.Domain), begins, k)
		if k.source.IsValid() {
			c.pod = podOf(r)
		}
	}
	c.add(r, now)
}

// row makes a row that is not there.
func (s *store) row(datapath uint32, begins time.Time, k key) *count {
	h := s.switches[datapath]
	if h == nil {
		h = &history{datapath: datapath}
		s.switches[datapath] = h
	}
	if h.newest(begins) == nil {
		h.minutes = append(h.minutes, minute{begins, map[key]*count{}})
	}
	c := &count{}
	h.newest(begins)[k] = c
	h.rows++
	s.rows++
	return c
}

// largest are histories, that with most rows first.
type largest []*history

// Len implements heap.Interface, as all that follow.
func (l largest) Len() int           { return len(l) }
func (l largest) Less(i, j int) bool { return l[i].rows > l[j].rows }
func (l largest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }

// Push is not used.
func (l *largest) Push(any) {}

// Pop takes the last one.
func (l *largest) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// makeRoom drops the oldest minutes when there is no room, always from the switch that has most rows, and several at once, so
// that this is rare. It returns false when nothing is older than the current minute.
func (s *store) makeRoom(begins time.Time) bool {
	if s.rows < maxRows {
		return true
	}
	if s.full.Equal(begins) {
		return false
	}
	var all largest
	for _, h := range s.switches {
		if h.minutes[0].begins.Before(begins) {
			all = append(all, h)
		}
	}
	heap.Init(&all)
	for len(all) > 0 && s.rows > maxRows-maxRows/64 {
		h := all[0]
		s.cut += uint64(len(h.minutes[0].rows))
		s.dropOldest(h)
		if len(h.minutes) == 0 || !h.minutes[0].begins.Before(begins) {
			heap.Pop(&all)
		} else {
			heap.Fix(&all, 0)
		}
	}
	if s.rows >= maxRows {
		s.full = begins
		return false
	}
	return true
}

func (s *store) dropOldest(h *history) {
	s.rows -= len(h.minutes[0].rows)
	h.rows -= len(h.minutes[0].rows)
	h.minutes[0] = minute{}
	if h.minutes = h.minutes[1:]; len(h.minutes) == 0 {
		delete(s.switches, h.datapath)
	}
}

// expire lets go of what is older than the hour.
func (s *store) expire(now time.Time) {
	oldest := now.Add(-kept).Truncate(time.Minute)
	for _, h := range s.switches {
		for len(h.minutes) > 0 && h.minutes[0].begins.Before(oldest) {
			s.dropOldest(h)
		}
	}
}
