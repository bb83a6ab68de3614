package unixctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/atoll-net/atoll/pkg/process/gate"
	"github.com/atoll-net/atoll/test/wait"
)

// TestReads: what may change something is none that reads, whatever daemon has it; and what is asked for every day is one.
func TestReads(t *testing.T) {
	t.Parallel()
	packet := strings.Repeat("0a", 60)
	for _, c := range []struct {
		line  string
		reads bool
	}{
		{"ovs-vswitchd version", true},
		{"ovs-vswitchd list-commands", true},
		{"ovs-vswitchd coverage/show", true},
		{"ovs-vswitchd dpif/dump-flows br-int", true},
		{"ovs-vswitchd dpctl/dump-conntrack", true},
		{"ovs-vswitchd bond/show", true},
		{"ovn-controller connection-status", true},
		{"ovn-controller ct-zone-list", true},
		{"ovsdb-server ovsdb-server/list-remotes", true},
		{"ovs-vswitchd ofproto/trace br-int in_port=1,dl_src=0a:00:00:00:00:01", true},
		{"ovs-vswitchd ofproto/trace --names br-int in_port=1", true},
		{"ovs-vswitchd ofproto/trace cafe in_port=1", true},
		{"ovs-vswitchd ofproto/trace br-int in_port=1 -generate", false},
		{"ovs-vswitchd ofproto/trace --generate br-int in_port=1", false},
		{"ovs-vswitchd ofproto/trace br-int in_port=1 " + packet, false},
		{"ovs-vswitchd exit", false},
		{"ovn-controller exit", false},
		{"ovs-vswitchd fdb/flush", false},
		{"ovs-vswitchd dpctl/flush-conntrack", false},
		{"ovs-vswitchd dpctl/del-flows", false},
		{"ovs-vswitchd vlog/set dbg", false},
		{"ovn-controller ct-zone-list-all", false},
		{"ovn-controller inc-engine/recompute", false},
		{"ovn-controller inject-pkt x", false},
		{"ovsdb-server ovsdb-server/add-remote ptcp:6640", false},
		{"ovsdb-server ovsdb-server/compact", false},
		// A daemon's commands are not another one's.
		{"ovn-controller dpif/dump-flows", false},
		{"ovs-vswitchd VERSION", false},
		{"nobody version", true},
		{"nobody fdb/show", false},
	} {
		words := strings.Fields(c.line)
		if have := Reads(words[0], words[1], words[2:]); have != c.reads {
			t.Errorf("%s: %t", c.line, have)
		}
	}
	spaced := strings.Join(strings.Split(packet, ""), " ")
	for _, p := range []string{packet + "\n", " " + packet, spaced, strings.ToUpper(packet)} {
		if Reads(Switch, traceCommand, []string{"br-int", "in_port=1", p}) {
			t.Errorf("a trace with the packet %q only reads", p)
		}
	}
	for daemon, commands := range reading {
		for _, c := range append(slices.Clone(commands), everybodys...) {
			for _, word := range []string{
				"set", "flush", "del", "add", "clear", "reset", "reopen", "exit", "purge", "reload", "enable", "disable", "kick", "leave",
			} {
				if parts := strings.FieldsFunc(c, func(r rune) bool { return r == '/' || r == '-' }); slices.Contains(parts, word) && c != "bond/list" {
					t.Errorf("%s of %s is said to read", c, daemon)
				}
			}
		}
	}
}

// through is what a gate sends on, and what it answers.
func through(g Gate, in io.Reader) (on, answers string, err error) {
	var server, client bytes.Buffer
	_, err = gate.Messages(g.judge)(in, &server, &client)
	return server.String(), client.String(), err
}

func TestGate(t *testing.T) {
	t.Parallel()
	const reads, exits = `{"id":1,"method":"version","params":[]}`, `{"id":"a","method":"exit","params":["--cleanup"]}`
	g := Gate{Daemon: Switch, Hint: "Ask for one that writes"}
	on, answers, err := through(g, strings.NewReader(reads+exits))
	if err != nil || strings.Contains(on, "exit") || !strings.Contains(on, "version") {
		t.Errorf("sent on was %s: %v", on, err)
	}
	const want = `{"error":"exit: this connection only reads, and sends ovs-vswitchd no command that may change something. Ask for one that writes","id":"a","result":null}` + "\n"
	if answers != want {
		t.Errorf("answered was %s, want %s", answers, want)
	}
	// The control: whoever may write may.
	g.Writes = true
	if on, answers, err = through(g, strings.NewReader(exits)); err != nil || answers != "" || !strings.Contains(on, `"method":"exit"`) {
		t.Errorf("who may write: sent on was %s, answered %s: %v", on, answers, err)
	}
	for _, text := range []string{
		`{}`, `[]`, `{"id":1,"method":"version","params":[1]}`, `{"id":1,"method":["exit"],"params":[]}`, `{"id":1,"result":"x","error":null}`,
		`{"id":1,"method":"version"}`,
	} {
		if on, _, err := through(g, strings.NewReader(text)); err == nil || on != "" {
			t.Errorf("%s: sent on was %s: %v", text, on, err)
		}
	}
}

// FuzzGate: whatever is sent, and however it is split, only commands that read go on.
func FuzzGate(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"version","params":[]}{"id":2,"method":"exit","params":[]}`,
		`{"id":1,"method":"version","method":"exit","params":[]}`,
		`{"id":1,"Method":"exit","method":"version","params":[]}`,
		`{"id":{"method":"exit","params":[]},"method":"version","params":["\u0000\ud800"]}`,
		`{"id":1,"method":"ofproto/trace","params":["br-int","in_port=1","-generate"]}`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, text []byte, split bool) {
		var in io.Reader = bytes.NewReader(text)
		if split {
			in = iotest.OneByteReader(in)
		}
		on, _, _ := through(Gate{Daemon: Switch}, in)
		for d := json.NewDecoder(strings.NewReader(on)); ; {
			var m struct {
				Method string
				Params []string
			}
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("what goes on is no message: %v: %s", err, on)
			}
			if !Reads(Switch, m.Method, m.Params) {
				t.Errorf("it goes on: %+v", m)
			}
		}
	})
}

func TestCall(t *testing.T) {
	t.Parallel()
	answer := func(text string) (string, error) {
		client, server := net.Pipe()
		defer func() { _, _ = client.Close(), server.Close() }()
		go func() {
			var request map[string]any
			if json.NewDecoder(server).Decode(&request) == nil {
				_, _ = io.WriteString(server, text)
			}
		}()
		return Call(wait.Context(t, wait.Patience), client, "version")
	}
	if text, err := answer(`{"id":0,"result":"3.5.0\n","error":null}`); err != nil || text != "3.5.0\n" {
		t.Errorf("%q: %v", text, err)
	}
	if _, err := answer(`{"id":0,"result":null,"error":"no such command\n"}`); err == nil ||
		!strings.Contains(err.Error(), "no such command") {
		t.Errorf("%v", err)
	} else if _, ok := errors.AsType[*RefusedError](err); !ok {
		t.Errorf("it is no refusal: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	client, server := net.Pipe()
	defer func() { _, _ = client.Close(), server.Close() }()
	if _, err := Call(ctx, client, "version"); err == nil {
		t.Error("it waits for ever")
	}
}
