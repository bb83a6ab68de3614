// Package alloc hands out the addresses of one CIDR. A Pool is a value in memory with one owner: it does no
// I/O and keeps nothing; what it gave is persisted on the pods, and a Pool is made anew from them.
//
// What must stay true: an address is held by at most one holder; a reserved address is never given; Used and
// Free count exactly; no address is given whose port would have another's number (model.PortNumber) while there are others.
package alloc

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// MaxFree bounds the count of free addresses that is reported, so that every JSON reader can carry it.
const MaxFree = 1<<53 - 1

// MinBits6 is the shortest IPv6 prefix that a Pool serves: what OVN and most hosts expect of a subnet, and
// as much as an offset of 64 bits can count. (RFC 4291 section 2.5.4.)
const MinBits6 = 64

// Outcome is what became of a wish for one address.
type Outcome uint8

// The outcomes of Take.
const (
	// Taken: the caller holds it now.
	Taken Outcome = iota
	// Outside: not an address of this pool's CIDR.
	Outside
	// Reserved: never given to anyone.
	Reserved
	// InUse: held by another.
	InUse
)

// Pool gives out the addresses of one CIDR, next after the last given, so that an address that was just
// released rests for as long as there are others. Not safe for concurrent use.
type Pool[H comparable] struct {
	prefix netip.Prefix
	last   uint64 // the offset of the last address of the CIDR
	// reserved offsets: sorted, disjoint, not adjacent.
	reserved []span
	// words hold one bit per held offset, 64 to a word; empty words are absent.
	words  map[uint64]uint64
	holder map[netip.Addr]H
	// exceptions counts held addresses that are reserved.
	exceptions uint64
	cursor     uint64 // where the next search starts
	// numbers counts the held addresses, and the reserved ones that are alone, such as a gateway, by their ports' numbers; nil where
	// all numbers differ.
	numbers map[int]int
}

type span struct{ first, last uint64 }

// New makes a pool of prefix without the reserved ranges (those outside of it are ignored). The network's and
// the broadcast address of IPv4, and the subnet-router anycast address of IPv6 (RFC 4291 section 2.6.1), are
// reserved by New itself; /31 and /127 have neither (RFC 3021, RFC 6164).
func New[H comparable](prefix netip.Prefix, reserved []model.AddrRange) (*Pool[H], error) {
	prefix = prefix.Masked()
	hostBits := prefix.Addr().BitLen() - prefix.Bits()
	if !prefix.IsValid() || hostBits > 64 {
		return nil, fmt.Errorf("serve %s: an IPv6 prefix must be at least /%d", prefix, MinBits6)
	}
	p := &Pool[H]{prefix: prefix, last: ^uint64(0), words: map[uint64]uint64{}, holder: map[netip.Addr]H{}}
	if hostBits < 64 {
		p.last = 1<<hostBits - 1
	}
	if hostBits > 1 {
		p.reserved = append(p.reserved, span{0, 0})
		if prefix.Addr().Is4() {
			p.reserved = append(p.reserved, span{p.last, p.last})
		}
	}
	if p.last >= model.PortNumbers {
		p.numbers = map[int]int{}
	}
	for _, r := range reserved {
		if s, ok := p.clip(r); ok {
			p.reserved = append(p.reserved, s)
			if s.first == s.last {
				p.count(s.first, 1)
			}
		}
	}
	p.reserved = merge(p.reserved)
	return p, nil
}

// Prefix is the pool's CIDR.
func (p *Pool[H]) Prefix() netip.Prefix { return p.prefix }

// Take gives one address to holder if it can be had; an address that holder has already is Taken again.
// Holders are any comparable keys. When it is InUse, the other holder is returned.
func (p *Pool[H]) Take(a netip.Addr, holder H) (outcome Outcome, other H) {
	off, ok := p.offset(a)
	if !ok {
		return Outside, other
	}
	if has, held := p.holder[a]; held {
		if has == holder {
			return Taken, other
		}
		return InUse, has
	}
	if _, isReserved := p.reservedSpan(off); isReserved {
		return Reserved, other
	}
	p.hold(off, a, holder)
	return Taken, other
}

// Keep gives holder an address that it had before, even one that has been reserved since: who has an address
// keeps it. The outcome is never Reserved.
func (p *Pool[H]) Keep(a netip.Addr, holder H) (outcome Outcome, other H) {
	outcome, other = p.Take(a, holder)
	if outcome == Reserved {
		off, _ := p.offset(a)
		p.hold(off, a, holder)
		p.exceptions++
		outcome = Taken
	}
	return outcome, other
}

// Next gives holder the next free address. It returns false when there is none.
func (p *Pool[H]) Next(holder H) (netip.Addr, bool) {
	if p.Free() == 0 {
		return netip.Addr{}, false
	}
	off, ok := p.next()
	if !ok {
		return netip.Addr{}, false
	}
	a := p.addr(off)
	p.hold(off, a, holder)
	p.cursor = off + 1
	if off == p.last {
		p.cursor = 0
	}
	return a, true
}

// next finds a free offset from the cursor on whose number nobody has; any free one if there is none.
func (p *Pool[H]) next() (uint64, bool) {
	first, ok := p.searchFrom(p.cursor)
	if !ok || len(p.numbers) >= model.PortNumbers {
		return first, ok
	}
	off := first
	for p.numbers[model.NumberOfHost(off)] > 0 {
		if off, ok = p.searchFrom(off + 1); !ok || off == first {
			return first, true
		}
	}
	return off, true
}

// searchFrom finds the first free offset from one on, and then from the first one on.
func (p *Pool[H]) searchFrom(from uint64) (uint64, bool) {
	if from > p.last {
		from = 0
	}
	off, ok := p.search(from, p.last)
	if !ok && from > 0 {
		off, ok = p.search(0, from-1)
	}
	return off, ok
}

// Release ends holder's hold on a; it is nothing when holder does not hold it.
func (p *Pool[H]) Release(a netip.Addr, holder H) {
	if has, held := p.holder[a]; !held || has != holder {
		return
	}
	off, _ := p.offset(a)
	delete(p.holder, a)
	if _, isReserved := p.reservedSpan(off); isReserved {
		p.exceptions--
	}
	if p.words[off/64] &^= 1 << (off % 64); p.words[off/64] == 0 {
		delete(p.words, off/64)
	}
	p.count(off, -1)
}

// count adds to who has an offset's number.
func (p *Pool[H]) count(off uint64, change int) {
	if p.numbers == nil {
		return
	}
	number := model.NumberOfHost(off)
	if p.numbers[number] += change; p.numbers[number] == 0 {
		delete(p.numbers, number)
	}
}

// SharesNumber reports whether the port of an address would ask for a number that the port of another one has (model.PortNumber),
// which is held, or reserved by itself.
func (p *Pool[H]) SharesNumber(a netip.Addr) bool {
	off, ok := p.offset(a)
	others := p.numbers[model.NumberOfHost(off)]
	if _, held := p.holder[a]; held {
		others--
	}
	return ok && others > 0
}

// Holder is who holds an address; false when nobody does.
func (p *Pool[H]) Holder(a netip.Addr) (H, bool) {
	holder, held := p.holder[a]
	return holder, held
}

// Each calls do with each address that is held, in no order.
func (p *Pool[H]) Each(do func(a netip.Addr, holder H)) {
	for a, holder := range p.holder {
		do(a, holder)
	}
}

// Used is the number of addresses that are held.
func (p *Pool[H]) Used() int64 { return int64(len(p.holder)) }

// Free is the number of addresses that can still be had, at most MaxFree.
func (p *Pool[H]) Free() int64 {
	taken := uint64(len(p.holder)) - p.exceptions
	for _, s := range p.reserved {
		taken += s.last - s.first + 1
	}
	// p.last+1 may not fit; the subtraction is in order because taken is at least one there.
	free := p.last - taken + 1
	if taken == 0 && p.last == ^uint64(0) {
		return MaxFree
	}
	return int64(min(free, MaxFree))
}

func (p *Pool[H]) hold(off uint64, a netip.Addr, holder H) {
	p.words[off/64] |= 1 << (off % 64)
	p.holder[a] = holder
	p.count(off, 1)
}

// search finds the first offset in [from, to] that is neither held nor reserved. It looks at 64 at a time.
func (p *Pool[H]) search(from, to uint64) (uint64, bool) {
	for off := from; off <= to; {
		if s, ok := p.reservedSpan(off); ok {
			if s.last >= to {
				return 0, false
			}
			off = s.last + 1
			continue
		}
		free := ^p.words[off/64] >> (off % 64)
		if free == 0 {
			next := (off/64 + 1) * 64
			if next == 0 || next > to {
				return 0, false
			}
			off = next
			continue
		}
		skip := uint64(bits.TrailingZeros64(free))
		if skip == 0 {
			return off, true
		}
		if to-off < skip {
			return 0, false
		}
		off += skip
	}
	return 0, false
}

// reservedSpan finds the reserved range that holds off.
func (p *Pool[H]) reservedSpan(off uint64) (span, bool) {
	i, _ := slices.BinarySearchFunc(p.reserved, off, func(s span, off uint64) int {
		return cmp.Compare(s.last, off)
	})
	if i < len(p.reserved) && p.reserved[i].first <= off {
		return p.reserved[i], true
	}
	return span{}, false
}

func (p *Pool[H]) clip(r model.AddrRange) (span, bool) {
	first, last := p.prefix.Addr(), p.addr(p.last)
	if r.First.BitLen() != first.BitLen() || r.Last.BitLen() != first.BitLen() || r.Last.Less(r.First) ||
		r.Last.Less(first) || last.Less(r.First) {
		return span{}, false
	}
	s := span{0, p.last}
	if first.Less(r.First) {
		s.first, _ = p.offset(r.First)
	}
	if r.Last.Less(last) {
		s.last, _ = p.offset(r.Last)
	}
	return s, true
}

func (p *Pool[H]) offset(a netip.Addr) (uint64, bool) {
	if !p.prefix.Contains(a) {
		return 0, false
	}
	return low64(a) - low64(p.prefix.Addr()), true
}

func (p *Pool[H]) addr(off uint64) netip.Addr {
	if p.prefix.Addr().Is4() {
		base := p.prefix.Addr().As4()
		binary.BigEndian.PutUint32(base[:], binary.BigEndian.Uint32(base[:])+uint32(off))
		return netip.AddrFrom4(base)
	}
	base := p.prefix.Addr().As16()
	binary.BigEndian.PutUint64(base[8:], binary.BigEndian.Uint64(base[8:])+off)
	return netip.AddrFrom16(base)
}

func low64(a netip.Addr) uint64 {
	if a.Is4() {
		b := a.As4()
		return uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// merge sorts spans and joins those that overlap or touch.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && (s.first <= out[n-1].last || s.first == out[n-1].last+1) {
			out[n-1].last = max(out[n-1].last, s.last)
			continue
		}
		out = append(out, s)
	}
	return out
}
