package capture

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Where things are in an Ethernet frame (RFC 894, RFC 2464), in bytes.
const (
	frameHeader   = 14
	etherType     = 12
	sender4       = frameHeader + 12
	receiver4     = frameHeader + 16
	protocol4     = frameHeader + 9
	fragment4     = frameHeader + 6
	sender6       = frameHeader + 8
	receiver6     = frameHeader + 24
	protocol6     = frameHeader + 6
	header6       = 40
	senderARP     = frameHeader + 14
	receiverARP   = frameHeader + 24
	maxExtensions = 4
)

// The protocols of IPv6 that lead to another (RFC 8200).
const (
	hopByHop    = 0
	routing     = 43
	fragment    = 44
	destination = 60
)

const (
	accept = "accept"
	reject = "reject"
)

// sides are which packets of an interface are taken beside the filter.
type sides struct{ incoming, outgoing bool }

// sides are those of a direction. On loopback each packet is there twice, on its way out and in: it is taken once.
func (d Direction) sides(loopback bool) sides {
	switch {
	case d == In, loopback && d == Both:
		return sides{incoming: true}
	case d == Out:
		return sides{outgoing: true}
	}
	return sides{true, true}
}

// program is the filter as the kernel runs it, for frames with an Ethernet header: it returns how many bytes are kept.
func (s Spec) program(sides sides) ([]bpf.Instruction, []bpf.RawInstruction, error) {
	a := NewAssembler()
	if sides.incoming != sides.outgoing {
		test := bpf.JumpEqual
		if sides.outgoing {
			test = bpf.JumpNotEqual
		}
		a.Add(bpf.LoadExtension{Num: bpf.ExtType})
		a.When(test, unix.PACKET_OUTGOING, reject)
	}
	if !s.Filter.Empty() {
		a.Add(bpf.LoadAbsolute{Off: etherType, Size: 2})
		a.When(bpf.JumpEqual, unix.ETH_P_IP, "four")
		a.When(bpf.JumpEqual, unix.ETH_P_IPV6, "six")
		a.When(bpf.JumpEqual, unix.ETH_P_ARP, arp)
		a.Jump(reject)
		s.Filter.addARP(a)
		s.Filter.addFour(a)
		s.Filter.addSix(a)
	}
	a.Mark(accept)
	a.Add(bpf.RetConstant{Val: uint32(s.SnapLength)})
	a.Mark(reject)
	a.Add(bpf.RetConstant{Val: 0})
	raw, err := a.Assemble()
	return a.Instructions(), raw, err
}

// addARP has ARP judged: it has addresses, and no ports.
func (f Filter) addARP(a *Assembler) {
	a.Mark(arp)
	wanted := len(f.Protocols) == 0
	for _, p := range f.Protocols {
		wanted = wanted || p == arp
	}
	if !wanted || len(f.Ports) > 0 {
		a.Jump(reject)
		return
	}
	f.addPrefixes(a, "arp-known", senderARP, receiverARP, netip.Addr.Is4)
	a.Jump(accept)
}

func (f Filter) addFour(a *Assembler) {
	a.Mark("four")
	f.addPrefixes(a, "four-known", sender4, receiver4, netip.Addr.Is4)
	a.Add(bpf.LoadAbsolute{Off: protocol4, Size: 1})
	f.addProtocols(a, "four-protocol", func(p protocol) uint32 { return p.four })
	if len(f.Ports) > 0 {
		a.Among([]uint32{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP}, "four-ports")
		a.Jump(reject)
		a.Mark("four-ports")
		a.Add(bpf.LoadAbsolute{Off: fragment4, Size: 2})
		a.Add(bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipFalse: 1})
		a.Jump(reject)
		a.Add(bpf.LoadMemShift{Off: frameHeader})
		f.addPorts(a)
	}
	a.Jump(accept)
}

func (f Filter) addSix(a *Assembler) {
	a.Mark("six")
	f.addPrefixes(a, "six-known", sender6, receiver6, netip.Addr.Is6)
	a.Add(bpf.LoadConstant{Dst: bpf.RegX, Val: header6}, bpf.LoadAbsolute{Off: protocol6, Size: 1})
	// In A is the protocol that follows, in X where it begins.
	for i := range maxExtensions {
		label := func(what string) string { return fmt.Sprintf("%s-%d", what, i) }
		a.When(bpf.JumpEqual, fragment, label("fragment"))
		a.Among([]uint32{hopByHop, routing, destination}, label("extension"))
		a.Jump("six-upper")
		a.Mark(label("extension"))
		a.Add(
			bpf.LoadIndirect{Off: frameHeader, Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: 0},
			// Its length is in units of 8 bytes beyond the first.
			bpf.LoadIndirect{Off: frameHeader + 1, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1},
			bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 3},
			bpf.ALUOpX{Op: bpf.ALUOpAdd}, bpf.TAX{}, bpf.LoadScratch{Dst: bpf.RegA, N: 0},
		)
		a.Jump(label("next"))
		a.Mark(label("fragment"))
		a.Add(bpf.LoadIndirect{Off: frameHeader, Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: 0}, bpf.LoadIndirect{Off: frameHeader + 2, Size: 2})
		a.Add(bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0xfff8, SkipFalse: 1})
		a.Jump("six-later")
		a.Add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 8}, bpf.TAX{}, bpf.LoadScratch{Dst: bpf.RegA, N: 0})
		a.Mark(label("next"))
	}
	a.Jump("six-upper")
	// A fragment that is not the first tells its protocol, and no ports.
	a.Mark("six-later")
	if len(f.Ports) > 0 {
		a.Jump(reject)
	}
	a.Add(bpf.LoadScratch{Dst: bpf.RegA, N: 0})
	a.Mark("six-upper")
	f.addProtocols(a, "six-protocol", func(p protocol) uint32 { return p.six })
	if len(f.Ports) > 0 {
		a.Among([]uint32{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP}, "six-ports")
		a.Jump(reject)
		a.Mark("six-ports")
		f.addPorts(a)
	}
}

// addPrefixes goes on if one of the addresses is in a prefix of a family, and rejects if not.
func (f Filter) addPrefixes(a *Assembler, known string, from, to uint32, family func(netip.Addr) bool) {
	if len(f.Prefixes) == 0 {
		return
	}
	for i, p := range f.Prefixes {
		if !family(p.Addr()) {
			continue
		}
		for _, offset := range []uint32{from, to} {
			other := fmt.Sprintf("%s-%d-%d", known, i, offset)
			address := p.Masked().Addr().AsSlice()
			for word, left := 0, p.Bits(); left > 0; word, left = word+1, left-32 {
				mask := ^uint32(0) << max(32-left, 0)
				a.Add(bpf.LoadAbsolute{Off: offset + uint32(4*word), Size: 4}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
				a.When(bpf.JumpNotEqual, binary.BigEndian.Uint32(address[4*word:]), other)
			}
			a.Jump(known)
			a.Mark(other)
		}
	}
	a.Jump(reject)
	a.Mark(known)
}

// addProtocols goes on if the accumulator is one of the protocols, and keeps it.
func (f Filter) addProtocols(a *Assembler, known string, number func(protocol) uint32) {
	if len(f.Protocols) == 0 {
		return
	}
	all := protocols()
	for _, name := range f.Protocols {
		if n := number(all[name]); n != 0 {
			a.When(bpf.JumpEqual, n, known)
		}
	}
	a.Jump(reject)
	a.Mark(known)
}

// addPorts accepts if one of the ports at X is wanted, and rejects if not.
func (f Filter) addPorts(a *Assembler) {
	for _, offset := range []uint32{frameHeader, frameHeader + 2} {
		a.Add(bpf.LoadIndirect{Off: offset, Size: 2})
		for _, p := range f.Ports {
			a.When(bpf.JumpEqual, uint32(p), accept)
		}
	}
	a.Jump(reject)
}
