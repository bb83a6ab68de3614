package observe

import (
	"encoding/binary"

	"golang.org/x/net/bpf"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// Numbers of protocols (IANA), and where things are in their headers, in bytes.
const (
	protoICMP, protoTCP, protoUDP, protoICMPv6 = 1, 6, 17, 58

	geneve     = 6081
	ethernet   = 0x6558
	etherTypes = 12
	etherSize  = 14
	type4      = 0x0800
	type6      = 0x86dd

	size6        = 40
	sizeUDP      = 8
	sizeGeneve   = 8
	payload      = 8
	sequence     = 4
	acknowledged = 8
)

// kept is how much the kernel hands over of a packet, in bytes: the headers of a tunnel with the longest options that Geneve has,
// and those of the packet in it.
const kept = 512

const (
	accept = "accept"
	reject = "reject"
)

// program is the filter as the kernel runs it, for packets that begin with their IP header. It has each of the Watch's packets
// and answers, and few others: read knows them exactly. A look beyond a packet's end rejects it.
func (w Watch) program() ([]bpf.Instruction, []bpf.RawInstruction, error) {
	a := capture.NewAssembler()
	a.Add(bpf.LoadConstant{Dst: bpf.RegX, Val: 0})
	a.Add(bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	w.addIP(a, "outer")
	a.Mark("outer-upper")
	a.Add(bpf.LoadScratch{Dst: bpf.RegA, N: 0})
	// A packet of another protocol may be in a tunnel's UDP.
	a.When(bpf.JumpNotEqual, protoUDP, "outer-own")
	a.Add(bpf.LoadIndirect{Off: 2, Size: 2})
	a.When(bpf.JumpNotEqual, geneve, "outer-own")
	// A pod may send to this port inside its Network what is no tunnel's packet.
	a.Add(bpf.LoadIndirect{Off: sizeUDP + 2, Size: 2})
	a.When(bpf.JumpEqual, ethernet, "geneve")
	a.Mark("outer-own")
	w.addOwn(a, "outer")
	addGeneve(a)
	w.addIP(a, "inner")
	a.Mark("inner-upper")
	w.addOwn(a, "inner")
	a.Mark(accept)
	a.Add(bpf.RetConstant{Val: kept})
	a.Mark(reject)
	a.Add(bpf.RetConstant{Val: 0})
	raw, err := a.Assemble()
	return a.Instructions(), raw, err
}

// addIP finds the header beyond that of IP. In A is the version of IP, in X where the header begins. It goes on at upper, with
// what follows in scratch 0 and where that begins in X.
func (w Watch) addIP(a *capture.Assembler, where string) {
	upper := where + "-upper"
	a.When(bpf.JumpEqual, 6, where+"-six")
	a.When(bpf.JumpNotEqual, 4, reject)
	a.Add(bpf.LoadIndirect{Off: 6, Size: 2})
	// A later fragment has no header beyond.
	a.Add(bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x1fff, SkipTrue: 1})
	a.Jump(reject)
	a.Add(bpf.LoadIndirect{Off: 9, Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: 0})
	addHeader4(a)
	a.Jump(upper)
	a.Mark(where + "-six")
	a.Add(bpf.LoadIndirect{Off: 6, Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: 0})
	a.Add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: size6}, bpf.TAX{})
	a.Jump(upper)
}

// addHeader4 has X go beyond the header of IPv4 that it is at.
func addHeader4(a *capture.Assembler) {
	a.Add(
		bpf.LoadIndirect{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
		bpf.ALUOpX{Op: bpf.ALUOpAdd}, bpf.TAX{},
	)
}

// addGeneve goes on to the packet in a tunnel (RFC 8926), of whose outer UDP X is at the header.
func addGeneve(a *capture.Assembler) {
	a.Mark("geneve")
	// Its length is that of the options, in units of 4 bytes.
	a.Add(
		bpf.LoadIndirect{Off: sizeUDP, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x3f},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 2},
		bpf.ALUOpX{Op: bpf.ALUOpAdd}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: sizeUDP + sizeGeneve + etherSize}, bpf.TAX{},
		bpf.LoadIndirect{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4},
	)
}

// addOwn accepts what is the Watch's, and rejects what is not. In scratch 0 is the protocol, and X is where it begins.
func (w Watch) addOwn(a *capture.Assembler, where string) {
	label := func(what string) string { return where + "-" + what }
	a.Add(bpf.LoadScratch{Dst: bpf.RegA, N: 0})
	a.Among([]uint32{protoICMP, protoICMPv6}, label("icmp"))
	switch w.Protocol {
	case model.TCP:
		a.When(bpf.JumpNotEqual, protoTCP, reject)
		w.addSequence(a, sequence, 0)
		w.addSequence(a, acknowledged, 1)
	case model.UDP:
		a.When(bpf.JumpNotEqual, protoUDP, reject)
		a.Add(bpf.LoadIndirect{Off: 0, Size: 2})
		for _, port := range w.Ports {
			a.When(bpf.JumpEqual, uint32(port), accept)
		}
		w.addPayload(a, label("payload"))
	}
	a.Jump(reject)
	a.Mark(label("icmp"))
	if w.Protocol == ping.ICMP {
		w.addPayload(a, label("echo"))
	}
	w.addQuoted(a, label)
	a.Jump(reject)
}

// addSequence accepts what has one of the Watch's sequence numbers, plus something, at an offset of X.
func (w Watch) addSequence(a *capture.Assembler, offset, plus uint32) {
	a.Add(bpf.LoadIndirect{Off: offset, Size: 4})
	for n := range w.Targets {
		a.When(bpf.JumpEqual, w.Mark.Sequence(n)+plus, accept)
	}
}

// addPayload accepts what has one of the Watch's payloads beyond a header of 8 bytes, UDP's or that of an echo request, at X.
func (w Watch) addPayload(a *capture.Assembler, other string) {
	begins := w.Mark.Payload(0)
	for word := 0; word < len(begins)-4; word += 4 {
		a.Add(bpf.LoadIndirect{Off: uint32(payload + word), Size: 4})
		a.When(bpf.JumpNotEqual, binary.BigEndian.Uint32(begins[word:]), other)
	}
	w.addSequence(a, payload+uint32(len(begins))-4, 0)
	a.Mark(other)
}

// addQuoted accepts errors of ICMP that quote one of the Watch's packets (RFC 792, RFC 4443), of which X is at the header.
func (w Watch) addQuoted(a *capture.Assembler, label func(string) string) {
	a.Add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: payload}, bpf.TAX{})
	a.Add(bpf.LoadIndirect{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	a.When(bpf.JumpEqual, 6, label("quoted-six"))
	a.When(bpf.JumpNotEqual, 4, reject)
	addHeader4(a)
	a.Jump(label("quoted"))
	a.Mark(label("quoted-six"))
	a.Add(bpf.TXA{}, bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: size6}, bpf.TAX{})
	a.Mark(label("quoted"))
	if w.Protocol == model.TCP {
		w.addSequence(a, sequence, 0)
		return
	}
	w.addPayload(a, label("quoted-other"))
}
