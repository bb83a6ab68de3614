package compile

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// TestBlocksBecomeTheirPrefixes: the prefixes of a block hold an address if the block does, each address once.
func TestBlocksBecomeTheirPrefixes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v4 := rapid.Bool().Draw(t, "IPv4")
		draw := func(what string) netip.Prefix {
			bits := rapid.IntRange(0, 8).Draw(t, what+" bits")
			low := byte(rapid.IntRange(0, 255).Draw(t, what))
			if v4 {
				return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, low}), 24+bits).Masked()
			}
			return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 15: low}), 120+bits).Masked()
		}
		b := model.Block{CIDR: draw("block")}
		for range rapid.IntRange(0, 4).Draw(t, "exceptions") {
			b.Except = append(b.Except, draw("exception"))
		}
		got := blockPrefixes(b, v4)
		for low := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(low)})
			if !v4 {
				a = netip.AddrFrom16([16]byte{0xfd, 15: byte(low)})
			}
			n := 0
			for _, p := range got {
				if p.Contains(a) {
					n++
				}
			}
			if want := b.Contains(a); (n == 1) != want || n > 1 {
				t.Fatalf("%s is in %d of %v; in the block %+v: %t", a, n, got, b, want)
			}
		}
		if len(blockPrefixes(b, !v4)) > 0 {
			t.Fatal("the block has prefixes of the other family")
		}
	})
}

// TestPortMasksHoldThePorts: the masked constants of a range hold its ports and no others.
func TestPortMasksHoldThePorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint16().Draw(t, "first")
		last := rapid.Uint16Min(first).Draw(t, "last")
		held := map[uint16]int{}
		masks := portMasks(first, last)
		for _, text := range masks {
			value, mask := text, "0xffff"
			if v, m, masked := strings.Cut(text, "/"); masked {
				value, mask = v, m
			}
			v, err := strconv.ParseUint(value, 0, 16)
			if err != nil {
				t.Fatal(err)
			}
			m, err := strconv.ParseUint(mask, 0, 16)
			if err != nil {
				t.Fatal(err)
			}
			for port := range 1 << 16 {
				if uint64(port)&m == v {
					held[uint16(port)]++
				}
			}
		}
		for port := range 1 << 16 {
			want := 0
			if int(first) <= port && port <= int(last) {
				want = 1
			}
			if held[uint16(port)] != want {
				t.Fatalf("%d to %d: %v hold %d %d times", first, last, masks, port, held[uint16(port)])
			}
		}
	})
}

func TestRangesOfPortsAreJoined(t *testing.T) {
	for _, test := range []struct{ given, want string }{
		{"[{80 80} {81 81}]", "[{80 81}]"},
		{"[{90 99} {80 85} {83 95}]", "[{80 99}]"},
		{"[{1 65535} {80 80}]", "[{1 65535}]"},
		{"[{80 80} {82 82}]", "[{80 80} {82 82}]"},
	} {
		var spans []span
		for word := range strings.SplitSeq(strings.Trim(test.given, "[]{}"), "} {") {
			var s span
			if _, err := fmt.Sscan(word, &s.first, &s.last); err != nil {
				t.Fatal(err)
			}
			spans = append(spans, s)
		}
		if got := fmt.Sprint(joined(spans)); got != test.want {
			t.Errorf("%s become %s, want %s", test.given, got, test.want)
		}
	}
}
