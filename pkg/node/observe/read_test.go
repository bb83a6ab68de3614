package observe

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"golang.org/x/net/bpf"
)

// scene makes packets, by IPv4 or IPv6, in a tunnel or not.
type scene struct {
	t         testing.TB
	six, tube bool
	mark      ping.Mark
}

func (s scene) ends() (from, to netip.Addr) {
	if s.six {
		return netip.MustParseAddr("fd00::5"), netip.MustParseAddr("fd00::6")
	}
	return netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")
}

func (s scene) write(all ...gopacket.SerializableLayer) []byte {
	s.t.Helper()
	out := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(out, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		s.t.Fatal(err)
	}
	return out.Bytes()
}

// ip puts what is beyond a header of IP, and that into a tunnel, with options of Geneve.
func (s scene) ip(proto layers.IPProtocol, back bool, upper ...gopacket.SerializableLayer) []byte {
	s.t.Helper()
	from, to := s.ends()
	if back {
		from, to = to, from
	}
	kind := layers.EthernetTypeIPv4
	var header gopacket.SerializableLayer = &layers.IPv4{Version: 4, TTL: 64, Protocol: proto, SrcIP: from.AsSlice(), DstIP: to.AsSlice()}
	if s.six {
		kind, header = layers.EthernetTypeIPv6, &layers.IPv6{
			Version: 6, HopLimit: 64, NextHeader: proto, SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
		}
	}
	all := append([]gopacket.SerializableLayer{header}, upper...)
	if !s.tube {
		return s.write(all...)
	}
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	inner := s.write(append([]gopacket.SerializableLayer{&layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: kind}}, all...)...)
	tunnel := append([]byte{2, 0, 0x65, 0x58, 0, 0, 7, 0}, make([]byte, 8)...)
	return s.write(
		&layers.IPv4{
			Version: 4, IHL: 6, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: net.IP{192, 0, 2, 1}, DstIP: net.IP{192, 0, 2, 2},
			Options: []layers.IPv4Option{{OptionType: 1}, {OptionType: 1}, {OptionType: 1}, {OptionType: 1}},
		},
		&layers.UDP{SrcPort: 33333, DstPort: geneve}, gopacket.Payload(append(tunnel, inner...)))
}

func (s scene) tcp(back bool, seq, ack uint32, flags ...func(*layers.TCP)) []byte {
	header := &layers.TCP{SrcPort: 1000, DstPort: 80, Seq: seq, Ack: ack}
	for _, f := range flags {
		f(header)
	}
	return s.ip(layers.IPProtocolTCP, back, header)
}

func syn(t *layers.TCP) { t.SYN = true }
func ack(t *layers.TCP) { t.ACK = true }
func rst(t *layers.TCP) { t.RST = true }

func (s scene) udp(back bool, from, to uint16, text []byte) []byte {
	return s.ip(layers.IPProtocolUDP, back, &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}, gopacket.Payload(text))
}

func (s scene) icmp(back bool, kind4, kind6 byte, text []byte) []byte {
	proto, kind := layers.IPProtocolICMPv4, kind4
	if s.six {
		proto, kind = layers.IPProtocolICMPv6, kind6
	}
	return s.ip(proto, back, gopacket.Payload(append([]byte{kind, 0, 0, 0, 0, 7, 0, 1}, text...)))
}

func (s scene) bare() scene { s.tube = false; return s }

// TestPacketsAreKnown: of each protocol, by both families, in a tunnel or not: the marked packet, its answer and its refusals are
// known, and nothing that is like them. What is known, the kernel's filter lets through.
func TestPacketsAreKnown(t *testing.T) {
	t.Parallel()
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	n, p := mark.Sequence(1), mark.Payload(1)
	for _, s := range []scene{{t, false, false, mark}, {t, true, false, mark}, {t, false, true, mark}, {t, true, true, mark}} {
		for protocol, cases := range map[model.Protocol]map[string]struct {
			packet []byte
			// want is "", request, answer, refusal or unsure.
			want string
		}{
			model.TCP: {
				"a connection":             {s.tcp(false, n, 0, syn), "request"},
				"its answer":               {s.tcp(true, 99, n+1, syn, ack), "answer"},
				"its reset":                {s.tcp(true, 0, n+1, rst, ack), "refusal"},
				"an error about it":        {s.icmp(true, 3, 1, s.bare().tcp(false, n, 0, syn)), "refusal"},
				"another connection":       {s.tcp(false, n+7, 0, syn), ""},
				"one of another mark":      {s.tcp(false, other.Sequence(1), 0, syn), ""},
				"one beyond the targets":   {s.tcp(false, mark.Sequence(2), 0, syn), ""},
				"the answer of another":    {s.tcp(true, 99, n+2, syn, ack), ""},
				"what is no answer":        {s.tcp(true, 99, n+1, ack), ""},
				"no first packet":          {s.tcp(false, n, 5, syn, ack), ""},
				"an error about another":   {s.icmp(true, 3, 1, s.bare().tcp(false, n+7, 0, syn)), ""},
				"a datagram with the mark": {s.udp(false, 1000, 80, p), ""},
			},
			model.UDP: {
				"a datagram":             {s.udp(false, 1000, 80, append(p, 1, 2, 3)), "request"},
				"one of another mark":    {s.udp(false, 1000, 90, other.Payload(1)), ""},
				"what may be an answer":  {s.udp(true, 80, 1000, []byte("x")), "unsure"},
				"an error about it":      {s.icmp(true, 3, 1, s.bare().udp(false, 1000, 80, p)), "refusal"},
				"an error about another": {s.icmp(true, 3, 1, s.bare().udp(false, 1000, 80, other.Payload(1))), ""},
				"an echo with the mark":  {s.icmp(false, 8, 128, p), ""},
			},
			ping.ICMP: {
				"an echo request":      {s.icmp(false, 8, 128, p), "request"},
				"its reply":            {s.icmp(true, 0, 129, p), "answer"},
				"one of another mark":  {s.icmp(false, 8, 128, other.Payload(1)), ""},
				"the reply of another": {s.icmp(true, 0, 129, other.Payload(1)), ""},
				"an error about it":    {s.icmp(true, 3, 1, s.bare().icmp(false, 8, 128, p)), "refusal"},
				"a short one":          {s.icmp(false, 8, 128, p[:15]), ""},
				"another kind":         {s.icmp(false, 13, 135, p), ""},
			},
		} {
			w := Watch{Protocol: protocol, Mark: mark, Targets: 2, Ports: []uint16{80}, Time: time.Second}
			program, _, err := w.program()
			if err != nil {
				t.Fatal(err)
			}
			vm, err := bpf.NewVM(program)
			if err != nil {
				t.Fatal(err)
			}
			for name, c := range cases {
				got, unsure, ok := w.read(c.packet)
				said := ""
				switch {
				case !ok:
				case unsure && c.want == "":
					// A datagram without the mark: see TestAnswersToDatagrams.
				case unsure:
					said = "unsure"
				case got.Refusal:
					said = "refusal"
				case got.Answer:
					said = "answer"
				default:
					said = "request"
				}
				if said != c.want {
					t.Errorf("%s, six %t, tunnel %t: %s is %q, %+v", protocol, s.six, s.tube, name, said, got)
				}
				passes, err := vm.Run(c.packet)
				if err != nil {
					t.Fatal(err)
				}
				// The filter may let through more, of what has the right port or number, or is in no order.
				if c.want != "" && passes == 0 {
					t.Errorf("%s, six %t, tunnel %t: the filter rejects %s", protocol, s.six, s.tube, name)
				}
				if c.want == "" && passes != 0 && name != "what is no answer" && name != "no first packet" && name != "another kind" {
					t.Errorf("%s, six %t, tunnel %t: the filter lets %s through", protocol, s.six, s.tube, name)
				}
				if c.want == "" {
					continue
				}
				if want := s.tube; (got.Tunnel.To == netip.MustParseAddr("192.0.2.2")) != want {
					t.Errorf("%s: %s is in the tunnel %+v", protocol, name, got.Tunnel)
				}
				from, _ := s.ends()
				if c.want != "unsure" && got.Target != 1 || c.want == "request" && got.From.Addr() != from {
					t.Errorf("%s: %s is read as %+v", protocol, name, got)
				}
				// What is cut short is nothing, and no panic.
				for cut := range c.packet {
					w.read(c.packet[:cut])
					if _, err := vm.Run(c.packet[:cut]); err != nil && cut > 0 {
						t.Fatal(err)
					}
				}
			}
		}
	}
}

// TestAnswersToDatagrams: what comes back at the same place, from whom to whom, is an answer, and nothing else is; each is told
// once at a place.
func TestAnswersToDatagrams(t *testing.T) {
	t.Parallel()
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	s := scene{t, false, false, mark}
	seen := newSeen(Watch{Protocol: model.UDP, Mark: mark, Targets: 1, Ports: []uint16{80}, Time: time.Second})
	at := func(link int, out bool, data []byte) (Sighting, bool) {
		return seen.see(capture.Record{PodCapturePacket: api.PodCapturePacket{Out: out, Data: data}, Link: link})
	}
	request, answer := s.udp(false, 1000, 80, mark.Payload(0)), s.udp(true, 80, 1000, []byte("x"))
	if _, told := at(1, true, answer); told {
		t.Error("an answer is told before anybody has asked")
	}
	if got, told := at(1, false, request); !told || got.Answer {
		t.Errorf("the datagram: %+v, %t", got, told)
	}
	if _, told := at(1, false, request); told {
		t.Error("it is told twice")
	}
	for name, told := range map[string]bool{
		"another link": second(at(2, true, answer)), "the same direction": second(at(1, false, answer)),
		"from another port": second(at(1, true, s.udp(true, 81, 1000, []byte("x")))),
		"to another port":   second(at(1, true, s.udp(true, 80, 1001, []byte("x")))),
	} {
		if told {
			t.Errorf("it is an answer: %s", name)
		}
	}
	if got, told := at(1, true, answer); !told || !got.Answer || got.Target != 0 {
		t.Errorf("the answer: %+v, %t", got, told)
	}
}

func second(_ Sighting, b bool) bool { return b }

func TestWatchesAreBounded(t *testing.T) {
	t.Parallel()
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	good := Watch{Protocol: model.TCP, Mark: mark, Targets: 1, Time: time.Second}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Watch){
		"no mark": func(w *Watch) { w.Mark = ping.Mark{} }, "too long": func(w *Watch) { w.Time = MaxTime + 1 },
		"no time":          func(w *Watch) { w.Time = 0 },
		"too many targets": func(w *Watch) { w.Targets = ping.MaxTargets + 1 }, "none": func(w *Watch) { w.Targets = 0 },
		"too many ports": func(w *Watch) { w.Ports = make([]uint16, MaxPorts+1) }, "any port": func(w *Watch) { w.Ports = []uint16{0} },
		"another protocol": func(w *Watch) { w.Protocol = model.SCTP },
	} {
		w := good
		change(&w)
		if w.Check() == nil {
			t.Errorf("%s: it may be watched for", name)
		}
		if err := w.Run(t.Context(), func(Heard) error { t.Errorf("%s: it is watched for", name); return nil }); err == nil {
			t.Errorf("%s: without an error", name)
		}
	}
	// However many places there are, few are told.
	seen, told := newSeen(good), 0
	packet := make([]byte, 40)
	packet[0], packet[9] = 0x45, protoTCP
	binary.BigEndian.PutUint32(packet[20+sequence:], mark.Sequence(0))
	packet[20+flagsAt] = flagSYN
	for link := range 10 * MaxSightings {
		if _, first := seen.see(capture.Record{PodCapturePacket: api.PodCapturePacket{Data: packet}, Link: link}); first {
			told++
		}
	}
	if told != MaxSightings {
		t.Errorf("%d are told, of %d", told, MaxSightings)
	}
}
