package dns

import (
	"sync"
	"time"

	"github.com/miekg/dns"
)

// How long replies of the node's resolvers are kept at most, in seconds.
const (
	maxKept       = 300
	maxKeptDenial = 30
	// keptFailure is how long a failure is not asked again (RFC 9520 wants one second at least).
	keptFailure = 1
)

// cacheKey is a question to the node's resolvers.
type cacheKey struct {
	name string
	kind uint16
	// signed: the asker wants signatures (DO). unchecked: the asker validates them itself (CD).
	signed, unchecked bool
}

// cache keeps replies of the node's resolvers for one Network: what one Network has asked is not to be learnt in
// another. It has two generations of at most half of its bytes; when the young one is full the old one is forgotten.
type cache struct {
	mu         sync.Mutex
	half, used int
	young, old map[cacheKey]kept
}

type kept struct {
	packed     []byte
	since, end time.Time
}

// keptOverhead is about what an entry costs beside its bytes.
const keptOverhead = 200

func newCache(size int) *cache { return &cache{half: size / 2} }

// get is the reply to a question, nil if there is none; its records' times to live have gone on.
func (c *cache) get(k cacheKey, now time.Time) *dns.Msg {
	c.mu.Lock()
	e, there := c.young[k]
	if !there {
		if e, there = c.old[k]; there {
			c.keep(k, e)
		}
	}
	c.mu.Unlock()
	if !there || !now.Before(e.end) {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(e.packed); err != nil {
		return nil
	}
	age := uint32(now.Sub(e.since) / time.Second)
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				h.Ttl -= min(h.Ttl, age)
			}
		}
	}
	return m
}

// put keeps a reply for as long as it says.
func (c *cache) put(k cacheKey, m *dns.Msg, now time.Time) {
	seconds := keptFor(m)
	if seconds == 0 {
		return
	}
	packed, err := m.Pack()
	if err != nil || len(packed)+keptOverhead > c.half {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(k, kept{packed: packed, since: now, end: now.Add(time.Duration(seconds) * time.Second)})
}

// keep adds an entry to the young generation. The caller holds mu.
func (c *cache) keep(k cacheKey, e kept) {
	cost := len(e.packed) + len(k.name) + keptOverhead
	if c.young == nil || c.used+cost > c.half {
		c.young, c.old, c.used = map[cacheKey]kept{}, c.young, 0
	}
	c.young[k] = e
	c.used += cost
}

// keptFor is for how many seconds a reply holds: the shortest of its records, for a denial what its SOA says (RFC 2308).
func keptFor(m *dns.Msg) uint32 {
	switch {
	case m.Truncated:
		return 0
	case m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError:
		return keptFailure
	case m.Rcode == dns.RcodeNameError || len(m.Answer) == 0:
		for _, rr := range m.Ns {
			if soa, is := rr.(*dns.SOA); is {
				return min(soa.Hdr.Ttl, soa.Minttl, maxKeptDenial)
			}
		}
		return 0
	}
	seconds := uint32(maxKept)
	for _, rr := range m.Answer {
		seconds = min(seconds, rr.Header().Ttl)
	}
	return seconds
}
