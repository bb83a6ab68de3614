package openflow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// of is a message of a version.
func of(version, kind byte, body ...byte) []byte {
	m := encode(kind, 7, body)
	m[0] = version
	return m
}

// numbers are 16 or 32 bits each, as they stand in a body.
func numbers(of ...any) (out []byte) {
	for _, n := range of {
		out, _ = binary.Append(out, binary.BigEndian, n) // only integers are given
	}
	return out
}

func TestGate(t *testing.T) {
	t.Parallel()
	none := uint32(0)
	for name, c := range map[string]struct {
		message []byte
		reads   bool
	}{
		"hello":                        {of(6, typeHello), true},
		"hello of a version to come":   {of(9, typeHello), true},
		"echo":                         {of(4, typeEchoRequest, 1, 2, 3), true},
		"features":                     {of(1, 5), true},
		"settings":                     {of(4, 7), true},
		"barrier":                      {of(4, 20), true},
		"barrier of the first":         {of(1, 18), true},
		"flows":                        {of(4, 18, numbers(uint16(1), uint16(0), none)...), true},
		"flows of the first":           {of(1, 16, numbers(uint16(1), uint16(0))...), true},
		"groups":                       {of(6, 18, numbers(uint16(7), uint16(0), none)...), true},
		"tables":                       {of(4, 18, numbers(uint16(12), uint16(0), none)...), true},
		"flows by Nicira":              {of(1, 16, numbers(uint16(0xffff), uint16(0), uint32(nicira), none)...), true},
		"flow format":                  {of(1, 4, numbers(uint32(nicira), uint32(12), none)...), true},
		"tunnel options":               {of(4, 4, numbers(uint32(nicira), uint32(25))...), true},
		"the first part of a question": {of(4, 18, numbers(uint16(1), uint16(1), none)...), false},
		"tables that are set":          {of(4, 18, numbers(uint16(12), uint16(0), none, none)...), false},
		"a monitor of flows":           {of(5, 18, numbers(uint16(16), uint16(0), none)...), false},
		"a monitor by Nicira":          {of(1, 16, numbers(uint16(0xffff), uint16(0), uint32(nicira), uint32(2))...), false},
		"statistics of somebody":       {of(4, 18, numbers(uint16(0xffff), uint16(0), none, uint32(1), none)...), false},
		"statistics without a kind":    {of(4, 18, 0), false},
		"statistics without padding":   {of(4, 18, numbers(uint16(1), uint16(0))...), false},
		"a flow":                       {of(4, typeFlowMod, make([]byte, 48)...), false},
		"a flow of the first":          {of(1, typeFlowMod, make([]byte, 64)...), false},
		"a packet":                     {of(4, 13, make([]byte, 16)...), false},
		"settings that are set":        {of(4, 9, 0, 0, 0, 0), false},
		"a group":                      {of(4, 15, make([]byte, 8)...), false},
		// It was a question in the first version.
		"a port":                     {of(4, 16, numbers(uint16(1), uint16(0), none)...), false},
		"a port of the first":        {of(1, 15, make([]byte, 24)...), false},
		"a meter":                    {of(4, 29, make([]byte, 8)...), false},
		"a role":                     {of(4, 24, make([]byte, 16)...), false},
		"a role by Nicira":           {of(1, 4, numbers(uint32(nicira), uint32(10), none)...), false},
		"what is told by itself":     {of(4, 28, make([]byte, 24)...), false},
		"a bundle":                   {of(5, 33, make([]byte, 8)...), false},
		"a flow in a bundle":         {of(5, 34, make([]byte, 8)...), false},
		"of somebody":                {of(4, 4, make([]byte, 8)...), false},
		"of nobody":                  {of(4, 4), false},
		"a flow of a version beyond": {of(9, typeFlowMod), false},
		"of no version":              {of(0, 5), false},
	} {
		for _, writes := range []bool{false, true} {
			var server, client bytes.Buffer
			refused, err := Gate{Writes: writes}.pass(bytes.NewReader(c.message), &server, &client)
			passes := c.reads || writes
			if err != nil || bytes.Equal(server.Bytes(), c.message) != passes || (refused == 0) != passes || (client.Len() == 0) != passes {
				t.Errorf("%s, writes %t: sent on %x, answered %x: %v", name, writes, server.Bytes(), client.Bytes(), err)
			}
		}
	}
}

// TestRefusals are errors about the message that was refused, in its own version.
func TestRefusals(t *testing.T) {
	t.Parallel()
	m := of(5, typeFlowMod, bytes.Repeat([]byte{9}, 100)...)
	have := notPermitted(m)
	if want := append([]byte{5, typeError, 0, headerLength + 4 + 64, 0, 0, 0, 7, 0, 1, 0, 5}, m[:64]...); !bytes.Equal(have, want) {
		t.Errorf("%x, want %x", have, want)
	}
	for name, text := range map[string][]byte{
		"a length below its header's": {4, 0, 0, 7, 0, 0, 0, 0}, "half a header": {4, 0, 0}, "half a message": {4, 0, 0, 9, 0, 0, 0, 0},
	} {
		var server bytes.Buffer
		if _, err := (Gate{Writes: true}).pass(bytes.NewReader(text), &server, io.Discard); err == nil || server.Len() > 0 {
			t.Errorf("%s: %x is sent on: %v", name, server.Bytes(), err)
		}
	}
}

// FuzzGate: whatever is sent, and however it is split, only whole messages go on that change nothing.
func FuzzGate(f *testing.F) {
	f.Add(slices.Concat(of(4, typeHello), of(4, 18, numbers(uint16(1), uint16(0), uint32(0))...), of(4, typeFlowMod, 1, 2, 3)), true)
	f.Add(of(1, 16, numbers(uint16(0xffff), uint16(0), uint32(nicira), uint32(2))...), false)
	f.Add([]byte{4, 14, 0, 3, 0, 0, 0, 0}, true)
	f.Add(append([]byte{4, 2, 0, 16, 0, 0, 0, 0}, of(4, typeFlowMod)...), false)
	f.Fuzz(func(t *testing.T, text []byte, split bool) {
		var in io.Reader = bytes.NewReader(text)
		if split {
			in = iotest.OneByteReader(in)
		}
		var server, client bytes.Buffer
		_, _ = Gate{}.pass(in, &server, &client)
		writing := []byte{9, 13, 14, 17, 24, 28, 29, 30, 31, 32, 33, 34}
		for left := server.Bytes(); len(left) > 0; {
			if len(left) < headerLength || int(binary.BigEndian.Uint16(left[2:])) > len(left) || binary.BigEndian.Uint16(left[2:]) < headerLength {
				t.Fatalf("what goes on is no message: %x", left)
			}
			m := left[:binary.BigEndian.Uint16(left[2:])]
			if left = left[len(m):]; slices.Contains(writing, m[1]) || m[0] > 1 && (m[1] == 15 || m[1] == 16) || m[0] == 1 && m[1] == 15 {
				t.Errorf("it goes on: %x", m)
			}
		}
		whole := &frames{}
		if _, err := whole.Follow(client.Bytes()); err != nil || !whole.Between() {
			t.Errorf("what is answered is no message: %x: %v", client.Bytes(), err)
		}
	})
}

// TestFrames: where messages end is the same however they are split.
func TestFrames(t *testing.T) {
	t.Parallel()
	all := slices.Concat(of(4, 0), of(4, 2, 1, 2, 3), of(4, 3, bytes.Repeat([]byte{4, 0, 0, 1}, 40)...))
	ends := map[int]bool{8: true, 19: true, len(all): true}
	f := &frames{}
	for i := range all {
		over, err := f.Follow(all[i : i+1])
		if err != nil || (over == 1) != ends[i+1] || f.Between() != ends[i+1] {
			t.Errorf("after %d bytes: over at %d, between %t: %v", i+1, over, f.Between(), err)
		}
	}
	if over, err := (&frames{}).Follow(append(slices.Clone(all), 4, 0)); err != nil || over != len(all) {
		t.Errorf("the last is over at %d, want %d: %v", over, len(all), err)
	}
	if _, err := (&frames{}).Follow([]byte(strings.Repeat("\x00", 8))); !errors.Is(err, errNoOpenFlow) {
		t.Errorf("%v", err)
	}
}
