package ledger_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-net/atoll/pkg/controller/decide/ledger"
	"github.com/atoll-net/atoll/pkg/controller/decide/pass"
	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// book is what owners have of one Network whose range has two addresses to give. What is shared lacks some: that of the Network's own
// is its own all the same.
type book struct {
	*ledger.Virtual
	looked map[string]int
}

func addresses(first, last string) model.AddrRange {
	return model.AddrRange{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
}

func newBook() *book {
	order := pass.NewOrder("ranges", "grants")
	b := &book{ledger.NewVirtual(ledger.Shared{
		Ranges:   []netip.Prefix{netip.MustParsePrefix("198.18.0.0/29"), netip.MustParsePrefix("fd00:18::/64")},
		Reserved: []model.AddrRange{addresses("198.18.0.1", "198.18.0.1"), addresses("10.9.0.0", "10.9.0.1")},
	}, order.Stage("ranges"), order.Stage("grants")), map[string]int{}}
	b.Granted.Follow(order.Stage("grants"), func(owner nb.Owner) { b.looked[owner.Name]++ })
	b.serve("uid", "10.9.0.0/30")
	return b
}

// serve says which range red serves; none when it is empty.
func (b *book) serve(uid, own string) {
	serving := ledger.Serving{UID: uid}
	if own != "" {
		serving.Own = []netip.Prefix{netip.MustParsePrefix(own)}
	}
	b.Serve("red", serving)
}

func serviceNamed(name string) nb.Owner { return nb.ServiceOwner("r", name) }

func (b *book) claim(name string, age int, asked ...string) {
	c := ledger.Claim{
		UID: name, Network: "red", NetworkUID: "uid", Created: time.Unix(int64(age), 0), IPv4: ledger.Wish{Otherwise: ledger.Any},
	}
	for _, a := range asked {
		c.IPv4.Asked, c.IPv4.Otherwise = append(c.IPv4.Asked, netip.MustParseAddr(a)), ledger.Kept
	}
	b.Claim(serviceNamed(name), c)
}

func (b *book) want(t *testing.T, when string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		_, grant, _ := b.GrantTo(serviceNamed(name))
		for _, a := range grant.Addresses {
			got[name] += " " + a.String()
		}
		if len(grant.Refusals) > 0 {
			got[name] += " waits"
		}
		got[name] = strings.TrimSpace(got[name])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestOlderClaimsComeFirst(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.claim("young", 3)
	b.claim("old", 1)
	b.claim("middle", 2)
	b.Settle()
	b.want(t, "three of them", map[string]string{"old": "10.9.0.1", "middle": "10.9.0.2", "young": "waits"})
	b.claim("older", 0)
	b.Settle()
	b.want(t, "whoever has an address keeps it", map[string]string{"old": "10.9.0.1", "older": "waits"})
	b.Withdraw(serviceNamed("old"))
	b.Settle()
	b.want(t, "one has gone", map[string]string{"older": "10.9.0.1", "young": "waits"})
}

// What is given back by one is had by the next in the same pass.
func TestThoseThatWaitMoveUp(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.claim("a", 1, "10.9.0.1")
	b.claim("b", 2, "10.9.0.2")
	b.Settle()
	b.claim("c", 3, "10.9.0.2")
	b.claim("b", 2, "10.9.0.1")
	b.Settle()
	b.want(t, "both are in use", map[string]string{"a": "10.9.0.1", "b": "10.9.0.2 waits", "c": "waits"})
	clear(b.looked)
	b.Withdraw(serviceNamed("a"))
	b.Settle()
	b.want(t, "one moves, and the next gets what it had", map[string]string{"b": "10.9.0.1", "c": "10.9.0.2"})
	if b.looked["b"] != 1 || b.looked["c"] > 2 {
		t.Errorf("they were looked at so often: %v", b.looked)
	}
}

func TestWhatWasGivenIsHeldFirst(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.claim("new", 1, "10.9.0.1")
	b.Claim(serviceNamed("former"), ledger.Claim{
		UID: "former", Network: "red", NetworkUID: "uid", Created: time.Unix(2, 0), Known: true,
		Former: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, IPv4: ledger.Wish{Otherwise: ledger.Any},
	})
	b.Settle()
	b.want(t, "after a restart", map[string]string{"former": "10.9.0.1", "new": "waits"})
	b.serve("uid", "10.9.0.0/29")
	b.Settle()
	b.want(t, "in a larger range", map[string]string{"former": "10.9.0.1", "new": "waits"})
	b.claim("late", 3)
	b.Settle()
	b.want(t, "and another", map[string]string{"late": "10.9.0.2"})
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		b.claim(name, 4+i)
	}
	b.Settle()
	b.want(t, "it is full", map[string]string{"d": "10.9.0.6", "e": "waits"})
	b.serve("uid", "10.9.0.0/28")
	b.Settle()
	b.want(t, "whoever waits gets an address when the range grows, and those that wait for one wait on",
		map[string]string{"e": "10.9.0.7", "new": "waits"})
	b.Withdraw(serviceNamed("former"))
	b.Settle()
	b.want(t, "until it is free", map[string]string{"new": "10.9.0.1"})
	b.serve("another", "10.9.0.0/29")
	if used := b.Pools("red")[0].Used(); used != 0 {
		t.Errorf("a Network that was made anew has given %d addresses", used)
	}
	b.serve("another", "")
	if len(b.Served("red")) != 0 || len(b.Pools("red")) != 0 {
		t.Error("it serves ranges that it does not have")
	}
}

// sharing claims an address of each IP family, of any range that red has.
func (b *book) sharing(name string, age int, former ...string) {
	c := ledger.Claim{
		UID: name, Network: "red", NetworkUID: "uid", Created: time.Unix(int64(age), 0), Shared: true, Known: len(former) > 0,
		IPv4: ledger.Wish{Otherwise: ledger.Any}, IPv6: ledger.Wish{Otherwise: ledger.Any},
	}
	for _, a := range former {
		c.Former = append(c.Former, netip.MustParseAddr(a))
	}
	b.Claim(serviceNamed(name), c)
}

func TestSharedRangesServeWhereTheNetworkHasNone(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.claim("own", 1)
	b.sharing("both", 2)
	both := ledger.Claim{
		UID: "six", Network: "red", NetworkUID: "uid", Created: time.Unix(3, 0),
		IPv4: ledger.Wish{Asked: []netip.Addr{netip.MustParseAddr("198.18.0.2")}}, IPv6: ledger.Wish{Otherwise: ledger.Any},
	}
	b.Claim(serviceNamed("six"), both)
	b.Settle()
	b.want(t, "who may not share has addresses of the Network's own", map[string]string{
		"own": "10.9.0.1", "both": "10.9.0.2 fd00:18::1", "six": "waits",
	})
	if _, grant, _ := b.GrantTo(serviceNamed("six")); grant.Refusals[0].Outcome != alloc.Outside {
		t.Errorf("of an address of the shared range it hears %v", grant.Refusals[0].Outcome)
	}
	if diff := cmp.Diff("10.9.0.0/30, fd00:18::/64", ledger.List(b.Usable("red"))); diff != "" {
		t.Errorf("what may be shared (-want +got):\n%s", diff)
	}
	if pools := b.Pools("red"); len(pools) != 1 || pools[0].Used() != 2 {
		t.Errorf("a shared pool is counted as the Network's own: %v", pools)
	}
	b.serve("uid", "")
	b.claim("own", 1)
	b.sharing("both", 2)
	b.Settle()
	b.want(t, "the Network has none any more", map[string]string{"own": "", "both": "198.18.0.2 fd00:18::1"})
	b.Serve("blue", ledger.Serving{UID: "blue"})
	b.Serve("blue", ledger.Serving{})
	if len(b.Usable("blue")) != 0 {
		t.Error("a Network that has gone has shared ranges")
	}
}

// A subnet that comes takes its part of the shared ranges from those who have addresses there, and from nobody else.
func TestWhatIsTakenOfSharedRanges(t *testing.T) {
	t.Parallel()
	b := newBook()
	b.serve("uid", "")
	for i, name := range []string{"a", "b", "c", "d"} {
		b.sharing(name, i)
	}
	b.Settle()
	b.want(t, "nothing is taken", map[string]string{
		"a": "198.18.0.2 fd00:18::1", "b": "198.18.0.3 fd00:18::2", "c": "198.18.0.4 fd00:18::3", "d": "198.18.0.5 fd00:18::4",
	})
	b.Serve("red", ledger.Serving{UID: "uid", Taken: []model.AddrRange{addresses("198.18.0.0", "198.18.0.3")}})
	for i, name := range []string{"a", "b", "c", "d"} {
		b.sharing(name, i)
	}
	b.Settle()
	b.want(t, "half of it is", map[string]string{
		"a": "198.18.0.6 fd00:18::1", "b": "fd00:18::2 waits", "c": "198.18.0.4 fd00:18::3", "d": "198.18.0.5 fd00:18::4",
	})
	b.Withdraw(serviceNamed("c"))
	b.Settle()
	b.want(t, "what comes free goes to who waits", map[string]string{"b": "198.18.0.4 fd00:18::2"})
	// Whoever has an address of the shared range that is the Network's own now keeps it; the first of a range is nobody's.
	b.serve("uid", "198.18.0.4/30")
	b.claim("own", 9)
	b.sharing("b", 1)
	b.sharing("former", 9, "198.18.0.2", "fd00:18::9")
	b.Settle()
	b.want(t, "it has a range of its own there", map[string]string{
		"a": "198.18.0.6 fd00:18::1", "b": "fd00:18::2 waits", "d": "198.18.0.5 fd00:18::4", "own": "waits", "former": "fd00:18::9 waits",
	})
}

// What is held again, and not asked for anew, is counted all the same.
func TestWhatIsHeldAgainIsCounted(t *testing.T) {
	t.Parallel()
	order := pass.NewOrder("ranges", "grants")
	v := ledger.NewVirtual(ledger.Shared{}, order.Stage("ranges"), order.Stage("grants"))
	v.Serve("red", ledger.Serving{UID: "uid", Own: []netip.Prefix{netip.MustParsePrefix("10.9.0.0/30")}})
	v.Settle()
	counted := 0
	v.Counts.Follow(order.Stage("grants"), func(string) { counted++ })
	v.Claim(serviceNamed("former"), ledger.Claim{
		UID: "former", Network: "red", NetworkUID: "uid", Known: true,
		Former: []netip.Addr{netip.MustParseAddr("10.9.0.1")}, IPv4: ledger.Wish{Otherwise: ledger.Any},
	})
	v.Settle()
	if used := v.Pools("red")[0].Used(); used != 1 || counted == 0 {
		t.Errorf("%d addresses are used, want 1; told %d times", used, counted)
	}
}
