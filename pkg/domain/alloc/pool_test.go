package alloc_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/alloc"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

func newPool(t testing.TB, cidr string, reserved ...string) *alloc.Pool[string] {
	t.Helper()
	var ranges []model.AddrRange
	for i := 0; i < len(reserved); i += 2 {
		ranges = append(ranges, model.AddrRange{First: netip.MustParseAddr(reserved[i]), Last: netip.MustParseAddr(reserved[i+1])})
	}
	p, err := alloc.New[string](netip.MustParsePrefix(cidr), ranges)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNextGivesEveryAddressOnce(t *testing.T) {
	tests := []struct {
		name     string
		cidr     string
		reserved []string
		want     []string
	}{
		{"a /29", "10.0.0.0/29", nil, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}},
		{
			"without its gateway", "10.0.0.0/29", []string{"10.0.0.1", "10.0.0.1"}, []string{
				"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6",
			},
		},
		{
			"overlapping ranges", "10.0.0.0/29",
			[]string{"9.0.0.0", "10.0.0.2", "10.0.0.2", "10.0.0.3", "10.0.0.6", "11.0.0.0"},
			[]string{"10.0.0.4", "10.0.0.5"},
		},
		{"a /31", "10.0.0.0/31", nil, []string{"10.0.0.0", "10.0.0.1"}},
		{"a /32", "10.0.0.9/32", nil, []string{"10.0.0.9"}},
		{"a /126", "fd00::/126", nil, []string{"fd00::1", "fd00::2", "fd00::3"}},
		{"none", "10.0.0.0/30", []string{"10.0.0.0", "10.0.0.255"}, nil},
		{"other family's ranges", "10.0.0.0/30", []string{"fd00::", "fd00::ff"}, []string{"10.0.0.1", "10.0.0.2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, tt.cidr, tt.reserved...)
			if got, want := p.Free(), int64(len(tt.want)); got != want {
				t.Errorf("free before = %d, want %d", got, want)
			}
			for _, want := range tt.want {
				got, ok := p.Next("x")
				if !ok || got.String() != want {
					t.Fatalf("Next = %v, %v; want %s", got, ok, want)
				}
			}
			if got, ok := p.Next("x"); ok {
				t.Errorf("Next of a full pool = %v", got)
			}
			if p.Free() != 0 || p.Used() != int64(len(tt.want)) {
				t.Errorf("used %d, free %d after the last", p.Used(), p.Free())
			}
		})
	}
}

func TestAReleasedAddressRests(t *testing.T) {
	p := newPool(t, "10.0.0.0/29")
	first, _ := p.Next("a")
	p.Release(first, "a")
	for range 5 {
		if got, _ := p.Next("b"); got == first {
			t.Fatalf("%v was given again while others were free", got)
		}
	}
	if got, ok := p.Next("c"); !ok || got != first {
		t.Errorf("Next = %v, %v; want the released %v once all others are held", got, ok, first)
	}
}

// TestNextGivesNoNumberTwice: in a range with more hosts than a switch has numbers for ports.
func TestNextGivesNoNumberTwice(t *testing.T) {
	p := newPool(t, "10.128.0.0/14", "10.128.0.1", "10.128.0.1", "10.130.0.0", "10.130.255.255")
	prefix, seen := p.Prefix(), map[int]string{1: "the gateway"}
	ask := func(a netip.Addr) {
		t.Helper()
		n := model.PortNumber(prefix, a)
		if seen[n] != "" {
			t.Fatalf("%s has the number of %s", a, seen[n])
		}
		seen[n] = a.String()
	}
	for _, a := range []string{"10.128.0.9", "10.129.1.1", "10.131.0.77"} {
		if outcome, _ := p.Take(netip.MustParseAddr(a), "asked"); outcome != alloc.Taken {
			t.Fatalf("%s: %d", a, outcome)
		}
		ask(netip.MustParseAddr(a))
	}
	// Three of four are given back, so that the search comes around the range many times before the numbers are used up.
	for i := 0; len(seen) < model.PortNumbers; i++ {
		a, ok := p.Next("pod")
		if !ok {
			t.Fatal("none is free")
		}
		ask(a)
		if i%4 != 0 && len(seen) < model.PortNumbers-10 {
			p.Release(a, "pod")
			delete(seen, model.PortNumber(prefix, a))
		}
	}
	// Without a number there are addresses all the same.
	if a, ok := p.Next("pod"); !ok {
		t.Errorf("%s: no address, although many are free", a)
	}
}

func TestTake(t *testing.T) {
	p := newPool(t, "10.0.0.0/24", "10.0.0.1", "10.0.0.1")
	take := func(a, holder string) alloc.Outcome {
		t.Helper()
		outcome, _ := p.Take(netip.MustParseAddr(a), holder)
		return outcome
	}
	for _, tt := range []struct {
		addr, holder string
		want         alloc.Outcome
	}{
		{"10.0.0.5", "a", alloc.Taken},
		{"10.0.0.5", "a", alloc.Taken},
		{"10.0.0.5", "b", alloc.InUse},
		{"10.0.0.0", "a", alloc.Reserved},
		{"10.0.0.1", "a", alloc.Reserved},
		{"10.0.0.255", "a", alloc.Reserved},
		{"10.0.1.5", "a", alloc.Outside},
		{"fd00::1", "a", alloc.Outside},
	} {
		if got := take(tt.addr, tt.holder); got != tt.want {
			t.Errorf("Take(%s, %s) = %d, want %d", tt.addr, tt.holder, got, tt.want)
		}
	}
	if _, other := p.Take(netip.MustParseAddr("10.0.0.5"), "b"); other != "a" {
		t.Errorf("the holder of 10.0.0.5 is said to be %q, want a", other)
	}
	p.Release(netip.MustParseAddr("10.0.0.5"), "b")
	if take("10.0.0.5", "b") != alloc.InUse {
		t.Error("somebody else's release freed the address")
	}
}

func TestWhoHasAnAddressKeepsItWhenItIsReserved(t *testing.T) {
	p := newPool(t, "10.0.0.0/29", "10.0.0.2", "10.0.0.3")
	kept := netip.MustParseAddr("10.0.0.2")
	if o, _ := p.Keep(kept, "a"); o != alloc.Taken {
		t.Fatalf("Keep = %d", o)
	}
	if o, other := p.Keep(kept, "b"); o != alloc.InUse || other != "a" {
		t.Errorf("Keep by another = %d, %q", o, other)
	}
	if p.Used() != 1 || p.Free() != 4 {
		t.Errorf("used %d, free %d; want 1 and 4", p.Used(), p.Free())
	}
	p.Release(kept, "a")
	if o, _ := p.Take(kept, "a"); o != alloc.Reserved || p.Used() != 0 || p.Free() != 4 {
		t.Errorf("after release: Take = %d, used %d, free %d", o, p.Used(), p.Free())
	}
}

func TestHugePools(t *testing.T) {
	p := newPool(t, "fd00::/64")
	if p.Free() != alloc.MaxFree {
		t.Errorf("free = %d, want %d", p.Free(), int64(alloc.MaxFree))
	}
	if o, _ := p.Take(netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff"), "a"); o != alloc.Taken {
		t.Errorf("the last address of a /64: outcome %d", o)
	}
	if _, err := alloc.New[string](netip.MustParsePrefix("fd00::/56"), nil); err == nil {
		t.Error("a /56 was accepted")
	}
}

// TestPoolAgainstModel compares the pool with a plain map under random histories.
func TestPoolAgainstModel(t *testing.T) { rapid.Check(t, poolAgainstModel) }

// FuzzPoolAgainstModel looks for a difference with the fuzzer.
func FuzzPoolAgainstModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(poolAgainstModel)) }

func poolAgainstModel(t *rapid.T) {
	bits := rapid.IntRange(22, 32).Draw(t, "bits")
	prefix := netip.PrefixFrom(netip.MustParseAddr("10.1.2.3"), bits).Masked()
	size := 1 << (32 - bits)
	at := func(i int) netip.Addr {
		a := prefix.Addr()
		for range i {
			a = a.Next()
		}
		return a
	}
	var reserved []model.AddrRange
	for range rapid.IntRange(0, 3).Draw(t, "ranges") {
		first := rapid.IntRange(0, size-1).Draw(t, "first")
		last := rapid.IntRange(first, size-1).Draw(t, "last")
		reserved = append(reserved, model.AddrRange{First: at(first), Last: at(last)})
	}
	p, err := alloc.New[string](prefix, reserved)
	if err != nil {
		t.Fatal(err)
	}
	free, held := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for i, a := 0, prefix.Addr(); i < size; i, a = i+1, a.Next() {
		ends := bits < 31 && (i == 0 || i == size-1)
		for _, r := range reserved {
			ends = ends || r.Contains(a)
		}
		if !ends {
			free[a] = true
		}
	}
	for range rapid.IntRange(1, 200).Draw(t, "steps") {
		switch rapid.IntRange(0, 2).Draw(t, "step") {
		case 0:
			a, ok := p.Next("h")
			if ok != (len(free) > 0) || (ok && !free[a]) {
				t.Fatalf("Next = %v, %v with %d free", a, ok, len(free))
			}
			if ok {
				delete(free, a)
				held[a] = true
			}
		case 1:
			a := at(rapid.IntRange(0, size-1).Draw(t, "take"))
			outcome, _ := p.Take(a, "h")
			if want := free[a] || held[a]; (outcome == alloc.Taken) != want {
				t.Fatalf("Take(%v) = %d, want taken %v", a, outcome, want)
			}
			if free[a] {
				delete(free, a)
				held[a] = true
			}
		case 2:
			a := at(rapid.IntRange(0, size-1).Draw(t, "release"))
			p.Release(a, "h")
			if held[a] {
				delete(held, a)
				free[a] = true
			}
		}
		if p.Used() != int64(len(held)) || p.Free() != int64(len(free)) {
			t.Fatalf("used %d free %d, want %d and %d", p.Used(), p.Free(), len(held), len(free))
		}
	}
}

func BenchmarkNextInACrowdedPool(b *testing.B) {
	p := newPool(b, "10.0.0.0/14")
	for range 200_000 {
		p.Next("x")
	}
	b.ResetTimer()
	for b.Loop() {
		a, _ := p.Next("y")
		p.Release(a, "y")
	}
}

// TestWhoSharesANumber: addresses that are as many apart as there are numbers, held or reserved by themselves; nobody does in a
// range in which all numbers differ.
func TestWhoSharesANumber(t *testing.T) {
	p := newPool(t, "10.0.0.0/16", "10.0.0.1", "10.0.0.1", "10.0.0.20", "10.0.0.30")
	if outcome, _ := p.Take(netip.MustParseAddr("10.0.0.9"), "a"); outcome != alloc.Taken {
		t.Fatal(outcome)
	}
	for address, want := range map[string]bool{
		"10.0.128.8": true, "10.0.0.9": false, "10.0.128.9": false, "10.0.128.0": true, "10.0.128.24": false, "10.1.0.8": false,
	} {
		if got := p.SharesNumber(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	p.Release(netip.MustParseAddr("10.0.0.9"), "a")
	if p.SharesNumber(netip.MustParseAddr("10.0.128.8")) {
		t.Error("it has the number of one that has gone")
	}
	if small := newPool(t, "10.0.0.0/24", "10.0.0.1", "10.0.0.1"); small.SharesNumber(netip.MustParseAddr("10.0.0.1")) {
		t.Error("in a small range somebody shares a number")
	}
}
