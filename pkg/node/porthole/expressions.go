package porthole

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// words are a part of a rule: an address, a comparison, a verdict. A rule reads as nft shows it, from left to right. What looks at a
// packet leaves a value in the first register; what compares takes it from there.
type words []expr.Any

// first is the register that words hand each other values in.
const first = unix.NFT_REG_1

// family is one of the two families of addresses.
type family struct {
	// version is the 4 or 6 in names of sets, and any an address of it.
	version string
	any     netip.Addr
	// protocol is its number in netfilter.
	protocol byte
	// address and endpoint are the types of an address, and of an address and a TCP port.
	address, endpoint nftables.SetDatatype
	// from and to are where addresses are in a packet's header, in bytes.
	from, to uint32
	// second is the register behind an address in the first one.
	second uint32
}

// both families.
var both = [2]family{
	{
		version: "4", any: netip.IPv4Unspecified(), protocol: unix.NFPROTO_IPV4,
		address: nftables.TypeIPAddr, endpoint: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService),
		from: 12, to: 16, second: unix.NFT_REG32_01,
	},
	{
		version: "6", any: netip.IPv6Unspecified(), protocol: unix.NFPROTO_IPV6,
		address: nftables.TypeIP6Addr, endpoint: nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetService),
		from: 8, to: 24, second: unix.NFT_REG_2,
	},
}

// familyOf is the family of an address.
func familyOf(a netip.Addr) family {
	if both[0].has(a) {
		return both[0]
	}
	return both[1]
}

// has reports whether an address is of the family.
func (f family) has(a netip.Addr) bool { return a.Is4() == f.any.Is4() }

// is: the packet is of the family.
func (f family) is() words {
	return append(words{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: first}}, equal([]byte{f.protocol})...)
}

// saddr is the packet's source.
func (f family) saddr() words { return append(f.is(), f.header(f.from)) }

// daddr is its destination.
func (f family) daddr() words { return append(f.is(), f.header(f.to)) }

func (f family) header(at uint32) *expr.Payload {
	return &expr.Payload{DestRegister: first, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: f.address.Bytes}
}

// tcpEndpoint is a TCP packet's destination and the port there.
func (f family) tcpEndpoint() words {
	return append(append(f.is(), l4proto(unix.IPPROTO_TCP)...), f.header(f.to), destinationPort(f.second))
}

// udpPort is a UDP packet's destination port.
func udpPort() words { return append(l4proto(unix.IPPROTO_UDP), destinationPort(first)) }

// destinationPort is at the same place for TCP and UDP.
func destinationPort(register uint32) *expr.Payload {
	return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

// dport is the destination's port, of whatever protocol was asked for before.
func dport(is uint16) words {
	return append(words{destinationPort(first)}, equal(binary.BigEndian.AppendUint16(nil, is))...)
}

// l4proto: the packet is of a protocol. (IANA, protocol numbers.)
func l4proto(is byte) words { return append(l4protocol(), equal([]byte{is})...) }

// l4protocol is the packet's protocol.
func l4protocol() words { return words{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: first}} }

// icmpType is the type of an ICMP message of the family. (RFC 792, RFC 4443.)
func (f family) icmpType() words {
	protocol := byte(unix.IPPROTO_ICMP)
	if f.version == "6" {
		protocol = unix.IPPROTO_ICMPV6
	}
	return append(append(f.is(), l4proto(protocol)...), &expr.Payload{DestRegister: first, Base: expr.PayloadBaseTransportHeader, Len: 1})
}

// equal: what was looked at is that.
func equal(to []byte) words { return words{&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: to}} }

// iif is the interface that the packet came by, oif the one that it leaves by.
func iif() words { return words{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: first}} }
func oif() words { return words{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: first}} }

// iifname: it came by an interface; with * at its end, one whose name begins so. iifnameNot is the contrary.
func iifname(is string) words    { return append(iif(), named(expr.CmpOpEq, is)) }
func iifnameNot(is string) words { return append(iif(), named(expr.CmpOpNeq, is)) }

// oifname: it leaves by one.
func oifname(is string) words { return append(oif(), named(expr.CmpOpEq, is)) }

func named(compare expr.CmpOp, name string) *expr.Cmp {
	data := ifname(name)
	if begin, wildcard := strings.CutSuffix(name, "*"); wildcard {
		data = []byte(begin)
	}
	return &expr.Cmp{Op: compare, Register: first, Data: data}
}

// iifToOif are the interface that it came by and, in the register behind, the one that it leaves by; oifToIif the contrary.
func iifToOif() words { return interfaces(expr.MetaKeyIIFNAME, expr.MetaKeyOIFNAME) }
func oifToIif() words { return interfaces(expr.MetaKeyOIFNAME, expr.MetaKeyIIFNAME) }

func interfaces(one, other expr.MetaKey) words {
	return words{&expr.Meta{Key: one, Register: first}, &expr.Meta{Key: other, Register: unix.NFT_REG_2}}
}

// ifname is an interface's name as the kernel has it.
func ifname(name string) []byte {
	out := make([]byte, unix.IFNAMSIZ)
	copy(out[:unix.IFNAMSIZ-1], name)
	return out
}

// ifnames are several, for a set.
func ifnames(names ...string) (elements []element) {
	for _, name := range names {
		elements = append(elements, element{key: ifname(name)})
	}
	return elements
}

// in: what was looked at is in a set.
func in(name string) words { return words{&expr.Lookup{SourceRegister: first, SetName: name}} }

// notIn is the contrary.
func notIn(name string) words {
	return words{&expr.Lookup{SourceRegister: first, SetName: name, Invert: true}}
}

// mapped is what a map has for what was looked at; whoever is not in it does not match.
func mapped(name string) words {
	return words{&expr.Lookup{SourceRegister: first, DestRegister: first, IsDestRegSet: true, SetName: name}}
}

// oneOf: what was looked at is one of these. It is part of the rule that is written next.
func (t *transaction) oneOf(kind nftables.SetDatatype, of []element) words {
	if len(of) == 1 {
		return equal(of[0].key)
	}
	return words{t.among(kind, of)}
}

// noneOf is the contrary.
func (t *transaction) noneOf(kind nftables.SetDatatype, of []element) words {
	lookup := t.among(kind, of)
	lookup.Invert = true
	return words{lookup}
}

func (t *transaction) among(kind nftables.SetDatatype, of []element) *expr.Lookup {
	return t.anonymous(set{key: kind, hostOrder: kind == nftables.TypeIFName}, of)
}

// bytesOf are elements of one byte each.
func bytesOf(all ...byte) (elements []element) {
	for _, b := range all {
		elements = append(elements, element{key: []byte{b}})
	}
	return elements
}

// ctState: the packet's connection is in one of the states.
func ctState(states uint32) words { return ctBits(expr.CtKeySTATE, states) }

// The states of a connection. (NF_CT_STATE_BIT, linux/netfilter/nf_conntrack_common.h.)
const (
	invalid     = expr.CtStateBitINVALID
	established = expr.CtStateBitESTABLISHED
	related     = expr.CtStateBitRELATED
)

// ctStatusDNAT: its connection leads to another destination than it was sent to. (IPS_DST_NAT, same file.)
func ctStatusDNAT() words { return ctBits(expr.CtKeySTATUS, 1<<5) }

func ctBits(key expr.CtKey, bits uint32) words {
	return words{
		&expr.Ct{Key: key, Register: first},
		&expr.Bitwise{
			SourceRegister: first, DestRegister: first, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, bits), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: make([]byte, 4)},
	}
}

// ctReply: it goes the other way than its connection's first packet. (IP_CT_DIR_REPLY, linux/netfilter/nf_conntrack_tuple_common.h.)
func ctReply() words {
	return append(words{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: first}}, equal([]byte{1})...)
}

// ctOriginal: it goes the way of its connection's first packet.
func ctOriginal() words {
	return append(words{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: first}}, equal([]byte{0})...)
}

// noWayBack: no route leads to the packet's source by the interface that it came by.
func noWayBack() words {
	return append(words{&expr.Fib{Register: first, FlagSADDR: true, FlagIIF: true, ResultOIF: true, FlagPRESENT: true}},
		equal(make([]byte, 4))...)
}

// fromHere: its source is an address of this namespace.
func fromHere() words {
	return append(words{&expr.Fib{Register: first, FlagSADDR: true, ResultADDRTYPE: true}},
		equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL))...)
}

// toHere: its destination is one.
func toHere() words {
	return append(words{&expr.Fib{Register: first, FlagDADDR: true, ResultADDRTYPE: true}},
		equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL))...)
}

// ofSocket: a process of this namespace sends it. No user has the greatest number. (chown(2) takes it for none.)
func ofSocket() words {
	return words{
		&expr.Meta{Key: expr.MetaKeySKUID, Register: first}, &expr.Cmp{Op: expr.CmpOpNeq, Register: first, Data: bytes.Repeat([]byte{0xff}, 4)},
	}
}

// inTunnel is a bit of the packet mark. It marks what the node sends to the bridge, so that the packet is recognized again after it
// was put into a tunnel: inside the kernel the packet still belongs to its sender and keeps its mark. A program that may set marks
// (CAP_NET_RAW, CAP_NET_ADMIN) may also write such packets directly.
const inTunnel = 1 << 24

// mark sets it, and leaves the other bits.
func mark() words {
	keep, bit := binary.NativeEndian.AppendUint32(nil, ^uint32(inTunnel)), binary.NativeEndian.AppendUint32(nil, inTunnel)
	return words{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: first},
		&expr.Bitwise{SourceRegister: first, DestRegister: first, Len: 4, Mask: keep, Xor: bit},
		&expr.Meta{Key: expr.MetaKeyMARK, Register: first, SourceRegister: true},
	}
}

// unmarked: the packet does not have it.
func unmarked() words {
	return words{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: first},
		&expr.Bitwise{
			SourceRegister: first, DestRegister: first, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, inTunnel), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: make([]byte, 4)},
	}
}

// Verdicts.

func accept() words { return verdict(expr.VerdictAccept, "") }
func drop() words   { return verdict(expr.VerdictDrop, "") }

// back ends the chain, and the one that led to it goes on.
func back() words { return verdict(expr.VerdictReturn, "") }

// goTo has another chain judge.
func goTo(chain string) words { return verdict(expr.VerdictGoto, chain) }

// ask has another chain judge, and goes on if that decides nothing.
func ask(chain string) words { return verdict(expr.VerdictJump, chain) }

func verdict(kind expr.VerdictKind, chain string) words {
	return words{&expr.Verdict{Kind: kind, Chain: chain}}
}

// rejectTCP tells the sender of a TCP packet that there is no connection.
func rejectTCP() words {
	return append(l4proto(unix.IPPROTO_TCP), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
}

// prohibited tells the sender of any other packet that an administrator forbids it.
func prohibited() words {
	return words{&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}}
}

// snat gives the packet the source that was looked up, and those of its connection after it; dnat the destination.
func (f family) snat() words { return f.nat(expr.NATTypeSourceNAT) }
func (f family) dnat() words { return f.nat(expr.NATTypeDestNAT) }

func (f family) nat(kind expr.NATType) words {
	return words{&expr.NAT{Type: kind, Family: uint32(f.protocol), RegAddrMin: first}}
}

// snatTo gives it a given source.
func snatTo(a netip.Addr) words {
	return append(words{&expr.Immediate{Register: first, Data: a.AsSlice()}}, familyOf(a).snat()...)
}

// snatToRandom chooses the port by chance, too.
func snatToRandom(a netip.Addr) words {
	f := familyOf(a)
	return words{
		&expr.Immediate{Register: first, Data: a.AsSlice()},
		&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.protocol), RegAddrMin: first, FullyRandom: true},
	}
}

// bind leads a connection to where it goes anyway: who has been led once is led nowhere else, whatever chains come later.
// (nf_nat_inet_fn in net/netfilter/nf_nat_core.c asks no further one.)
func (f family) bind() words { return append(words{f.header(f.to)}, f.dnat()...) }

// masquerade gives it the address of the interface that it leaves by.
func masquerade() words { return words{&expr.Masq{}} }

// masqueradeRandom chooses the port by chance, too, so that nobody can tell which comes next.
func masqueradeRandom() words { return words{&expr.Masq{FullyRandom: true}} }

// dnatToOne leads a connection to one of some endpoints of a family, by chance.
func (t *transaction) dnatToOne(f family, of []netip.AddrPort) words {
	to := &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.protocol), RegAddrMin: first, RegProtoMin: f.second}
	if len(of) == 1 {
		to.Specified = true
		return words{
			&expr.Immediate{Register: first, Data: of[0].Addr().AsSlice()},
			&expr.Immediate{Register: f.second, Data: binary.BigEndian.AppendUint16(nil, of[0].Port())},
			to,
		}
	}
	var elements []element
	for i, e := range of {
		elements = append(elements, element{key: binary.NativeEndian.AppendUint32(nil, uint32(i)), value: endpointBytes(e)})
	}
	lookup := t.anonymous(set{key: nftables.TypeInteger, data: f.endpoint, hostOrder: true}, elements)
	lookup.DestRegister, lookup.IsDestRegSet = first, true
	return words{&expr.Numgen{Register: first, Modulus: uint32(len(of)), Type: unix.NFT_NG_RANDOM}, lookup, to}
}
