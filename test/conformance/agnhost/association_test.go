package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// over is a packet as the other side reads it.
func over(t *testing.T, p packet) packet {
	t.Helper()
	read, err := parsePacket(p.bytes())
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestAnAssociationIsSetUp(t *testing.T) {
	c := newClient(40000, 80, 7)
	var said []byte
	for range 2 {
		said = append(said, c.say.chunk)
		reply, ok := answer(over(t, c.say), []uint16{81, 80}, 9)
		if !ok {
			t.Fatalf("no answer to chunk %d", c.say.chunk)
		}
		said = append(said, reply.chunk)
		for _, strange := range []packet{
			{from: 81, to: 40000, tag: 7, chunk: reply.chunk, cookie: reply.cookie},
			{from: 80, to: 40001, tag: 7, chunk: reply.chunk, cookie: reply.cookie},
			{from: 80, to: 40000, tag: 8, chunk: reply.chunk, cookie: reply.cookie},
			c.say,
		} {
			if changed, done, err := c.hear(over(t, strange)); changed || done || err != nil {
				t.Errorf("%+v is taken for an answer: %t %t %v", strange, changed, done, err)
			}
		}
		changed, done, err := c.hear(over(t, reply))
		if !changed || done != (reply.chunk == chunkCookieAck) || err != nil {
			t.Errorf("chunk %d: changed %t, done %t, %v", reply.chunk, changed, done, err)
		}
	}
	said = append(said, c.say.chunk)
	if want := []byte{chunkInit, chunkInitAck, chunkCookieEcho, chunkCookieAck, chunkAbort}; !slices.Equal(said, want) {
		t.Errorf("said %v, want %v", said, want)
	}
	if c.say.tag != 9 {
		t.Errorf("the last packet has tag %d, want the server's", c.say.tag)
	}
}

func TestAServerAnswersAtItsPortsOnly(t *testing.T) {
	for name, p := range map[string]packet{
		"another port":     {from: 40000, to: 82, chunk: chunkInit, initiate: 7},
		"INIT with a tag":  {from: 40000, to: 80, tag: 1, chunk: chunkInit, initiate: 7},
		"another's cookie": {from: 40000, to: 80, tag: 8, chunk: chunkCookieEcho, cookie: []byte{0, 0, 0, 7}},
		"no cookie":        {from: 40000, to: 80, tag: 9, chunk: chunkCookieEcho},
		"what it said":     {from: 40000, to: 80, tag: 7, chunk: chunkCookieAck},
	} {
		if got, ok := answer(over(t, p), []uint16{80, 81}, 9); ok {
			t.Errorf("%s: it answers %+v", name, got)
		}
	}
}

func TestAClientIsToldOfARefusal(t *testing.T) {
	c := newClient(40000, 80, 7)
	if _, _, err := c.hear(over(t, packet{from: 80, to: 40000, tag: 7, chunk: chunkAbort})); err == nil {
		t.Error("an association that was aborted goes on")
	}
}

func TestPacketsOfNobody(t *testing.T) {
	good := packet{from: 1, to: 2, tag: 3, chunk: chunkInitAck, initiate: 4, cookie: []byte{1, 2, 3, 4}}.bytes()
	for at := range good {
		bad := slices.Clone(good)
		bad[at] ^= 0x10
		if p, err := parsePacket(bad); err == nil {
			t.Errorf("with octet %d changed it is %+v", at, p)
		}
		if p, err := parsePacket(good[:at]); err == nil {
			t.Errorf("its first %d octets are %+v", at, p)
		}
	}
}

func TestArguments(t *testing.T) {
	c, ok := parseConnect([]string{"10.0.0.1:80", "--timeout=3s", "--protocol=sctp"})
	if want := (connection{"10.0.0.1:80", 3 * time.Second}); !ok || c != want {
		t.Errorf("read %+v %t, want %+v", c, ok, want)
	}
	for _, args := range [][]string{{"10.0.0.1:80"}, {"10.0.0.1:80", "--protocol=tcp"}} {
		if _, ok := parseConnect(args); ok {
			t.Errorf("%q is taken for SCTP", args)
		}
	}
	ports, rest := sctpPorts([]string{"A=b", "SERVE_SCTP_PORT_9003=foo", "SERVE_TCP_PORT_80=foo", "SERVE_SCTP_PORT_x=foo"})
	if diff := cmp.Diff([]uint16{9003}, ports); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"A=b", "SERVE_TCP_PORT_80=foo", "SERVE_SCTP_PORT_x=foo"}, rest); diff != "" {
		t.Error(diff)
	}
}

func FuzzParsePacket(f *testing.F) {
	f.Add(packet{from: 1, to: 2, chunk: chunkInit, initiate: 4}.bytes())
	f.Add(packet{from: 1, to: 2, tag: 3, chunk: chunkInitAck, initiate: 4, cookie: []byte{1, 2, 3, 4}}.bytes())
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := parsePacket(in)
		if err != nil {
			return
		}
		if again, err := parsePacket(p.bytes()); err != nil || !cmp.Equal(again, p, cmp.AllowUnexported(packet{})) {
			t.Errorf("%+v is read again as %+v (%v)", p, again, err)
		}
	})
}
