package ovsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/process/gate"
)

func gateThat(writes bool) Gate {
	return Gate{Database: NorthboundDatabase, Writes: writes, Hint: "Ask for one that writes"}
}

// passed is what a gate sends on and answers, and how it ends.
func passed(t testing.TB, g Gate, in io.Reader) (on, answers []map[string]any, err error) {
	t.Helper()
	var server, client bytes.Buffer
	_, err = gate.Messages(g.judge)(in, &server, &client)
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
		for bit, g := range map[int]Gate{reading: gateThat(false), writing: gateThat(true)} {
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
		`null`, `[]`, `1`, `{}`, `{"id":1}`, `{"id":1,"method":5,"params":[]}`, `{"id":1,"method":"echo"}`,
		`{"id":1,"method":"echo","params":{}}`, `{"id":1,`, `x`,
		`{"id":1,"METHOD":"transact","params":[]}`, `{"id":1,"method":"echo","params":["` + strings.Repeat("x", 3*256<<10) + `"]}`,
	} {
		const next = `{"id":2,"method":"echo","params":[]}`
		if on, _, err := passed(t, gateThat(true), strings.NewReader(text+next)); err == nil || len(on) != 0 {
			t.Errorf("%.60s: sent on %v: %v", text, on, err)
		}
	}
}

// TestRefusalsNameWhatIsRefused, as a server that only reads does, which OVN's programs understand.
func TestRefusalsNameWhatIsRefused(t *testing.T) {
	t.Parallel()
	_, answers, err := passed(t, gateThat(false), strings.NewReader(
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
		on, _, _ := passed(t, gateThat(false), &pieces{text: text, size: int(size)%64 + 1})
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
		whole, _, _ := passed(t, gateThat(false), bytes.NewReader(text))
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
