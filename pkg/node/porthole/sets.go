package porthole

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// element is what is in a set, or in a map when it has a value, as the kernel has it.
type element struct {
	key, value []byte
	// end: the first key behind a range, in a set of ranges. The range's first is an element before it.
	end bool
}

// set is a set of elements, or a map of them when it has data.
type set struct {
	name      string
	key, data nftables.SetDatatype
	flags     uint32
	// number it has in its transaction.
	number uint32
	// size bounds what the kernel itself puts into it, by rules.
	size uint32
	// hostOrder: its keys are numbers as this machine writes them.
	hostOrder bool
}

// Orders of bytes that nft is told a set has, to show its elements; the kernel does not care. (enum byteorder in nft's
// include/datatype.h.)
const (
	orderHost = 1
	orderBig  = 2
)

// addSet adds a set with elements.
func (t *transaction) addSet(s set, elements []element) {
	t.named++
	s.number = firstNamed + t.named
	t.defineSet(s, len(elements))
	t.elements(unix.NFT_MSG_NEWSETELEM, s.name, elements)
}

// firstNamed is more than there are sets without names: how many these are changes no other's number.
const firstNamed = 1 << 16

// defineSet adds a set that has so many elements, and not yet these.
func (t *transaction) defineSet(s set, elements int) {
	if s.data.Bytes > 0 {
		s.flags |= unix.NFT_SET_MAP
	}
	t.say(unix.NFT_MSG_NEWSET, netlink.Create, func(e *netlink.AttributeEncoder) {
		e.String(unix.NFTA_SET_NAME, s.name)
		e.Uint32(unix.NFTA_SET_FLAGS, s.flags)
		e.Uint32(unix.NFTA_SET_KEY_TYPE, s.key.GetNFTMagic())
		e.Uint32(unix.NFTA_SET_KEY_LEN, s.key.Bytes)
		if s.data.Bytes > 0 {
			e.Uint32(unix.NFTA_SET_DATA_TYPE, s.data.GetNFTMagic())
			e.Uint32(unix.NFTA_SET_DATA_LEN, s.data.Bytes)
		}
		e.Uint32(unix.NFTA_SET_ID, s.number)
		if s.flags&unix.NFT_SET_CONSTANT != 0 {
			s.size = uint32(elements)
		}
		if s.size > 0 || s.flags&unix.NFT_SET_CONSTANT != 0 {
			e.Nested(unix.NFTA_SET_DESC, func(e *netlink.AttributeEncoder) error {
				e.Uint32(unix.NFTA_SET_DESC_SIZE, s.size)
				return nil
			})
		}
		order := uint32(orderBig)
		if s.hostOrder {
			order = orderHost
		}
		e.Bytes(unix.NFTA_SET_USERDATA, userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, order))
	})
}

// atATime is how many elements one message has: an attribute, here the list of them, has no more than 64 KiB.
const atATime = 500

// elements adds elements to a set that has a name, or takes them out.
func (t *transaction) elements(kind uint16, set string, elements []element) {
	if len(elements) > 0 {
		t.contents = append(t.contents, content{set: set, elements: elements, kind: kind})
	}
}

// say has the elements in a transaction. number is that of a set which has no name.
func (c content) say(t *transaction, number uint32) {
	for some := range slices.Chunk(c.elements, atATime) {
		t.say(c.kind, netlink.Create, func(e *netlink.AttributeEncoder) {
			e.String(unix.NFTA_SET_ELEM_LIST_SET, c.set)
			if number > 0 {
				e.Uint32(unix.NFTA_SET_ELEM_LIST_SET_ID, number)
			}
			e.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(e *netlink.AttributeEncoder) error {
				for _, one := range some {
					e.Nested(unix.NFTA_LIST_ELEM, one.encode)
				}
				return nil
			})
		})
	}
}

func (o element) encode(e *netlink.AttributeEncoder) error {
	value := func(of []byte) func(*netlink.AttributeEncoder) error {
		return func(e *netlink.AttributeEncoder) error {
			e.Bytes(unix.NFTA_DATA_VALUE, of)
			return nil
		}
	}
	if o.end {
		e.Uint32(unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
	}
	e.Nested(unix.NFTA_SET_ELEM_KEY, value(o.key))
	if o.value != nil {
		e.Nested(unix.NFTA_SET_ELEM_DATA, value(o.value))
	}
	return nil
}

// anonymous adds a set that one rule has for itself, and is that rule's look into it.
func (t *transaction) anonymous(s set, elements []element) *expr.Lookup {
	// The kernel puts a number in.
	s.name = "__set%d"
	if s.data.Bytes > 0 {
		s.name = "__map%d"
	}
	s.flags |= unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT
	t.nameless++
	s.number = t.nameless
	before := len(t.statements)
	t.defineSet(s, len(elements))
	content{set: s.name, elements: elements, kind: unix.NFT_MSG_NEWSETELEM}.say(t, s.number)
	for i := range t.statements[before:] {
		t.statements[before+i].chain = nextRule
	}
	return &expr.Lookup{SourceRegister: first, SetName: s.name, SetID: s.number}
}

// addressSets adds an empty set of single addresses per family.
func (t *transaction) addressSets(name string) {
	for _, f := range both {
		t.addSet(set{name: name + f.version, key: f.address}, nil)
	}
}

// addressMaps adds empty maps from address to address per family.
func (t *transaction) addressMaps(names ...string) {
	for _, f := range both {
		for _, name := range names {
			t.addSet(set{name: name + f.version, key: f.address, data: f.address}, nil)
		}
	}
}

// prefixSets adds a set of prefixes per family and fills it.
func (t *transaction) prefixSets(name string, all []netip.Prefix) {
	all = model.Outermost(all)
	for _, f := range both {
		var elements []element
		for _, p := range all {
			if f.has(p.Addr()) {
				elements = append(elements, rangeOf(p)...)
			}
		}
		t.addSet(set{name: name + f.version, key: f.address, flags: unix.NFT_SET_INTERVAL}, elements)
	}
}

// rangeOf is a prefix as two elements, or one when no address comes behind it.
func rangeOf(p netip.Prefix) []element {
	elements := []element{{key: p.Addr().AsSlice()}}
	behind := p.Addr().AsSlice()
	// Its last bit, and whatever that carries over to.
	for i, bit := (p.Bits()-1)/8, byte(1)<<(7-(p.Bits()-1)%8); p.Bits() > 0 && i >= 0; i, bit = i-1, 1 {
		behind[i] += bit
		if behind[i] >= bit {
			return append(elements, element{key: behind, end: true})
		}
	}
	return elements
}

// endpointSets adds a set of address and TCP port per family and fills it.
func (t *transaction) endpointSets(name string, all []netip.AddrPort) {
	for _, f := range both {
		var elements []element
		for _, e := range all {
			if f.has(e.Addr()) {
				elements = append(elements, element{key: endpointBytes(e)})
			}
		}
		t.addSet(set{name: name + f.version, key: f.endpoint}, elements)
	}
}

// endpointBytes are address and port as the kernel has them side by side: each part takes whole words of 4 bytes.
func endpointBytes(e netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(e.Addr().AsSlice(), e.Port()), 0, 0)
}
