package netdev

import (
	"encoding/binary"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// edition begins the user data of each rule that bounds something; what bounds follows. It changes with the rules, so that an agent
// that comes after another one knows which of them it finds.
const edition = "atoll 1 "

// rules are those of one interface, in their order; all that they do not drop passes.
func (b Bounds) rules() []*nftables.Rule {
	return slices.Concat(
		b.rule(BoundBroadcasts, toMany()...),
		b.rule(BoundPackets),
		passes(unix.ETH_P_IP, unix.IPPROTO_ICMP, 8),
		passes(unix.ETH_P_IPV6, unix.IPPROTO_ICMPV6, 7),
		b.rule(BoundRequests))
}

// rule drops what matches and is more than a bound, if there is one.
func (b Bounds) rule(which Bound, matches ...expr.Any) []*nftables.Rule {
	rate := *b.of(which)
	if rate == 0 {
		return nil
	}
	return []*nftables.Rule{{
		UserData: []byte(edition + string(which)),
		Exprs: append(matches,
			&expr.Limit{Type: expr.LimitTypePkts, Rate: uint64(rate), Unit: expr.LimitTimeSecond, Burst: burst(which, rate), Over: true},
			&expr.Counter{},
			&expr.Verdict{Kind: expr.VerdictDrop},
		),
	}}
}

// register holds what was looked at last.
const register = 1

// toMany: the frame is for all or for a group. (IEEE 802, the first bit on the wire.)
func toMany() []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseLLHeader, Offset: 0, Len: 1},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{1}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{1}},
	}
}

// passes lets go what a router may forward, whose time to live is at a place of its header, and what is not of a protocol. The kernel
// has looked for the protocol behind options and headers of extension.
func passes(family uint16, but byte, ttl uint32) []*nftables.Rule {
	return []*nftables.Rule{{Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binary.BigEndian.AppendUint16(nil, family)},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: []byte{but}},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: ttl, Len: 1},
		&expr.Cmp{Op: expr.CmpOpGt, Register: register, Data: []byte{1}},
		&expr.Verdict{Kind: expr.VerdictAccept},
	}}}
}
