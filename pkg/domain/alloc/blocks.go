package alloc

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// maxBlockBits bounds how many blocks a range can have: 2 to this power.
const maxBlockBits = 24

// Blocks gives out the blocks of one range: prefixes of one length, next after the last given. Not safe for concurrent
// use.
type Blocks struct {
	from   netip.Prefix
	bits   int
	count  uint64
	holder map[netip.Prefix]string
	cursor uint64
}

// NewBlocks divides a range into blocks of the prefix length bits.
func NewBlocks(from netip.Prefix, bits int) (*Blocks, error) {
	if !from.IsValid() || from != from.Masked() || from.Addr().Is4In6() {
		return nil, fmt.Errorf("%s is not the CIDR of a range", from)
	}
	if bits < from.Bits() || bits > from.Addr().BitLen() || bits-from.Bits() > maxBlockBits {
		return nil, fmt.Errorf("%s cannot be divided into blocks of /%d: a range holds 1 to %d blocks", from, bits, 1<<maxBlockBits)
	}
	return &Blocks{from: from, bits: bits, count: 1 << (bits - from.Bits()), holder: map[netip.Prefix]string{}}, nil
}

// Range is what the blocks are of.
func (b *Blocks) Range() netip.Prefix { return b.from }

// Take gives one block to holder if it can be had; see Pool.Take. The outcome is never Reserved.
func (b *Blocks) Take(block netip.Prefix, holder string) (Outcome, string) {
	if block.Bits() != b.bits || block != block.Masked() || !b.from.Contains(block.Addr()) {
		return Outside, ""
	}
	if other, held := b.holder[block]; held && other != holder {
		return InUse, other
	}
	b.holder[block] = holder
	return Taken, ""
}

// Holding is the block that an address would be in; false when it is outside of the range.
func (b *Blocks) Holding(a netip.Addr) (netip.Prefix, bool) {
	if !b.from.Contains(a) {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, b.bits).Masked(), true
}

// Holder is who holds the block that an address is in; empty when nobody does, or the address is outside of the range.
func (b *Blocks) Holder(a netip.Addr) string {
	block, ok := b.Holding(a)
	if !ok {
		return ""
	}
	return b.holder[block]
}

// Next gives holder the next free block. It returns false when there is none.
func (b *Blocks) Next(holder string) (netip.Prefix, bool) {
	if uint64(len(b.holder)) >= b.count {
		return netip.Prefix{}, false
	}
	for range b.count {
		block := b.at(b.cursor)
		b.cursor = (b.cursor + 1) % b.count
		if _, held := b.holder[block]; !held {
			b.holder[block] = holder
			return block, true
		}
	}
	return netip.Prefix{}, false
}

// Release ends holder's hold on a block; it is nothing when holder does not hold it.
func (b *Blocks) Release(block netip.Prefix, holder string) {
	if b.holder[block] == holder {
		delete(b.holder, block)
	}
}

// at is the block of a number.
func (b *Blocks) at(number uint64) netip.Prefix {
	raw := b.from.Addr().AsSlice()
	// The number lies in the bits between the range's prefix and the block's, which fit into 64 with the rest of a byte.
	shift := b.from.Addr().BitLen() - b.bits
	wide := make([]byte, 16)
	copy(wide[16-len(raw):], raw)
	high, low := binary.BigEndian.Uint64(wide[:8]), binary.BigEndian.Uint64(wide[8:])
	if shift >= 64 {
		high |= number << (shift - 64)
	} else {
		low |= number << shift
		high |= number >> 1 >> (63 - shift)
	}
	binary.BigEndian.PutUint64(wide[:8], high)
	binary.BigEndian.PutUint64(wide[8:], low)
	a, _ := netip.AddrFromSlice(wide[16-len(raw):])
	return netip.PrefixFrom(a, b.bits)
}
