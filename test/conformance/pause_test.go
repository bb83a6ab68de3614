package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	const log = `2026-11-20T19:19:59.123456789Z stderr F 2026-11-20T19:19:59Z|00300|timeval|WARN|Unreasonably long 9000ms poll interval (0ms user, 0ms system)
2026-11-20T19:21:54.123456789Z stderr F 2026-11-20T19:21:54Z|00003|ovs_rcu(urcu3)|WARN|blocked 1000 ms waiting for main to quiesce
2026-11-20T19:21:58.123456789Z stderr F 2026-11-20T19:21:58Z|00343|timeval|WARN|Unreasonably long 5711ms poll interval (0ms user, 0ms system)
2026-11-20T19:21:58.123456789Z stderr F 2026-11-20T19:21:58Z|00344|timeval|WARN|context switches: 3 voluntary, 0 involuntary
2026-11-20T19:22:01.123456789Z stderr F 2026-11-20T19:22:01Z|00001|timeval(revalidator4)|WARN|Unreasonably long 3078ms poll interval (0ms user, 0ms system)
2026-11-20T19:22:02.123456789Z stderr F 2026-11-20T19:22:02Z|00350|timeval|WARN|Unreasonably long 999ms poll interval (0ms user, 0ms system)
2026-11-20T19:22:03.123456789Z stderr F 2026-11-20T19:22:03Z|00351|timeval|WARN|Unreasonably long 1000ms poll interval (0ms user, 0ms system)
`
	since := time.Date(2026, 11, 20, 19, 20, 0, 5, time.UTC)
	got := parsePauses("n1", log, since)
	if len(got) != 2 || got[0].long != 5711*time.Millisecond || got[1].long != time.Second || got[0].node != "n1" {
		t.Fatalf("read %+v", got)
	}
	v := verdict{network: defaultNetwork, pauses: got, specs: []judged{{outcome: outcome{spec: "it", failure: "restarted"}}}}
	var out bytes.Buffer
	v.explain(&out)
	for _, want := range []string{
		"failed unexpectedly", "2 times for 1s and longer", "n1 for 5.7s until 19:21:58", "n1 for 1s until 19:22:03",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not show %q:\n%s", want, out.String())
		}
	}
	v.specs[0].passed = true
	out.Reset()
	if v.explain(&out); out.Len() > 0 {
		t.Errorf("explains a run in which nothing failed:\n%s", out.String())
	}
}
