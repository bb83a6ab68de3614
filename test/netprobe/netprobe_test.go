package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/atoll-net/atoll/test/netprobe/wire"
	waiting "github.com/atoll-net/atoll/test/wait"
)

// TestServeAndProbe lets a server on loopback answer all protocols in both IP families. Raw sockets need root.
func TestServeAndProbe(t *testing.T) {
	defer goleak.VerifyNone(t)
	me := wire.Identity{Namespace: "red", Name: "web-0", UID: "u-1", Node: "n1"}
	s := &server{identity: me, seen: newSightings(), socket: wire.Socket}
	port := freePort(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, netip.AddrPortFrom(netip.Addr{}, port)) }()

	var targets []wire.Target
	for _, address := range []string{"127.0.0.1", "::1"} {
		for _, protocol := range []wire.Protocol{wire.ICMP, wire.TCP, wire.UDP} {
			ip := netip.MustParseAddr(address)
			token := fmt.Sprintf("run-%s-%d", protocol, ip.BitLen())
			targets = append(targets, wire.Target{Address: ip, Protocol: protocol, Port: port, Token: token})
		}
	}
	// The kernel answers ICMP whether somebody listens or not.
	if err := runReady(ctx, []string{"-port", fmt.Sprint(port), "-for", "5s"}); err != nil {
		t.Fatalf("ready: %v", err)
	}
	probing, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	results, err := probeAll(probing, targets)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		want := wire.Result{Token: targets[i].Token, Answered: true, Answerer: me}
		if targets[i].Protocol == wire.ICMP {
			want.Answerer = wire.Identity{}
		}
		if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(wire.Result{}, "RTT", "Tries", "Connected")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", targets[i].Protocol, targets[i].Address, diff)
		}
	}
	// The kernel's answer to an echo request may come before the server has read it.
	want, seen := map[wire.Sighting]bool{}, map[wire.Sighting]bool{}
	for _, target := range targets {
		want[wire.Sighting{Token: target.Token, Protocol: target.Protocol, From: target.Address}] = true
	}
	_ = waiting.For(probing, waiting.Patience, func(context.Context) error {
		seen = map[wire.Sighting]bool{}
		for _, sighting := range s.seen.list("run-") {
			seen[sighting] = true
		}
		if len(seen) < len(want) {
			return errors.New("not all are seen")
		}
		return nil
	})
	if diff := cmp.Diff(want, seen, cmpopts.EquateComparable(wire.Sighting{})); diff != "" {
		t.Errorf("sightings (-want +got):\n%s", diff)
	}
	if got := s.seen.list("ready"); len(got) != 0 {
		t.Errorf("a readiness probe left sightings: %v", got)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func TestProbeWithoutAnswer(t *testing.T) {
	defer goleak.VerifyNone(t)
	port := freePort(t)
	targets := []wire.Target{
		{Address: netip.MustParseAddr("127.0.0.1"), Protocol: wire.TCP, Port: port, Token: "a"},
		{Address: netip.MustParseAddr("127.0.0.1"), Protocol: wire.UDP, Port: port, Token: "b"},
	}
	ctx, stop := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer stop()
	results, err := probeAll(ctx, targets)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Answered || r.Tries < 2 || !strings.Contains(r.Error, "refused") {
			t.Errorf("want at least two refused tries, got %+v", r)
		}
	}
}

func TestProbeRefusesBadTargets(t *testing.T) {
	lo := netip.MustParseAddr("127.0.0.1")
	for name, target := range map[string]wire.Target{
		"no address":   {Protocol: wire.TCP, Token: "a"},
		"no token":     {Protocol: wire.TCP, Address: lo},
		"line in it":   {Protocol: wire.TCP, Address: lo, Token: "a\nb"},
		"long token":   {Protocol: wire.TCP, Address: lo, Token: strings.Repeat("a", wire.MaxToken+1)},
		"no protocol":  {Address: lo, Token: "a"},
		"odd protocol": {Address: lo, Protocol: "sctp", Token: "a"},
	} {
		if _, err := probeAll(t.Context(), []wire.Target{target}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSightingsAreBounded(t *testing.T) {
	s := newSightings()
	from := netip.MustParseAddr("10.0.0.1")
	for i := range maxSightings + 2 {
		for range 2 {
			s.add(wire.Sighting{Token: fmt.Sprintf("t-%d", i), Protocol: wire.UDP, From: from})
		}
	}
	s.add(wire.Sighting{Token: "not a token", Protocol: wire.UDP, From: from})
	got := s.list("")
	if len(got) != maxSightings || got[0].Token != "t-2" || len(s.known) != maxSightings {
		t.Errorf("%d sightings, %d known, first %q; want %d, the two oldest gone", len(got), len(s.known), got[0].Token, maxSightings)
	}
	if got := s.list("none"); got == nil || len(got) != 0 {
		t.Errorf("no sighting must be an empty list, not %v", got)
	}
}

func TestForgedFrame(t *testing.T) {
	f := forgery{
		SourceMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1},
		TargetMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		Source:    netip.MustParseAddr("10.0.0.66"),
		Target:    netip.MustParseAddr("10.0.0.10"),
		Token:     "tok",
	}
	got, err := f.frame()
	if err != nil {
		t.Fatal(err)
	}
	want := "020000000002" + "020000000001" + "0800" + // Ethernet
		"4500001f00000000400166930a0000420a00000a" + // IPv4
		"0800"
	if g := hex.EncodeToString(got[:36]); g != want {
		t.Errorf("frame starts\n%s, want\n%s", g, want)
	}
	if checksum(got[14:34]) != 0 {
		t.Error("the IPv4 header's checksum does not add up")
	}
	_, request, _ := echoTypes(false)
	if token, ok := echoToken(got[34:], protocolICMP, request); !ok || token != "tok" {
		t.Errorf("token %q, %v", token, ok)
	}
	f.Source = netip.MustParseAddr("fd00::1")
	if _, err := f.frame(); err == nil {
		t.Error("an IPv6 source was accepted")
	}
}

// freePort is a port that nobody listens on at the moment.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ap, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return ap.Port()
}

// TestLoad asks a server on loopback in each way, and then nobody.
func TestLoad(t *testing.T) {
	defer goleak.VerifyNone(t)
	me := wire.Identity{Namespace: "red", Name: "web-0", UID: "u-1"}
	port, web := freePort(t), freePort(t)
	s := &server{identity: me, seen: newSightings(), http: web}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, netip.AddrPortFrom(netip.Addr{}, port)) }()
	if err := runReady(ctx, []string{"-for=5s", fmt.Sprintf("-port=%d", port)}); err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.0.1")
	ways := []struct {
		newAsker func(netip.AddrPort) asker
		port     uint16
		// each: a connection for each question.
		each bool
	}{{newTCP, port, true}, {newHTTP, web, false}, {newUDP, port, false}}
	run := func(newAsker func(netip.AddrPort) asker, port uint16) wire.Load {
		limited, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		return loadAll(limited, 2, time.Millisecond, func() asker { return newAsker(netip.AddrPortFrom(local, port)) })
	}
	for i, way := range ways {
		load := run(way.newAsker, way.port)
		made := 2
		if way.each {
			made = load.Answers
		}
		if load.Answers < 4 || load.ByServer["u-1"] != load.Answers || len(load.Errors) != 0 || load.Connections != made || load.P50 > load.P99 ||
			load.P99 > load.Max {
			t.Errorf("way %d: %+v", i, load)
		}
		if span := load.Spans["u-1"]; len(load.Spans) != 1 || !span.First.Before(span.Last) || span.Last.After(time.Now()) {
			t.Errorf("way %d: answered %+v", i, load.Spans)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for i, way := range ways {
		load := run(way.newAsker, way.port)
		if load.Answers != 0 || len(load.Errors) != 1 || len(load.Spans) != 0 {
			t.Errorf("way %d, nobody there: %+v", i, load)
		}
		for words, n := range load.Errors {
			if want := min(n, wire.MaxFailures); len(load.Failures) != want || load.Failures[0].Error != words || load.Failures[0].Asked.IsZero() {
				t.Errorf("way %d, nobody there: %d times %q, told as %+v", i, n, words, load.Failures)
			}
		}
	}
}

// TestBrokenConnectionsAreTold: who keeps a connection says that it broke between two questions, although the next one is
// answered over another.
func TestBrokenConnectionsAreTold(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := json.NewEncoder(w).Encode(wire.Ready{Identity: wire.Identity{UID: "u-1"}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	address, err := netip.ParseAddrPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a := newHTTP(address).(*httpAsker)
	defer a.Close()
	ask := func() {
		t.Helper()
		if by, _, err := a.ask(""); err != nil || by.UID != "u-1" {
			t.Fatalf("answered by %+v, %v", by, err)
		}
		// It is put aside after the answer was read.
		waiting.Until(t, waiting.Patience, "the connection is kept", a.kept.Load)
	}
	ask()
	ask()
	if len(a.renewed) != 0 {
		t.Errorf("nothing broke, and told is %+v", a.renewed)
	}
	server.CloseClientConnections()
	ask()
	if len(a.renewed) != 1 || a.renewed[0].Error == "" || a.renewed[0].Asked.IsZero() {
		t.Errorf("told is %+v", a.renewed)
	}
}

// TestLateIsNotLost: a server by UDP answers every question but two: one after the client has given it up, the other never.
func TestLateIsNotLost(t *testing.T) {
	defer goleak.VerifyNone(t)
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		packet := make([]byte, 1500)
		var held func()
		for i := 0; ; i++ {
			n, client, err := conn.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			token := string(packet[:n])
			answer := func() {
				text, err := json.Marshal(wire.Answer{Token: token, Answerer: wire.Identity{UID: "u-1"}})
				if err == nil {
					_, err = conn.WriteToUDPAddrPort(text, client)
				}
				if err != nil {
					t.Error(err)
				}
			}
			switch i {
			case 0:
				held = answer
			case 1:
			case 2:
				held()
				answer()
			default:
				answer()
			}
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), 2*tryUDP+50*time.Millisecond)
	defer stop()
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort()
	load := loadAll(ctx, 1, time.Millisecond, func() asker { return newUDP(at) })
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	serving.Wait()
	if load.Late != 1 || len(load.Failures) != 1 || load.Answers < 1 || load.ByServer["u-1"] != load.Answers {
		t.Errorf("%+v; want one late, one lost", load)
	}
}
