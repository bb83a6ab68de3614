package ovsdb

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestCursorReads(t *testing.T) {
	c := &cursor{text: []byte(` {"a" : [1, "x\"y", true ,null], "b":{}, "c":[] ,"d":"\u00e9"} `)}
	var got []string
	c.object(func(name []byte) {
		got = append(got, string(name))
		if string(name) == "a" {
			c.array(func() { got = append(got, string(c.value())) })
			return
		}
		if string(name) == "d" {
			got = append(got, c.str())
			return
		}
		got = append(got, string(c.value()))
	})
	want := []string{"a", "1", `"x\"y"`, "true", "null", "b", "{}", "c", "[]", "d", "é"}
	if c.err != nil || !slices.Equal(got, want) {
		t.Errorf("read %q, error %v; want %q", got, c.err, want)
	}
}

func TestCursorRefuses(t *testing.T) {
	for _, text := range []string{``, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{1:2}`, `[`, `["`, `"\`, `nul`, `[1 2]`, `}`, `,`} {
		c := &cursor{text: []byte(text)}
		switch {
		case strings.HasPrefix(text, "{"):
			c.object(func([]byte) { c.value() })
		case strings.HasPrefix(text, "["):
			c.array(func() { c.value() })
		case strings.HasPrefix(text, `"`):
			c.str()
		case strings.HasPrefix(text, "n"):
			c.null()
		default:
			c.value()
		}
		if c.err == nil {
			t.Errorf("%q was read without an error", text)
		}
	}
}

// FuzzCursor: whatever JSON says is a value is read as one, to its end; and nothing makes the cursor panic or hang.
func FuzzCursor(f *testing.F) {
	f.Add([]byte(`{"a":[1,"x",{"y":null}],"b":"\\"}`))
	f.Add([]byte(`["map",[["k","v"]]]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c := &cursor{text: text}
		got := c.value()
		if json.Valid(text) && (c.err != nil || !bytes.Equal(got, bytes.Trim(text, " \t\r\n"))) {
			t.Errorf("%q was read as %q, error %v", text, got, c.err)
		}
		m := newMirror()
		_, _ = m.update(&cursor{text: text})
		_ = Request{guards: 1, changes: []bool{false, true}}.read(&cursor{text: text})
		_ = leads(&cursor{text: text})
	})
}

func TestFramesAreCutWhereverTheStreamIs(t *testing.T) {
	messages := []string{`{"id":1,"result":"}{"}`, `{"a":"\\\"}"}`, `{}`, `{"b":[[{}],{"c":"]"}]}`}
	for name, from := range map[string]io.Reader{
		"whole":     strings.NewReader(strings.Join(messages, "")),
		"bytewise":  iotest.OneByteReader(strings.NewReader(strings.Join(messages, "\n "))),
		"in halves": iotest.HalfReader(strings.NewReader(strings.Join(messages, ""))),
	} {
		f := frames{from: bufio.NewReaderSize(from, 16)}
		for i, want := range messages {
			got, err := f.next()
			if err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s, message %d: %q, error %v; want %q", name, i, got, err, want)
			}
		}
		if got, err := f.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: after the last there is %q, error %v", name, got, err)
		}
	}
	f := frames{from: bufio.NewReader(strings.NewReader(`{"a":`))}
	if _, err := f.next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a message: error %v", err)
	}
}
