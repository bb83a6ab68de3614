package frame_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"

	"github.com/atoll-net/atoll/test/policy/frame"
)

func macs() (from, to net.HardwareAddr) {
	return net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
}

func addresses(v6 bool) (from, to netip.Addr) {
	if v6 {
		return netip.MustParseAddr("fd00:10::a"), netip.MustParseAddr("fd00:10::b")
	}
	return netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("10.0.0.11")
}

// packets are one of each kind.
func packets() []frame.Packet {
	var out []frame.Packet
	for _, v6 := range []bool{false, true} {
		from, to := addresses(v6)
		for _, protocol := range []frame.Protocol{frame.TCP, frame.UDP, frame.SCTP, frame.ICMP} {
			port := uint16(80)
			if protocol == frame.ICMP {
				port = 0
			}
			asking, serving := netip.AddrPortFrom(from, 40001), netip.AddrPortFrom(to, port)
			out = append(out,
				frame.Packet{From: asking, To: serving, Protocol: protocol},
				frame.Packet{From: serving, To: asking, Protocol: protocol, Answer: true})
		}
	}
	return out
}

func TestAPacketIsReadAsItWasWritten(t *testing.T) {
	from, to := macs()
	for _, p := range packets() {
		b, err := p.Frame(from, to)
		if err != nil {
			t.Fatal(err)
		}
		// What is shorter than the least frame comes with padding. (IEEE 802.3.)
		for _, padded := range [][]byte{b, append(slices.Clip(b), make([]byte, 8)...)} {
			if got, ok := frame.Read(padded); !ok || got != p {
				t.Errorf("%+v is read as %+v, %t\n%s", p, got, ok, hex.Dump(b))
			}
		}
		for n := range b {
			if got, ok := frame.Read(b[:n]); ok {
				t.Errorf("%d of %d bytes of %+v are read as %+v", n, len(b), p, got)
			}
		}
		if frame.IsReply(b) {
			t.Errorf("%+v is taken for ARP", p)
		}
	}
}

// TestTheBytesAreRight compares with packets that others have written: an echo by another encoder, and a datagram by hand.
func TestTheBytesAreRight(t *testing.T) {
	from, to := macs()
	one, two := addresses(false)
	b, err := frame.Packet{From: netip.AddrPortFrom(one, 7), To: netip.AddrPortFrom(two, 0), Protocol: frame.ICMP}.Frame(from, to)
	if err != nil {
		t.Fatal(err)
	}
	want, err := (&icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: 7, Data: []byte("asking")}}).Marshal(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := b[34:]; string(got) != string(want) {
		t.Errorf("an echo is %x, want %x", got, want)
	}
	b, err = frame.Packet{From: netip.AddrPortFrom(one, 1), To: netip.AddrPortFrom(two, 53), Protocol: frame.UDP}.Frame(from, to)
	if err != nil {
		t.Fatal(err)
	}
	const wanted = "020000000002" + "020000000001" + "0800" + // Ethernet
		"45000022" + "00000000" + "4011" + "66b7" + "0a00000a" + "0a00000b" + // IPv4
		"00010035" + "000e" + "b043" + "61736b696e67" // UDP
	if got := fmt.Sprintf("%x", b); got != wanted {
		t.Errorf("a datagram is\n%s, want\n%s", got, wanted)
	}
}

func TestWhoHas(t *testing.T) {
	from, to := macs()
	own, target := addresses(false)
	b := frame.WhoHas(target, from, own)
	if frame.IsReply(b) {
		t.Error("a request is taken for its answer")
	}
	const wanted = "ffffffffffff" + "020000000001" + "0806" + "0001080006040001" + "020000000001" + "0a00000a" + "000000000000" + "0a00000b"
	if got := fmt.Sprintf("%x", b); got != wanted {
		t.Errorf("a request is\n%s, want\n%s", got, wanted)
	}
	b[21] = 2
	if !frame.IsReply(b) {
		t.Error("an answer is not known")
	}
	if _, ok := frame.Read(b); ok {
		t.Error("ARP is read as a packet of IP")
	}
	if _, err := (frame.Packet{From: netip.AddrPortFrom(own, 1), To: netip.MustParseAddrPort("[::1]:1")}).Frame(from, to); err == nil {
		t.Error("a packet from one IP family to the other is written")
	}
}
