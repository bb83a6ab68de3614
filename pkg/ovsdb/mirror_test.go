package ovsdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/nb"
)

const (
	testPort   = "Logical_Switch_Port"
	testSwitch = "Logical_Switch"
)

func updated(t *testing.T, m *mirror, text string) {
	t.Helper()
	if _, err := m.update(&cursor{text: []byte(text)}); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestMirrorFollowsUpdates(t *testing.T) {
	m := newMirror()
	port, set := nb.Ref{Table: testPort, UUID: "p"}, nb.Set{In: nb.Ref{Table: testSwitch, UUID: "s"}, Column: nb.ColumnPorts}
	look := func() string {
		row, ok := m.row(port)
		if !ok {
			return fmt.Sprintf("no port, elements %v", m.elements(set))
		}
		p := row.(*nb.LogicalSwitchPort)
		var options []string
		for _, k := range slices.Sorted(maps.Keys(p.Options)) {
			options = append(options, k+"="+p.Options[k])
		}
		return fmt.Sprintf("%s %s %v %v, elements %v", p.Name, p.Type, p.Addresses, options, slices.Sorted(slices.Values(m.elements(set))))
	}
	for _, step := range []struct{ update, want, changes string }{
		{
			`{"Logical_Switch":{"s":{"initial":{"name":"sw","ports":["uuid","p"]}}},"Logical_Switch_Port":{"p":{"initial":{"name":"one","addresses":"a","options":["map",[["k","v"],["l","w"]]]}}}}`,
			"one  [a] [k=v l=w], elements [p]", "Logical_Switch/s Logical_Switch_Port/p in s:p",
		},
		{`{"Logical_Switch_Port":{"p":{"modify":{"addresses":["set",["a","b"]]}}}}`, "one  [b] [k=v l=w], elements [p]", "Logical_Switch_Port/p"},
		{`{"Logical_Switch_Port":{"p":{"modify":{"options":["map",[["k","v"],["l","x"],["m","y"]]]}}}}`, "one  [b] [l=x m=y], elements [p]", "Logical_Switch_Port/p"},
		{`{"Logical_Switch_Port":{"p":{"modify":{"type":"router","addresses":"b"}}}}`, "one router [] [l=x m=y], elements [p]", "Logical_Switch_Port/p"},
		{`{"Logical_Switch":{"s":{"modify":{"ports":["set",[["uuid","p"],["uuid","q"]]]}}}}`, "one router [] [l=x m=y], elements [q]", "in s:p in s:q"},
		{`{"Logical_Switch":{"s":{"delete":null}},"Logical_Switch_Port":{"p":{"delete":null}}}`, "no port, elements []", "Logical_Switch/s Logical_Switch_Port/p"},
	} {
		before, _ := m.row(port)
		text := fmt.Sprintf("%+v", before)
		updated(t, m, step.update)
		if got := look(); got != step.want {
			t.Errorf("after %s\nthere is %s\nwant %s", step.update, got, step.want)
		}
		if now := fmt.Sprintf("%+v", before); now != text {
			t.Errorf("%s changed a row that was handed out: %s, it was %s", step.update, now, text)
		}
		var changes []string
		c := m.take()
		for ref := range c.Rows {
			changes = append(changes, string(ref.Table)+"/"+ref.UUID)
		}
		for x := range c.Members {
			changes = append(changes, "in "+x.In.UUID+":"+x.Value)
		}
		if slices.Sort(changes); strings.Join(changes, " ") != step.changes {
			t.Errorf("%s: changes %q, want %q", step.update, changes, step.changes)
		}
	}
}

// A mirror that is not what the database holds would have the controller write wrong rows: it must not go on.
func TestMirrorRefusesWhatDoesNotFit(t *testing.T) {
	for _, text := range []string{
		`{"Logical_Switch_Port":{"p":{"insert":{"name":"again"}}}}`,
		`{"Logical_Switch_Port":{"x":{"modify":{"name":"unknown"}}}}`,
		`{"Logical_Switch_Port":{"x":{"delete":null}}}`,
		`{"Logical_Switch_Port":{"p":{"what":{}}}}`,
		`{"Logical_Switch_Port":{"p":{"modify":{"name":["set",["a"]]}}}}`,
		`{"Logical_Switch_Port":{"p":{"modify":{"options":["set",[]]}}}}`,
		`{"Logical_Switch_Port":{"p":{"modify":{"options":["map",[["k"]]]}}}}`,
		`{"Logical_Switch_Port":{"p":{"modify":{"addresses":["uuid"]}}}}`,
		`{"Logical_Switch_Port":[]}`,
		`{"Logical_Switch_Port":{"p":{"modify":{"name":"x"}}}`,
	} {
		m := newMirror()
		updated(t, m, `{"Logical_Switch_Port":{"p":{"initial":{"name":"one"}}}}`)
		if _, err := m.update(&cursor{text: []byte(text)}); err == nil {
			t.Errorf("%s was taken in", text)
		}
	}
	// What others keep in the database is none of our business.
	m := newMirror()
	updated(t, m, `{"Meter":{"m":{"insert":{"unit":"kbps"}}},"Logical_Switch_Port":{"p":{"insert":{"name":"one","later":["set",[1,2]]}}}}`)
}

func TestOptionalValues(t *testing.T) {
	a, b := "a", "b"
	for _, tt := range []struct {
		had  *string
		list []string
		want *string
	}{{nil, []string{"a"}, &a}, {&a, []string{"a"}, nil}, {&a, []string{"b"}, &b}, {&a, []string{"a", "b"}, &b}, {&a, []string{"b", "a"}, &b}, {&a, nil, nil}} {
		got := optional(tt.had, tt.list)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("optional(%v, %v) = %v, want %v", tt.had, tt.list, got, tt.want)
		}
	}
}
