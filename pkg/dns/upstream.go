package dns

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Resolvers are the node's own, to which names outside of the cluster are sent.
type Resolvers struct {
	path   string
	refuse []netip.Addr

	mu      sync.Mutex
	list    []netip.AddrPort
	changed time.Time
	looked  time.Time
}

// lookEvery is how often the file is looked at, so that a node whose resolvers change needs no restart.
const lookEvery = 5 * time.Second

// maxResolvers is how many are used, as by the C library (resolv.conf(5)).
const maxResolvers = 3

// NewResolvers reads the file at path, in the form of resolv.conf(5), when it is needed and has changed. Resolvers at
// one of the addresses refuse are left out: they are our own, and a question to them would go round in circles.
func NewResolvers(path string, refuse []netip.Addr) *Resolvers {
	return &Resolvers{path: path, refuse: refuse}
}

// FixedResolvers always are the given ones.
func FixedResolvers(list []netip.AddrPort) *Resolvers { return &Resolvers{list: list} }

// Current are the resolvers as of now, in the order in which they are asked.
func (r *Resolvers) Current(now time.Time) ([]netip.AddrPort, error) {
	if r.path == "" {
		return r.list, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.looked) < lookEvery {
		return r.list, nil
	}
	info, err := os.Stat(r.path)
	if err != nil {
		return r.list, fmt.Errorf("find the node's resolvers: %w", err)
	}
	r.looked = now
	if info.ModTime().Equal(r.changed) {
		return r.list, nil
	}
	read, err := dns.ClientConfigFromFile(r.path)
	if err != nil {
		return r.list, fmt.Errorf("read the node's resolvers: %w", err)
	}
	port, err := strconv.ParseUint(read.Port, 10, 16)
	if err != nil {
		return r.list, fmt.Errorf("read the node's resolvers: port %q", read.Port)
	}
	r.list, r.changed = nil, info.ModTime()
	for _, server := range read.Servers {
		a, err := netip.ParseAddr(server)
		if err != nil || slices.Contains(r.refuse, a.Unmap()) || len(r.list) == maxResolvers {
			continue
		}
		r.list = append(r.list, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return r.list, nil
}
