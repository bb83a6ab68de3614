package capture

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/net/bpf"
)

// frame is a packet, and what is in it.
type frame struct {
	from, to     netip.Addr
	protocol     string
	sport, dport uint16
	// options lengthen the IPv4 header, or put extension headers into IPv6; fragmented has a fragment header, of the first fragment
	// or a later one.
	options, fragmented, later bool
}

func (f frame) bytes(t *testing.T) []byte {
	t.Helper()
	buffer := gopacket.NewSerializeBuffer()
	ethernet := &layers.Ethernet{
		SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}, EthernetType: layers.EthernetTypeIPv4,
	}
	all := []gopacket.SerializableLayer{ethernet}
	var number layers.IPProtocol
	switch f.protocol {
	case "tcp":
		number = layers.IPProtocolTCP
	case "udp":
		number = layers.IPProtocolUDP
	case "sctp":
		number = layers.IPProtocolSCTP
	case "icmp":
		number = layers.IPProtocolICMPv4
		if f.from.Is6() {
			number = layers.IPProtocolICMPv6
		}
	case "other":
		number = layers.IPProtocolGRE
	case arp:
		ethernet.EthernetType = layers.EthernetTypeARP
		all = append(all, &layers.ARP{
			AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: layers.ARPRequest,
			SourceHwAddress: ethernet.SrcMAC, SourceProtAddress: f.from.AsSlice(), DstHwAddress: make([]byte, 6), DstProtAddress: f.to.AsSlice(),
		})
	}
	upper := []byte{byte(f.sport >> 8), byte(f.sport), byte(f.dport >> 8), byte(f.dport), 0, 0, 0, 0, 0, 0, 0, 0}
	switch {
	case f.protocol == arp:
	case f.from.Is4():
		ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: number, SrcIP: f.from.AsSlice(), DstIP: f.to.AsSlice()}
		if f.options {
			ip.Options = []layers.IPv4Option{{OptionType: 7, OptionLength: 7, OptionData: make([]byte, 5)}, {OptionType: 0}}
		}
		if f.fragmented {
			ip.Flags = layers.IPv4MoreFragments
		}
		if f.later {
			ip.FragOffset = 20
		}
		all = append(all, ip, gopacket.Payload(upper))
	default:
		ethernet.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: number, SrcIP: f.from.AsSlice(), DstIP: f.to.AsSlice()}
		var chain []byte
		if f.fragmented || f.later {
			offset := byte(0)
			if f.later {
				offset = 20
			}
			chain = []byte{byte(ip.NextHeader), 0, 0, offset<<3 | 1, 0, 0, 0, 1}
			ip.NextHeader = layers.IPProtocolIPv6Fragment
		}
		if f.options {
			chain = append(append([]byte{byte(ip.NextHeader), 1}, make([]byte, 14)...), chain...)
			ip.NextHeader = layers.IPProtocolIPv6HopByHop
		}
		all = append(all, ip, gopacket.Payload(append(chain, upper...)))
	}
	if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// fits judges by what went into the frame.
func (f frame) fits(filter Filter) bool {
	has := func(p netip.Prefix) bool { return p.Contains(f.from) || p.Contains(f.to) }
	ported := slices.Contains([]string{"tcp", "udp", "sctp"}, f.protocol) && !f.later
	return (len(filter.Prefixes) == 0 || slices.ContainsFunc(filter.Prefixes, has)) &&
		(len(filter.Protocols) == 0 || slices.Contains(filter.Protocols, f.protocol)) &&
		(len(filter.Ports) == 0 || ported && (slices.Contains(filter.Ports, f.sport) || slices.Contains(filter.Ports, f.dport)))
}

func run(t *testing.T, s Spec, data []byte) int {
	t.Helper()
	program, raw, err := s.program(sides{true, true})
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 4096 {
		t.Fatalf("the kernel takes programs of 4096 instructions, and this has %d", len(raw))
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// pick is one of some values.
func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// TestFiltersTakeWhatTheySay: each filter takes of any packets those that fit by what went into them, and no others.
func TestFiltersTakeWhatTheySay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	four := []netip.Addr{
		netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.3.1"), netip.MustParseAddr("192.0.2.7"),
	}
	six := []netip.Addr{
		netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2"), netip.MustParseAddr("fd00:0:0:3::1"), netip.MustParseAddr("2001:db8::7"),
	}
	prefixes := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/22"), netip.MustParsePrefix("192.0.2.0/25"),
		netip.MustParsePrefix("0.0.0.0/0"),
		netip.MustParsePrefix("fd00::1/128"), netip.MustParsePrefix("fd00::/62"), netip.MustParsePrefix("2001:db8::/33"),
		netip.MustParsePrefix("::/0"),
	}
	names, ports := []string{"tcp", "udp", "sctp", "icmp", arp}, []uint16{53, 80, 443, 8080}
	var taken, left int
	for range 6000 {
		f := frame{
			protocol: pick(r, "tcp", "udp", "sctp", "icmp", "other", arp), sport: pick(r, ports...), dport: pick(r, ports...),
			options: r.IntN(3) == 0,
		}
		switch r.IntN(4) {
		case 0:
			f.fragmented = true
		case 1:
			f.later = true
		}
		addresses := four
		if r.IntN(2) == 0 && f.protocol != arp {
			addresses = six
		}
		f.from, f.to = pick(r, addresses...), pick(r, addresses...)
		var filter Filter
		for range r.IntN(3) {
			filter.Prefixes = append(filter.Prefixes, pick(r, prefixes...))
		}
		for range r.IntN(3) {
			filter.Protocols = append(filter.Protocols, pick(r, names...))
		}
		for range r.IntN(3) {
			filter.Ports = append(filter.Ports, pick(r, ports...))
		}
		data := f.bytes(t)
		s := Spec{Interface: "eth0", Direction: Both, Filter: filter, SnapLength: 200}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		want := f.fits(filter)
		if want {
			taken++
		} else {
			left++
		}
		if got := run(t, s, data); (got != 0) != want || got != 0 && got != s.SnapLength {
			t.Fatalf("filter %q of %+v keeps %d bytes, want it taken: %t", filter, f, got, want)
		}
	}
	if taken < 500 || left < 500 {
		t.Errorf("of the packets %d fit and %d do not: that shows nothing", taken, left)
	}
}

// TestTheLargestFilterCompiles: with as many terms as there may be, and on what is no IP, or cut off.
func TestTheLargestFilterCompiles(t *testing.T) {
	t.Parallel()
	s := Spec{Interface: "eth0", Direction: Both, SnapLength: MaxSnapLength}
	for range MaxTerms {
		s.Filter.Prefixes = append(s.Filter.Prefixes, netip.MustParsePrefix("fd00::1/128"))
		s.Filter.Ports = append(s.Filter.Ports, 80)
		s.Filter.Protocols = append(s.Filter.Protocols, "tcp")
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	whole := frame{from: netip.MustParseAddr("fd00::1"), to: netip.MustParseAddr("fd00::2"), protocol: "tcp", dport: 80}.bytes(t)
	if got := run(t, s, whole); got != MaxSnapLength {
		t.Errorf("it keeps %d bytes of what fits", got)
	}
	for n := range 58 {
		if got := run(t, s, whole[:n]); got != 0 {
			t.Errorf("it keeps what ends after %d bytes", n)
		}
	}
	whole[12], whole[13] = 0x88, 0xcc
	if got := run(t, s, whole); got != 0 {
		t.Error("it keeps what is no IP")
	}
	s.Filter = Filter{}
	if got := run(t, s, whole); got == 0 {
		t.Error("without a filter it does not keep what is no IP")
	}
}

// TestSpecsAreChecked: what no interface, filter or bound can be is refused before a socket is opened.
func TestSpecsAreChecked(t *testing.T) {
	t.Parallel()
	good := Spec{Interface: "eth0", Direction: Both, SnapLength: 1500}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Spec){
		"interface": func(s *Spec) { s.Interface = "../eth0" },
		"no name":   func(s *Spec) { s.Interface = "" },
		"direction": func(s *Spec) { s.Direction = "up" },
		"snaplen":   func(s *Spec) { s.SnapLength = 1 << 20 },
		"count":     func(s *Spec) { s.Count = -1 },
		"bytes":     func(s *Spec) { s.Bytes = MaxBytes + 1 },
		"protocol":  func(s *Spec) { s.Filter.Protocols = []string{"http"} },
		"filter":    func(s *Spec) { s.Filter.Ports = make([]uint16, MaxTerms+1) },
		"host":      func(s *Spec) { s.Filter.Prefixes = make([]netip.Prefix, 1) },
	} {
		s := good
		change(&s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
		if s.Equal(good) {
			t.Errorf("%s: it is as good as the other", says)
		}
	}
	filter := Filter{
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.1.0.0/16")}, Ports: []uint16{53, 80},
		Protocols: []string{"tcp", "icmp"},
	}
	if got, want := filter.String(), "(host 10.0.0.1 or net 10.1.0.0/16) and (tcp or icmp or icmp6) and (port 53 or port 80)"; got != want {
		t.Errorf("it is written %q, want %q", got, want)
	}
}
