package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/demo/ready"
)

func TestTickerSaysEachChangeOnce(t *testing.T) {
	var out bytes.Buffer
	tick := &ticker{out: &out, started: time.Now()}
	for _, r := range []ready.Report{
		{Networks: 2, Pods: 12, Waiting: []string{"Network red: Pending"}},
		{Networks: 2, Pods: 12, Waiting: []string{"Network blue: Pending"}},
		{Networks: 2, NetworksReady: 2, Pods: 12, PodsReady: 12},
	} {
		tick.report(r)
	}
	got := regexp.MustCompile(`(?m)^ *[0-9.]+m?s`).ReplaceAllString(out.String(), "T")
	want := `T  Networks Ready 0 of 2, pods Ready 0 of 12; waiting for Network red: Pending
T  Networks Ready 2 of 2, pods Ready 12 of 12
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
