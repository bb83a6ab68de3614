package alloc

import (
	"net/netip"
	"testing"
)

func TestBlocksInOrder(t *testing.T) {
	for _, test := range []struct {
		from string
		bits int
		want []string
	}{
		{"100.64.0.0/10", 23, []string{"100.64.0.0/23", "100.64.2.0/23", "100.64.4.0/23"}},
		{"10.0.0.0/30", 31, []string{"10.0.0.0/31", "10.0.0.2/31", ""}},
		{"10.0.0.0/24", 24, []string{"10.0.0.0/24", ""}},
		{"fd64:a701::/104", 119, []string{"fd64:a701::/119", "fd64:a701::200/119", "fd64:a701::400/119"}},
		{"fd00::/40", 56, []string{"fd00::/56", "fd00:0:0:100::/56"}},
		{"fd00::/62", 65, []string{"fd00::/65", "fd00::8000:0:0:0/65", "fd00:0:0:1::/65"}},
	} {
		b, err := NewBlocks(netip.MustParsePrefix(test.from), test.bits)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.want {
			got, ok := b.Next("n")
			if ok != (want != "") || ok && got.String() != want {
				t.Errorf("%s in /%d: block %d is %s (%v), want %q", test.from, test.bits, i, got, ok, want)
			}
		}
	}
}

func TestBlocksOfOneHolder(t *testing.T) {
	b, err := NewBlocks(netip.MustParsePrefix("100.64.0.0/21"), 23)
	if err != nil {
		t.Fatal(err)
	}
	second := netip.MustParsePrefix("100.64.2.0/23")
	if got, _ := b.Take(second, "n2"); got != Taken {
		t.Fatalf("a free block was not given: %v", got)
	}
	if got, other := b.Take(second, "n1"); got != InUse || other != "n2" {
		t.Errorf("a block was given twice: %v, %q", got, other)
	}
	if got, _ := b.Take(second, "n2"); got != Taken {
		t.Errorf("its holder does not get it again: %v", got)
	}
	for _, outside := range []string{"100.64.2.0/24", "100.64.8.0/23", "100.64.3.0/23", "fd00::/23"} {
		if got, _ := b.Take(netip.MustParsePrefix(outside), "n1"); got != Outside {
			t.Errorf("%s: %v, want Outside", outside, got)
		}
	}
	given := map[netip.Prefix]bool{second: true}
	for range 3 {
		block, ok := b.Next("n3")
		if !ok || given[block] {
			t.Fatalf("block %s (%v) was given before", block, ok)
		}
		given[block] = true
	}
	if block, ok := b.Next("n4"); ok {
		t.Errorf("a fifth block of four: %s", block)
	}
	b.Release(second, "n3")
	if _, ok := b.Next("n4"); ok {
		t.Error("who does not hold a block released it")
	}
	b.Release(second, "n2")
	if block, _ := b.Next("n4"); block != second {
		t.Errorf("got %s, want the block that came free", block)
	}
	if block, ok := b.Holding(netip.MustParseAddr("100.64.3.7")); !ok || block != second {
		t.Errorf("100.64.3.7 is in %s (%v)", block, ok)
	}
}

func TestBlocksOfNoRange(t *testing.T) {
	for _, test := range []struct {
		from string
		bits int
	}{{"10.0.0.1/8", 16}, {"10.0.0.0/16", 15}, {"10.0.0.0/16", 33}, {"fd00::/8", 64}} {
		if _, err := NewBlocks(netip.MustParsePrefix(test.from), test.bits); err == nil {
			t.Errorf("%s in blocks of /%d was accepted", test.from, test.bits)
		}
	}
}
