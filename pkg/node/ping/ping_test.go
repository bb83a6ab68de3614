package ping

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func good() Spec {
	return Spec{
		Protocol: model.TCP, Port: 80, Targets: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Count: 3, First: 1, Size: 56,
		Interval: MinInterval, Timeout: time.Second,
	}
}

func TestSpecsAreBounded(t *testing.T) {
	t.Parallel()
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"another protocol": func(s *Spec) { s.Protocol = model.SCTP },
		"no port":          func(s *Spec) { s.Port = 0 },
		"icmp with a port": func(s *Spec) { s.Protocol = ICMP },
		"no target":        func(s *Spec) { s.Targets = nil },
		"too many targets": func(s *Spec) {
			for range MaxTargets {
				s.Targets = append(s.Targets, s.Targets[0])
			}
		},
		"everybody":      func(s *Spec) { s.Targets[0] = netip.MustParseAddr("255.255.255.255") },
		"a group":        func(s *Spec) { s.Targets[0] = netip.MustParseAddr("ff02::1") },
		"a group of 4":   func(s *Spec) { s.Targets[0] = netip.MustParseAddr("224.0.0.1") },
		"nobody":         func(s *Spec) { s.Targets[0] = netip.MustParseAddr("0.0.0.0") },
		"a zone":         func(s *Spec) { s.Targets[0] = netip.MustParseAddr("fe80::1%eth0") },
		"not an address": func(s *Spec) { s.Targets[0] = netip.Addr{} },
		"none":           func(s *Spec) { s.Count = 0 },
		"too many":       func(s *Spec) { s.Count = MaxCount + 1 },
		"too large":      func(s *Spec) { s.Size = MaxSize + 1 },
		"too small":      func(s *Spec) { s.Size = MinSize - 1 },
		"a flood":        func(s *Spec) { s.Interval = time.Millisecond },
		"no wait":        func(s *Spec) { s.Timeout = 0 },
		"a long wait":    func(s *Spec) { s.Timeout = time.Hour },
		"too long":       func(s *Spec) { s.Interval, s.Count = 9*time.Second, 3 },
		"far too long":   func(s *Spec) { s.Interval, s.Count = 1<<62, 4 },
		"before zero":    func(s *Spec) { s.First = -1 },
	} {
		s := good()
		change(&s)
		if err := s.Check(); err == nil {
			t.Errorf("%s: it may be sent", name)
		}
		if err := Run(t.Context(), s, func(func() error) error { t.Errorf("%s: it is sent", name); return nil }, func(Reply) {}); err == nil {
			t.Errorf("%s: it is sent without an error", name)
		}
	}
}

// here is the place of the test itself.
func here(do func() error) error { return do() }

func run(t *testing.T, s Spec) []Reply {
	t.Helper()
	var out []Reply
	if err := Run(t.Context(), s, here, func(r Reply) { out = append(out, r) }); err != nil {
		t.Fatal(err)
	}
	if len(out) != s.Count*len(s.Targets) {
		t.Fatalf("of %d packets to each of %v there is told %+v", s.Count, s.Targets, out)
	}
	return out
}

// TestConnections: a connection is an answer, a port that is shut is none and says so, and neither is one that is silent.
func TestConnections(t *testing.T) {
	t.Parallel()
	open, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	s := good()
	s.Port = netip.MustParseAddrPort(open.Addr().String()).Port()
	s.Targets = append(s.Targets, netip.MustParseAddr("127.0.0.2"))
	s.Count, s.First = 2, 7
	for _, r := range run(t, s) {
		switch first := r.Target == s.Targets[0]; {
		case r.Number < 7 || r.Number > 8:
			t.Errorf("the number of %+v", r)
		case first && (!r.Answered || r.Took <= 0 || r.Why != ""):
			t.Errorf("where somebody listens: %+v", r)
		case !first && (r.Answered || !strings.HasPrefix(r.Why, "refused")):
			t.Errorf("where nobody listens: %+v", r)
		}
	}
}

func TestDatagrams(t *testing.T) {
	t.Parallel()
	echo, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	silent := make(chan bool, 1)
	silent <- false
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := echo.ReadFrom(buffer)
			if err != nil {
				return
			}
			is := <-silent
			if silent <- is; !is {
				_, _ = echo.WriteTo(buffer[:n], from)
			}
		}
	}()
	s := good()
	s.Protocol, s.Port, s.Count = model.UDP, netip.MustParseAddrPort(echo.LocalAddr().String()).Port(), 1
	if r := run(t, s)[0]; !r.Answered {
		t.Errorf("somebody answers: %+v", r)
	}
	<-silent
	silent <- true
	s.Timeout = 50 * time.Millisecond
	if r := run(t, s)[0]; r.Answered || r.Why != "no answer within 50ms" {
		t.Errorf("nobody answers: %+v", r)
	}
	s.Targets = []netip.Addr{netip.MustParseAddr("127.0.0.2")}
	s.Timeout = time.Second
	if r := run(t, s)[0]; r.Answered || !strings.HasPrefix(r.Why, "refused") {
		t.Errorf("nobody listens: %+v", r)
	}
}

// TestRunEndsWithItsContext: nothing is told of a packet that nobody waited for, and the error says why.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("who asked has gone")
	s := good()
	told := 0
	err := Run(ctx, s, func(func() error) error { cancel(gone); return ctx.Err() }, func(Reply) { told++ })
	if !errors.Is(err, gone) || told != 0 {
		t.Errorf("%v, and of %d is told", err, told)
	}
}

// TestEchoesAreTold: an answer counts only for its own request, and an error only if it quotes it.
func TestEchoesAreTold(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"10.0.0.9", "fd00::9"} {
		target, gateway := netip.MustParseAddr(to), netip.MustParseAddr("10.0.0.1")
		m := marks{family: familyOf(target), target: target, id: 77, cookie: []byte{1, 2, 3, 0, 0, 0, 0, 0}}
		question, err := m.question(5, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := icmp.ParseMessage(m.protocol, question); err != nil || got.Type != m.request || len(got.Body.(*icmp.Echo).Data) != 64 {
			t.Fatalf("%s: the request is %+v, %v", to, got, err)
		}
		marshal := func(message icmp.Message) []byte {
			t.Helper()
			text, err := message.Marshal(nil)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		reply := func(id, seq int, cookie byte) []byte {
			return marshal(icmp.Message{
				Type: m.answer, Body: &icmp.Echo{ID: id, Seq: seq, Data: append([]byte{cookie, 2, 3, 0, 0, 0, 0, 0}, make([]byte, 56)...)},
			})
		}
		var unreachable, exceeded icmp.Type = ipv4.ICMPTypeDestinationUnreachable, ipv4.ICMPTypeTimeExceeded
		header := make([]byte, 24)
		header[0] = 0x46 // with options
		if target.Is6() {
			unreachable, exceeded, header = ipv6.ICMPTypeDestinationUnreachable, ipv6.ICMPTypeTimeExceeded, make([]byte, 40)
		}
		quote := func(quoted []byte) []byte {
			return marshal(icmp.Message{Type: unreachable, Code: 3, Body: &icmp.DstUnreach{Data: quoted}})
		}
		other, err := m.question(6, 64)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			text []byte
			from netip.Addr
			ours bool
			says string
		}{
			"the answer":              {reply(77, 5, 1), target, true, ""},
			"another's answer":        {reply(77, 5, 1), gateway, true, "another answers: 10.0.0.1"},
			"another process' answer": {reply(78, 5, 1), target, false, ""},
			"the answer before":       {reply(77, 4, 1), target, false, ""},
			"a forged answer":         {reply(77, 5, 9), target, false, ""},
			"the request itself":      {question, target, false, ""},
			"unreachable": {
				quote(slices.Concat(header, question)), gateway, true, "10.0.0.1 says: destination unreachable (code 3)",
			},
			"unreachable, of another":      {quote(slices.Concat(header, other)), gateway, false, "-"},
			"unreachable, without its own": {quote(header), gateway, false, "-"},
			"unreachable, of nothing":      {quote(nil), gateway, false, "-"},
			"in a circle": {
				marshal(icmp.Message{Type: exceeded, Body: &icmp.TimeExceeded{Data: slices.Concat(header, question)}}), gateway, true,
				"10.0.0.1 says: time exceeded",
			},
			"nothing": {nil, gateway, false, ""},
			"half":    {question[:3], gateway, false, ""},
		} {
			ours, err := m.judge(c.text, c.from, 5)
			said := ""
			if err != nil {
				said = err.Error()
			}
			if ours != c.ours || ours && (said == "") != (c.says == "") || ours && !strings.HasPrefix(said, c.says) {
				t.Errorf("%s, %s: %t, %q", to, name, ours, said)
			}
		}
	}
}

// FuzzJudge: whatever comes in, it is judged, and is ours only with the cookie or as a quotation.
func FuzzJudge(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 77, 0, 5, 1, 2, 3, 0, 0, 0, 0, 0}, true)
	f.Add([]byte{3, 1, 0, 0, 0, 0, 0, 0, 0x4f}, true)
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0, 0x60}, false)
	f.Fuzz(func(t *testing.T, text []byte, v4 bool) {
		target := netip.MustParseAddr("fd00::9")
		if v4 {
			target = netip.MustParseAddr("10.0.0.9")
		}
		m := marks{family: familyOf(target), target: target, id: 77, cookie: []byte{1, 2, 3, 0, 0, 0, 0, 0}}
		if ours, err := m.judge(text, target, 5); ours && err == nil && !bytes.Contains(text, m.cookie) {
			t.Errorf("%x is an answer", text)
		}
	})
}
