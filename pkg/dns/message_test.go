package dns

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func asked(change func(*dns.Msg)) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion("web.red.svc.cluster.local.", dns.TypeA)
	change(m)
	return m
}

// TestRefusals are questions that are never answered, and packets that are none.
func TestRefusals(t *testing.T) {
	w := twoNetworks(t)
	kind := func(k uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.Question[0].Qtype = k } }
	class := func(c uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.Question[0].Qclass = c } }
	for _, test := range []struct {
		what   string
		change func(*dns.Msg)
		want   int
	}{
		{"a question as it should be", func(*dns.Msg) {}, dns.RcodeSuccess},
		{"AXFR", kind(dns.TypeAXFR), dns.RcodeRefused},
		{"AXFR of the zone", func(m *dns.Msg) { m.SetAxfr("cluster.local.") }, dns.RcodeRefused},
		{"IXFR of the zone", func(m *dns.Msg) { m.SetIxfr("cluster.local.", 1, "ns.", "mbox.") }, dns.RcodeRefused},
		{"MAILB", kind(dns.TypeMAILB), dns.RcodeRefused},
		{"OPT as a question", kind(dns.TypeOPT), dns.RcodeRefused},
		{"type 0", kind(0), dns.RcodeRefused},
		{"CHAOS", class(dns.ClassCHAOS), dns.RcodeRefused},
		{"class ANY", class(dns.ClassANY), dns.RcodeRefused},
		{"class NONE", class(dns.ClassNONE), dns.RcodeRefused},
		{"NOTIFY", func(m *dns.Msg) { m.SetNotify("cluster.local.") }, dns.RcodeNotImplemented},
		{"UPDATE", func(m *dns.Msg) { m.SetUpdate("cluster.local.") }, dns.RcodeNotImplemented},
		{"no question", func(m *dns.Msg) { m.Question = nil }, dns.RcodeFormatError},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		{"two sets of options", func(m *dns.Msg) { m.SetEdns0(1232, false).SetEdns0(1232, false) }, dns.RcodeFormatError},
		{"an answer in the question", func(m *dns.Msg) { m.Answer = anyAnswer("a.") }, dns.RcodeFormatError},
		{"a later EDNS", func(m *dns.Msg) { m.SetEdns0(1232, false).IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
	} {
		for _, tcp := range []bool{false, true} {
			m := asked(test.change)
			reply := w.exchange(t, "red", m, tcp)
			if reply.Rcode != test.want || reply.Id != m.Id || !reply.Response || reply.Opcode != m.Opcode {
				t.Errorf("%s: %v; want %s", test.what, reply, dns.RcodeToString[test.want])
			}
		}
	}
}

// TestSilence: what is no question gets no reply, so that two servers cannot talk to each other for ever.
func TestSilence(t *testing.T) {
	w := twoNetworks(t)
	reply, err := asked(func(m *dns.Msg) { m.Response = true }).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for what, packet := range map[string][]byte{"nothing": {}, "too short": reply[:11], "a reply": reply} {
		if got := w.raw(t, "red", packet, false); got != nil {
			t.Errorf("%s was answered: %x", what, got)
		}
	}
}

// TestSizes: a reply is never larger than the asker can take, nor than what passes every link.
func TestSizes(t *testing.T) {
	w := twoNetworks(t)
	w.SetService(headless("red/big"))
	var endpoints []string
	for i := range 100 {
		endpoints = append(endpoints, fmt.Sprintf("a-host-with-a-long-name-%d=10.0.3.%d", i, i))
	}
	w.put("big", slice("red/big", "red", endpoints...))
	for _, test := range []struct{ edns, most int }{{0, 512}, {100, 512}, {512, 512}, {800, 800}, {1232, 1232}, {4096, 1232}, {65535, 1232}} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeSRV} {
			m := new(dns.Msg)
			m.SetQuestion("big.red.svc.cluster.local.", kind)
			if test.edns > 0 {
				m.SetEdns0(uint16(test.edns), false)
			}
			packet, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			reply := w.raw(t, "red", packet, false)
			got := new(dns.Msg)
			if err := got.Unpack(reply); err != nil {
				t.Fatal(err)
			}
			if len(reply) > test.most || len(reply) < test.most-100 || !got.Truncated || (got.IsEdns0() != nil) != (test.edns > 0) {
				t.Errorf("%s with %d bytes of EDNS: %d bytes, truncated %v, options %v", dns.TypeToString[kind], test.edns, len(reply), got.Truncated,
					got.IsEdns0())
			}
		}
	}
}

// TestOptions: who has EDNS gets ours, and reads why something was withheld.
func TestOptions(t *testing.T) {
	w := twoNetworks(t)
	m := asked(func(m *dns.Msg) { m.SetEdns0(4096, true) })
	m.Question[0].Name = "www.example.com."
	opt := w.exchange(t, "red", m, false).IsEdns0()
	if opt == nil || !opt.Do() || opt.UDPSize() != maxUDP || len(opt.Option) != 1 {
		t.Fatalf("options %v", opt)
	}
	if why, is := opt.Option[0].(*dns.EDNS0_EDE); !is || why.InfoCode != dns.ExtendedErrorCodeBlocked || why.ExtraText != whyAirGapped {
		t.Errorf("explained by %v", opt.Option[0])
	}
}

// TestNotYetKnown: before all is known, nothing under the domain is denied; what is known is answered.
func TestNotYetKnown(t *testing.T) {
	w := newWorld(t, vpc("red"))
	w.SetNamespace(namespaceIn("red", "red"))
	w.SetService(clusterIP("red/web", "10.96.1.1"))
	for name, want := range map[string]int{
		"web.red.svc.cluster.local.":   dns.RcodeSuccess,
		"later.red.svc.cluster.local.": dns.RcodeServerFailure,
		"web.later.svc.cluster.local.": dns.RcodeServerFailure,
		"www.example.com.":             dns.RcodeNameError,
	} {
		if m := w.ask(t, "red", name, dns.TypeA); m.Rcode != want {
			t.Errorf("%s: %s, want %s", name, dns.RcodeToString[m.Rcode], dns.RcodeToString[want])
		}
	}
	w.SetComplete()
	if m := w.ask(t, "red", "later.red.svc.cluster.local.", dns.TypeA); m.Rcode != dns.RcodeNameError {
		t.Errorf("when all is known: %v", m)
	}
}

// FuzzPacket: whatever a pod sends, the reply is none or one that fits, is well formed and belongs to it, and tells
// nothing of another Network.
func FuzzPacket(f *testing.F) {
	for _, name := range []string{
		"web.red.svc.cluster.local.", "db.red.svc.cluster.local.", "10.0.0.10.in-addr.arpa.", "stolen.red.svc.cluster.local.",
	} {
		for _, kind := range []uint16{dns.TypeA, dns.TypeSRV, dns.TypePTR, dns.TypeANY, dns.TypeIXFR} {
			m := new(dns.Msg)
			m.SetQuestion(name, kind)
			m.SetEdns0(4096, true)
			packet, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packet, kind == dns.TypeSRV)
		}
	}
	w := twoNetworks(f)
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		reply := w.raw(t, "red", packet, tcp)
		if reply == nil {
			return
		}
		if most := map[bool]int{false: maxUDP, true: dns.MaxMsgSize}[tcp]; len(reply) > most {
			t.Fatalf("reply of %d bytes", len(reply))
		}
		m := new(dns.Msg)
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("reply cannot be read: %v", err)
		}
		if !m.Response || packet[0] != reply[0] || packet[1] != reply[1] {
			t.Fatalf("reply to something else: %v", m)
		}
		for _, rr := range m.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				// It may only come from a name that holds it, 10-0-0-99.red.pod.
				if rr.A.String() == "10.0.0.99" && !strings.HasPrefix(rr.Hdr.Name, "10-0-0-99.") {
					t.Fatalf("address of another Network: %v", m)
				}
			case *dns.PTR:
				if dns.IsSubDomain("blue.svc."+domain, rr.Ptr) {
					t.Fatalf("name of another Network: %v", m)
				}
			}
		}
	})
}
