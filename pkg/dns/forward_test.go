package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/wait"
)

// outside is a resolver of the world outside on a loopback port. It counts what it is asked.
type outside struct {
	address netip.AddrPort
	// hold, if not nil, keeps replies back until it is closed.
	hold chan struct{}

	mu    sync.Mutex
	asked map[string]int
	seen  []*dns.Msg
}

func newOutside(t *testing.T, hold chan struct{}) *outside {
	t.Helper()
	o := &outside{hold: hold, asked: map[string]int{}}
	o.address = unused()
	on, err := listen(t.Context(), Place{Addresses: []netip.AddrPort{o.address}})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	for _, s := range []*dns.Server{{PacketConn: on.packets[0], Handler: o}, {Listener: on.listeners[0], Handler: o}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		running.Go(func() {
			if err := s.ActivateAndServe(); err != nil {
				t.Error(err)
			}
		})
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return o
}

func (o *outside) count(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[name]
}

// ServeDNS knows www.example.com and many addresses of big.example.com, and fails for fault.example.com.
func (o *outside) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	o.mu.Lock()
	o.asked[lower(r.Question[0].Name)]++
	o.seen = append(o.seen, r)
	o.mu.Unlock()
	if o.hold != nil {
		<-o.hold
	}
	m := new(dns.Msg)
	m.SetReply(r)
	switch name := lower(r.Question[0].Name); name {
	case "www.example.com.":
		m.Answer = []dns.RR{
			&dns.CNAME{Hdr: header("www.example.com.", dns.TypeCNAME, 60), Target: "host.example.com."},
			&dns.A{Hdr: header("host.example.com.", dns.TypeA, 60), A: net.IPv4(192, 0, 2, 53)},
		}
	case "big.example.com.":
		for i := range 200 {
			m.Answer = append(m.Answer, &dns.A{Hdr: header(name, dns.TypeA, 60), A: net.IPv4(192, 0, 2, byte(i))})
		}
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncate(512)
		}
	case "fault.example.com.":
		m.Rcode = dns.RcodeServerFailure
	case "stranger.example.com.":
		m.Question[0].Name = "www.example.com."
	default:
		m.Rcode = dns.RcodeNameError
		m.Ns = []dns.RR{&dns.SOA{Hdr: header("com.", dns.TypeSOA, 900), Ns: "ns.", Mbox: "mbox.", Minttl: 900}}
	}
	_ = w.WriteMsg(m)
}

// open is a world with a Network that has a way out, by these resolvers.
func open(t *testing.T, resolvers ...netip.AddrPort) *world {
	red := vpc("red")
	red.Egress = model.EgressNode
	w := newWorld(t)
	w.resolvers = FixedResolvers(resolvers)
	w.serve(red)
	w.SetNamespace(namespaceIn("red", "red"))
	w.SetService(&Service{ServiceKey: key("red/outside"), ExternalName: "www.example.com"})
	w.SetComplete()
	return w
}

func TestForward(t *testing.T) {
	o := newOutside(t, nil)
	w := open(t, o.address)
	for name, want := range map[string]string{
		"Www.Example.COM.": "NOERROR\nWww.Example.COM. CNAME host.example.com.\nhost.example.com. A 192.0.2.53",
		"outside.red.svc.cluster.local.": "NOERROR\nhost.example.com. A 192.0.2.53\n" +
			"outside.red.svc.cluster.local. CNAME www.example.com.\nwww.example.com. CNAME host.example.com.",
		"nothing.example.com.":           "NXDOMAIN",
		"fault.example.com.":             "SERVFAIL",
		"nothing.red.svc.cluster.local.": "NXDOMAIN",
	} {
		for range 3 {
			if got := answered(w.ask(t, "red", name, dns.TypeA)); got != want {
				t.Errorf("%s: %s\nwant %s", name, got, want)
			}
		}
	}
	// Asked once, however it is written, and by whichever way; a failure for a second.
	for name, want := range map[string]int{
		"www.example.com.": 1, "nothing.example.com.": 1, "fault.example.com.": 1, "nothing.red.svc.cluster.local.": 0,
	} {
		if got := o.count(name); got != want {
			t.Errorf("%s was asked %d times, want %d", name, got, want)
		}
	}
	if m := w.ask(t, "red", "www.example.com.", dns.TypeA); m.Authoritative || !m.RecursionAvailable {
		t.Errorf("what others know comes with authority: %v", m)
	}
}

// TestForwardSaysNothingMore: the question that goes out has none of the asker's options.
func TestForwardSaysNothingMore(t *testing.T) {
	o := newOutside(t, nil)
	w := open(t, o.address)
	m := new(dns.Msg)
	m.SetQuestion("www.example.com.", dns.TypeA)
	m.Id = 4711
	opt := m.SetEdns0(4096, true).IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 32, Address: net.IPv4(10, 0, 0, 5)})
	w.exchange(t, "red", m, false)
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.seen[0]
	if got := out.IsEdns0(); got == nil || len(got.Option) != 0 || !got.Do() || got.UDPSize() != maxUDP {
		t.Errorf("options that went out: %v", got)
	}
}

func TestForwardByTCP(t *testing.T) {
	o := newOutside(t, nil)
	w := open(t, o.address)
	m := new(dns.Msg)
	m.SetQuestion("big.example.com.", dns.TypeA)
	if reply := w.exchange(t, "red", m, true); len(reply.Answer) != 200 || reply.Truncated {
		t.Errorf("by TCP: %d records, truncated %v", len(reply.Answer), reply.Truncated)
	}
	if reply := w.exchange(t, "red", m, false); len(reply.Answer) == 0 || !reply.Truncated {
		t.Errorf("by UDP: %d records, truncated %v", len(reply.Answer), reply.Truncated)
	}
}

// TestForwardNext: a resolver that does not answer, or answers something else, or fails, is followed by the next.
func TestForwardNext(t *testing.T) {
	o := newOutside(t, nil)
	w := open(t, unused(), o.address)
	if m := w.ask(t, "red", "www.example.com.", dns.TypeA); len(m.Answer) != 2 {
		t.Errorf("with a deaf resolver first: %v", m)
	}
	if m := w.ask(t, "red", "stranger.example.com.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("reply to another question: %v", m)
	}
	if m := open(t).ask(t, "red", "www.example.com.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
		t.Errorf("without resolvers: %v", m)
	}
}

// unused is a loopback address of this test alone, with a port that is free for UDP and TCP.
func unused() netip.AddrPort {
	n, pid := handedOut.Add(1), os.Getpid()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, byte(1 + pid>>8&0x7f), byte(pid), byte(n)}), 5300)
}

// handedOut counts the addresses that unused gave.
var handedOut atomic.Uint32

// TestNoLeak: without a way out nothing goes out; with one, private reverse names and what is ours do not.
func TestNoLeak(t *testing.T) {
	o := newOutside(t, nil)
	w := open(t, o.address)
	closed := vpc("blue")
	w.serve(closed)
	for _, name := range []string{"www.example.com.", "53.2.0.192.in-addr.arpa.", "example.", "."} {
		if m := w.ask(t, "blue", name, dns.TypeA); m.Rcode != dns.RcodeNameError {
			t.Errorf("blue has no way out: %v", m)
		}
	}
	public := vpc("green")
	public.Egress = model.EgressNode
	public.Subnets = []model.Subnet{
		{Name: "s", CIDRs: []netip.Prefix{netip.MustParsePrefix("8.8.0.0/16"), netip.MustParsePrefix("2a00::/64")}},
	}
	w.serve(public)
	for _, name := range []string{
		"5.0.0.10.in-addr.arpa.", "0.10.in-addr.arpa.", "10.in-addr.arpa.", "1.0.16.172.in-addr.arpa.", "1.0.31.172.in-addr.arpa.",
		"1.1.168.192.in-addr.arpa.", "1.0.64.100.in-addr.arpa.", "254.169.254.169.in-addr.arpa.", "a.5.0.0.10.in-addr.arpa.",
		"0/25.0.0.10.in-addr.arpa.",
		strings.Repeat("0.", 30) + "d.f.ip6.arpa.", "0.8.e.f.ip6.arpa.", "d.f.ip6.arpa.",
		"8.8.8.8.in-addr.arpa.", strings.Repeat("1.", 16) + "0.0.0.0.0.0.0.0.0.0.0.0.0.0.a.2.ip6.arpa.",
		"a.localhost.", "a.invalid.", "a.onion.", "x.cluster.local.", "cluster.local.",
	} {
		for _, kind := range []uint16{dns.TypePTR, dns.TypeSOA, dns.TypeNS} {
			w.ask(t, "green", name, kind)
		}
	}
	o.mu.Lock()
	if len(o.asked) != 0 {
		t.Errorf("went out: %v", o.asked)
	}
	o.mu.Unlock()
	for _, name := range []string{"7.7.7.7.in-addr.arpa.", "172.in-addr.arpa.", "local.", "x.cluster.local.example."} {
		w.ask(t, "green", name, dns.TypePTR)
		if o.count(name) != 1 {
			t.Errorf("%s did not go out", name)
		}
	}
	// Who does not want it resolved is not served: so do resolvers that look for the servers of a zone.
	m := new(dns.Msg)
	m.SetQuestion("www.example.com.", dns.TypeA)
	m.RecursionDesired = false
	if reply := w.exchange(t, "green", m, false); reply.Rcode != dns.RcodeRefused {
		t.Errorf("without recursion: %v", reply)
	}
}

// TestForwardOnce: those who ask the same at the same time wait for one answer; those who are too many get a failure.
func TestForwardOnce(t *testing.T) {
	o := newOutside(t, make(chan struct{}))
	w := open(t, o.address)
	s := w.servers["red"]
	var asking sync.WaitGroup
	replies := make(chan *dns.Msg, 1000)
	request := new(dns.Msg)
	request.SetQuestion("www.example.com.", dns.TypeA)
	packet, err := request.Pack()
	if err != nil {
		t.Fatal(err)
	}
	limits := DefaultLimits()
	for i := range 2 * limits.Forwards {
		asking.Go(func() {
			q, _ := readQuery(packet, false)
			replies <- s.inTurn(t.Context(), q, addr([]string{"10.0.0.1", "10.0.0.2"}[i%2]))
		})
	}
	// Half of them find no slot.
	for range limits.Forwards {
		if m := <-replies; m.Rcode != dns.RcodeServerFailure {
			t.Errorf("too many: %v", m)
		}
	}
	// The others have a slot each, and are on their way to the one question.
	allWithin(t, "singleflight.(*Group).Do(", limits.Forwards)
	close(o.hold)
	asking.Wait()
	for range limits.Forwards {
		if m := <-replies; m.Rcode != dns.RcodeSuccess {
			t.Errorf("waited for one answer: %v", m)
		}
	}
	if n := o.count("www.example.com."); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if s.forward.slots.taken != 0 || len(s.forward.slots.perAsker) != 0 {
		t.Errorf("slots left taken: %d, %v", s.forward.slots.taken, s.forward.slots.perAsker)
	}
}

// allWithin waits until as many goroutines are within a function, by its name in a dump of stacks.
func allWithin(t *testing.T, function string, want int) {
	t.Helper()
	stacks := make([]byte, 4<<20)
	wait.Eventually(t, wait.Patience, function, func(context.Context) error {
		if have := strings.Count(string(stacks[:runtime.Stack(stacks, true)]), function); have != want {
			return fmt.Errorf("%d goroutines are within it, want %d", have, want)
		}
		return nil
	})
}

// TestSlotsOfOne: one pod cannot take all.
func TestSlotsOfOne(t *testing.T) {
	s := newSlots(4, 3)
	a, b := addr("10.0.0.1"), addr("10.0.0.2")
	got := []bool{s.take(a), s.take(a), s.take(a), s.take(a), s.take(b), s.take(b)}
	if want := []bool{true, true, true, false, true, false}; !slices.Equal(got, want) {
		t.Errorf("took %v, want %v", got, want)
	}
	s.release(a)
	if !s.take(b) {
		t.Error("a slot that was given back is not there")
	}
}

// TestForwardEnds: a resolver that never answers keeps nobody longer than the context.
func TestForwardEnds(t *testing.T) {
	o := newOutside(t, make(chan struct{}))
	t.Cleanup(func() { close(o.hold) })
	w := open(t, o.address)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.servers["red"].forward.ask(ctx, cacheKey{name: "www.example.com.", kind: dns.TypeA}); err == nil {
		t.Error("an answer from nobody")
	}
}

func TestCache(t *testing.T) {
	now := time.Unix(1000, 0)
	reply := func(seconds uint32) *dns.Msg {
		m := new(dns.Msg)
		m.SetQuestion("a.", dns.TypeA)
		m.Answer = []dns.RR{address("a.", addr("192.0.2.1"), dns.TypeA)}
		m.Answer[0].Header().Ttl = seconds
		return m
	}
	c := newCache(4000)
	k := cacheKey{name: "a.", kind: dns.TypeA}
	c.put(k, reply(10), now)
	if m := c.get(k, now.Add(4*time.Second)); m == nil || m.Answer[0].Header().Ttl != 6 {
		t.Errorf("after 4 of 10 seconds: %v", m)
	}
	if m := c.get(k, now.Add(10*time.Second)); m != nil {
		t.Errorf("after its time: %v", m)
	}
	if m := c.get(cacheKey{name: "a.", kind: dns.TypeA, signed: true}, now); m != nil {
		t.Errorf("to another question: %v", m)
	}
	c.put(cacheKey{name: "0."}, reply(0), now)
	if c.get(cacheKey{name: "0."}, now) != nil {
		t.Error("what is not to be kept was kept")
	}
	// Its size is bounded, and what is used stays.
	for i := range 1000 {
		c.put(cacheKey{name: "n.", kind: uint16(i)}, reply(1000), now)
		if c.get(cacheKey{name: "n.", kind: 0}, now) == nil {
			t.Fatalf("what is used was forgotten after %d", i)
		}
		if n := len(c.young) + len(c.old); n > 4000/keptOverhead {
			t.Fatalf("%d entries", n)
		}
	}
	if m := c.get(cacheKey{name: "n.", kind: 0}, now.Add(maxKept*time.Second)); m != nil {
		t.Errorf("kept for longer than allowed: %v", m)
	}
}

func TestResolvers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Unix(100000, 0)
	r := NewResolvers(path, []netip.Addr{addr("10.96.0.10")})
	if _, err := r.Current(now); err == nil {
		t.Error("a file that is not there was read")
	}
	write("search example.com\nnameserver 10.96.0.10\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver fe80::1%eth0\nnameserver "+
		"2001:db8::1\nnameserver 192.0.2.2\n", now)
	want := []netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("[fe80::1%eth0]:53"), netip.MustParseAddrPort("[2001:db8::1]:53"),
	}
	if got, err := r.Current(now); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	write("nameserver 192.0.2.9\n", now.Add(time.Minute))
	if got, _ := r.Current(now.Add(lookEvery / 2)); !slices.Equal(got, want) {
		t.Errorf("looked too soon: %v", got)
	}
	if got, err := r.Current(now.Add(lookEvery)); err != nil || len(got) != 1 || got[0].String() != "192.0.2.9:53" {
		t.Errorf("after a change: %v, %v", got, err)
	}
}
