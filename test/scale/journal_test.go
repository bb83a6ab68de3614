package main

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadRecords(t *testing.T) {
	var file strings.Builder
	for _, text := range []string{
		`{"_date":0,"Logical_Switch_Port":{"r":{"up":true}}}`,
		`{"_date":1,"NB_Global":{"g":{"external_ids":["map",[]]}}}`,
		`{"_date":2,"Logical_Switch_Port":{"p":{"name":"ns/pod"},"q":null,"r":{"up":true}},"Logical_Switch":{"s":{"ports":["uuid","p"]}}}`,
	} {
		fmt.Fprintf(&file, "OVSDB JSON %d 0123abcd\n%s\n", len(text)+1, text)
	}
	got, err := readRecords(bufio.NewReader(strings.NewReader(file.String())))
	if err != nil || len(got) != 3 {
		t.Fatalf("%d records, error %v; want 3", len(got), err)
	}
	for i, want := range []bool{false, false, true} {
		if got[i].about() != want {
			t.Errorf("record %d: about() is %v, want %v", i, !want, want)
		}
	}
	if ports := got[2].inserted(); !slices.Equal(ports, []string{"p"}) {
		t.Errorf("inserted %v, want p", ports)
	}
	for _, broken := range []string{"what\n", "OVSDB JSON 9 ab\n{}", "OVSDB JSON 2 ab\n[]"} {
		if _, err := readRecords(bufio.NewReader(strings.NewReader(broken))); err == nil {
			t.Errorf("%q was read without an error", broken)
		}
	}
}
