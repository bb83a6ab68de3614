package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// How long the node's resolvers may take: the C library waits for five seconds before it asks again.
const (
	tryTimeout     = 2 * time.Second
	forwardTimeout = 4500 * time.Millisecond
)

// forwarder asks the node's resolvers for one Network.
type forwarder struct {
	resolvers *Resolvers
	cache     *cache
	slots     *slots
	// asked: several who ask the same at the same time wait for one answer. It also ends circles: a question that came
	// back to us would wait for itself until its time is over, and make no further one.
	asked singleflight.Group
}

var (
	errNoResolvers = errors.New("the node has no resolvers")
	errStranger    = errors.New("the reply is to another question")
)

// ask answers a question from the node's resolvers. It is asked in words of our own: nothing but name and type goes out.
func (f *forwarder) ask(ctx context.Context, k cacheKey) (*dns.Msg, error) {
	out, err, _ := f.asked.Do(k.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
		defer cancel()
		m, err := f.exchange(ctx, k)
		if err == nil {
			f.cache.put(k, m, time.Now())
		}
		return m, err
	})
	if err != nil {
		return nil, err
	}
	// Whoever waited with us has the same message.
	return out.(*dns.Msg).Copy(), nil
}

// exchange asks one resolver after the other until one answers. A reply that is a fault of the resolver is taken only
// when no other has a better one.
func (f *forwarder) exchange(ctx context.Context, k cacheKey) (*dns.Msg, error) {
	list, err := f.resolvers.Current(time.Now())
	if len(list) == 0 {
		return nil, errors.Join(errNoResolvers, err)
	}
	var fault *dns.Msg
	for _, at := range list {
		var m *dns.Msg
		if m, err = exchangeWith(ctx, at, k); err != nil {
			continue
		}
		if m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError {
			return m, nil
		}
		fault = m
	}
	if fault != nil {
		return fault, nil
	}
	return nil, err
}

// exchangeWith asks one resolver, by TCP if the reply does not fit. Each question has a socket of its own, and so a port
// that nobody can guess (RFC 5452).
func exchangeWith(ctx context.Context, at netip.AddrPort, k cacheKey) (*dns.Msg, error) {
	request := new(dns.Msg)
	request.SetQuestion(k.name, k.kind)
	request.CheckingDisabled = k.unchecked
	request.SetEdns0(maxUDP, k.signed)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, Timeout: tryTimeout, UDPSize: maxUDP}
		m, _, err := client.ExchangeContext(ctx, request, at.String())
		if err != nil {
			return nil, err
		}
		if !m.Response || len(m.Question) != 1 || m.Question[0].Qtype != k.kind || lower(m.Question[0].Name) != lower(k.name) {
			return nil, errStranger
		}
		if !m.Truncated {
			return m, nil
		}
	}
	return nil, errors.New("the reply by TCP is truncated")
}

func (k cacheKey) String() string {
	return fmt.Sprintf("%s %d %t %t", k.name, k.kind, k.signed, k.unchecked)
}

// slots bound what goes on at once, in all and for one asker: half of the pods' room is left when one of them takes what
// it can get.
type slots struct {
	all, each int

	mu       sync.Mutex
	taken    int
	perAsker map[netip.Addr]int
}

func newSlots(all, each int) *slots {
	return &slots{all: all, each: each, perAsker: map[netip.Addr]int{}}
}

// take reports whether there was a slot; release gives it back.
func (s *slots) take(who netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == s.all || s.perAsker[who] == s.each {
		return false
	}
	s.taken++
	s.perAsker[who]++
	return true
}

func (s *slots) release(who netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.perAsker[who]--; s.perAsker[who] == 0 {
		delete(s.perAsker, who)
	}
}
