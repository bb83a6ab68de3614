package ovsdb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func gate(writes bool) Gate {
	return Gate{Database: NorthboundDatabase, Writes: writes, Hint: "Ask for one that writes"}
}

// passed is what a gate sends on and answers, and how it ends.
func passed(t testing.TB, g Gate, in io.Reader) (on, answers []map[string]any, err error) {
	t.Helper()
	var server, client bytes.Buffer
	_, err = g.pass(in, &server, &client)
	read := func(from *bytes.Buffer) (out []map[string]any) {
		d := json.NewDecoder(from)
		d.UseNumber()
		for {
			var m map[string]any
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				return out
			} else if err != nil {
				t.Fatalf("what was written is no message: %v", err)
			}
			out = append(out, m)
		}
	}
	return read(&server), read(&client), err
}

func TestGate(t *testing.T) {
	t.Parallel()
	const reading, writing = 1, 2
	for text, through := range map[string]int{
		`{"id":1,"method":"list_dbs","params":[]}`:                            reading | writing,
		`{"id":1,"method":"get_schema","params":["OVN_Northbound"]}`:          reading | writing,
		`{"id":1,"method":"get_schema","params":["OVN_Southbound"]}`:          0,
		`{"id":1,"method":"get_schema","params":[]}`:                          0,
		`{"id":1,"method":"monitor_cond_since","params":["_Server",null,{}]}`: reading | writing,
		`{"id":null,"method":"cancel","params":[1]}`:                          reading | writing,
		`{"id":"echo","result":[],"error":null}`:                              reading | writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL","where":[]},{"op":"comment","comment":"x"}]}`: reading | writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"wait","timeout":0,"table":"ACL"}]}`:                                 reading | writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"wait","timeout":9,"table":"ACL"}]}`:                                 writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"wait","table":"ACL"}]}`:                                             writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"ACL","row":{}}]}`:                                  writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","op":"delete","table":"ACL","where":[]}]}`:                  writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL"},{"op":"mutate","table":"ACL"}]}`:             writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"commit","durable":true}]}`:                                          writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",["op","insert"]]}`:                                                         writing,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"Select"}]}`:                                                         writing,
		`{"id":1,"method":"transact","params":["OVN_Southbound",{"op":"select","table":"Chassis","where":[]}]}`:                            0,
		`{"id":1,"method":"transact","params":["_Server",{"op":"delete","table":"Database","where":[]}]}`:                                  0,
		`{"id":1,"method":"steal","params":["ovn_northd"]}`:                                                                                0,
		`{"id":1,"method":"lock","params":["ovn_northd"]}`:                                                                                 0,
		`{"id":1,"method":"convert","params":["OVN_Northbound",{}]}`:                                                                       0,
		`{"id":1,"METHOD":"transact","method":"transacT","params":["OVN_Northbound"]}`:                                                     0,
	} {
		for bit, g := range map[int]Gate{reading: gate(false), writing: gate(true)} {
			on, answers, err := passed(t, g, strings.NewReader(text))
			if err != nil || len(on)+len(answers) != 1 || (len(on) == 1) != (through&bit != 0) {
				t.Errorf("writes %t: %s:\nsent on %v, answered %v: %v", g.Writes, text, on, answers, err)
			}
		}
	}
}

// TestGateEndsWhatIsNoMessage: after it nobody knows where the next message begins.
func TestGateEndsWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`null`, `[]`, `1`, `{}`, `{"id":1}`, `{"id":1,"method":5,"params":[]}`, `{"id":1,"method":"echo"}`, `{"id":1,"method":"echo","params":{}}`, `{"id":1,`, `x`,
		`{"id":1,"METHOD":"transact","params":[]}`, `{"id":1,"method":"echo","params":["` + strings.Repeat("x", 3*maxMessage) + `"]}`,
	} {
		const next = `{"id":2,"method":"echo","params":[]}`
		if on, _, err := passed(t, gate(true), strings.NewReader(text+next)); err == nil || len(on) != 0 {
			t.Errorf("%.60s: sent on %v: %v", text, on, err)
		}
	}
}

// TestRefusalsNameWhatIsRefused, as a server that only reads does, which OVN's programs understand.
func TestRefusalsNameWhatIsRefused(t *testing.T) {
	t.Parallel()
	_, answers, err := passed(t, gate(false), strings.NewReader(
		`{"id":7,"method":"transact","params":["OVN_Northbound",{"op":"comment","comment":"x"},{"op":"insert","table":"Logical_Switch","row":{}}]}`+
			`{"id":8,"method":"steal","params":["x"]}{"id":null,"method":"steal","params":["x"]}`))
	text, _ := json.Marshal(answers)
	want := `[{"error":null,"id":7,"result":[null,{"details":"insert of Logical_Switch: this connection only reads. Ask for one that writes","error":"not allowed"}]},` +
		`{"error":{"details":"method \"steal\" is not let through","error":"not allowed"},"id":8,"result":null}]`
	if err != nil || string(text) != want {
		t.Errorf("%v\n%s, want\n%s", err, text, want)
	}
}

// FuzzGate: whatever is sent, and however it is split, nothing that writes goes on to the server, nor anything about another database.
func FuzzGate(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL","where":[]}]}`,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"ACL","row":{}}]}`,
		`{"id":1,"method":"echo","params":[]}{"id":2,"method":"transact","params":["OVN_Northbound",{"op":"delete","table":"ACL","where":[]}]}`,
		`{"id":1,"method":"echo","method":"transact","params":["OVN_Northbound",{"op":"select","op":"delete","table":"ACL"}]}`,
		`{"id":1,"method":"echo","params":["{\"method\":\"transact\"}\u0000\ud800` + "\xff" + `"]}`,
		`{"id":1,"Method":"transact","params":["OVN_Northbound",{"OP":"insert","table":"ACL"}]}`,
		`{"id":{"method":"transact","params":[]},"result":{"method":"transact"},"error":1e999}`,
		`{"id":"x","method":"steal","params":["ovn_northd"]}`,
	} {
		f.Add([]byte(seed), uint8(1))
		f.Add([]byte(seed), uint8(7))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		on, _, _ := passed(t, gate(false), &pieces{text: text, size: int(size)%64 + 1})
		for _, m := range on {
			method, asks := m["method"].(string)
			if !asks {
				if _, there := m["method"]; there {
					t.Errorf("its method is no text: %v", m)
				}
				continue
			}
			ofDatabase, known := gateMethods[method]
			params, _ := m["params"].([]any)
			if !known || ofDatabase && params[0] != NorthboundDatabase && params[0] != serverDatabase {
				t.Errorf("it goes on: %v", m)
			}
			if method != methodTransact {
				continue
			}
			for _, op := range params[1:] {
				if name, _ := op.(map[string]any)["op"].(string); !slices.Contains([]string{"select", "wait", "comment", "abort", "assert"}, name) {
					t.Errorf("%q goes on: %v", name, m)
				}
			}
		}
		whole, _, _ := passed(t, gate(false), bytes.NewReader(text))
		if fmt.Sprint(whole) != fmt.Sprint(on) {
			t.Errorf("split it is sent on as\n%v\nand whole as\n%v", on, whole)
		}
	})
}

// pieces reads a text in pieces of a size.
type pieces struct {
	text []byte
	size int
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.text[:min(p.size, len(p.text))])
	p.text = p.text[n:]
	return n, nil
}

// TestAnswersStandBetweenTheServersMessages, however these are split.
func TestAnswersStandBetweenTheServersMessages(t *testing.T) {
	t.Parallel()
	said := []byte(`{"id":1,"result":{"a":"}{\"\\"},"error":null} {"id":2,"result":["{"]}` + "\n" + `{"id":3}`)
	const own = `{"id":"own"}`
	for at := range said {
		var out bytes.Buffer
		b := &backwards{to: &out}
		if _, err := (serverSays{b}).Write(said[:at]); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Write([]byte(own)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(serverSays{b}, iotest.OneByteReader(bytes.NewReader(said[at:]))); err != nil {
			t.Fatal(err)
		}
		d, ids := json.NewDecoder(&out), []any{}
		for {
			var m map[string]any
			err := d.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes: %v", at, err)
			}
			ids = append(ids, m["id"])
		}
		if len(ids) != 4 || !slices.Contains(ids, any("own")) {
			t.Errorf("after %d bytes: %v", at, ids)
		}
	}
	b := &backwards{to: io.Discard, depth: 1}
	if _, err := b.Write(make([]byte, maxAnswers+1)); !errors.Is(err, errNoReader) {
		t.Errorf("answers that nobody takes: %v", err)
	}
}

// joined is a client and a server that talk through a gate, and how that ends.
func joined(ctx context.Context, bounds Bounds) (client, server net.Conn, ended <-chan error) {
	client, far := net.Pipe()
	near, server := net.Pipe()
	end := make(chan error, 1)
	go func() {
		_, err := gate(false).Join(ctx, far, near, bounds)
		end <- err
	}()
	return client, server, end
}

func TestJoinEnds(t *testing.T) {
	t.Parallel()
	long := Bounds{Idle: time.Minute, Stuck: time.Minute}
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		bounds Bounds
		do     func(client, server net.Conn, end context.CancelCauseFunc)
		want   error
	}{
		"the client goes":            {long, func(c, _ net.Conn, _ context.CancelCauseFunc) { _ = c.Close() }, errClient},
		"the server goes":            {long, func(_, s net.Conn, _ context.CancelCauseFunc) { _ = s.Close() }, errServer},
		"somebody ends it":           {long, func(_, _ net.Conn, end context.CancelCauseFunc) { end(gone) }, gone},
		"nobody says anything":       {Bounds{Idle: 20 * time.Millisecond, Stuck: time.Minute}, func(net.Conn, net.Conn, context.CancelCauseFunc) {}, errIdle},
		"the client never reads":     {Bounds{Idle: time.Minute, Stuck: 20 * time.Millisecond}, func(_, s net.Conn, _ context.CancelCauseFunc) { _, _ = s.Write([]byte(`{"id":1}`)) }, errStuck},
		"the client says no message": {long, func(c, _ net.Conn, _ context.CancelCauseFunc) { _, _ = c.Write([]byte(`{}`)) }, errNoMessage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			client, server, ended := joined(ctx, c.bounds)
			c.do(client, server, end)
			select {
			case err := <-ended:
				if !errors.Is(err, c.want) {
					t.Errorf("it ends with %v, want %v", err, c.want)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it does not end")
			}
			for _, conn := range []net.Conn{client, server} {
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					t.Error("an end is still open")
				}
			}
		})
	}
}
