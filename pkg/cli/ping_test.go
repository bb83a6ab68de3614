package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

func took(d time.Duration) meta.Duration { return meta.Duration{Duration: d} }

// TestPingIsPrinted: each reply is a line at once, and at the end stands what of each address was lost, and what to do.
func TestPingIsPrinted(t *testing.T) {
	t.Parallel()
	p := &pinged{From: "red/web-0", To: "red/db-0", Protocol: "icmp"}
	var out bytes.Buffer
	for i, r := range []api.PodPingReply{
		{Address: "10.0.0.3", Number: 1, Answered: true, Took: took(610 * time.Microsecond)},
		{Address: "fd00::3", Number: 1, Answered: true, Took: took(1200 * time.Microsecond)},
		{Address: "10.0.0.3", Number: 2, Answered: true, Took: took(210 * time.Microsecond)},
		{Address: "10.0.0.3", Number: 3, Why: "no answer within 1s\x1b[2J"},
	} {
		p.Replies = append(p.Replies, r)
		out.WriteString(pingLine(i == 0, r))
	}
	p.conclude()
	if err := p.print(&out, formatTable); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"#     ADDRESS                  ANSWER",
		"1     10.0.0.3                 0.61 ms",
		"1     fd00::3                  1.20 ms",
		"2     10.0.0.3                 0.21 ms",
		"3     10.0.0.3                 LOST: no answer within 1s",
		"",
		"red/web-0 to 10.0.0.3: 3 packets sent, 2 answered, 33% lost; min/avg/max 0.21/0.41/0.61 ms",
		"red/web-0 to fd00::3: 1 packet sent, 1 answered, 0% lost; min/avg/max 1.20/1.20/1.20 ms",
		"Next: atoll explain red/web-0 red/db-0 --protocol icmp",
		"",
	}
	got := strings.Split(out.String(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || !strings.HasPrefix(got[i], want[i]) || strings.Contains(got[i], "\x1b") {
			t.Fatalf("line %d differs of\n%s", i+1, out.String())
		}
	}
	for protocol, next := range map[string]string{
		"tcp": "atoll explain a/b c/d --port 80", "udp": "atoll explain a/b c/d --port 80 --protocol udp",
	} {
		p := &pinged{From: "a/b", To: "c/d", Protocol: protocol, Port: 80, Replies: []api.PodPingReply{{}}}
		if p.conclude(); p.Next != next || p.Lost != 1 {
			t.Errorf("of %s is next %q", protocol, p.Next)
		}
	}
}

// TestLongPingsAreAskedInParts: no question takes longer than one may, and the numbers go on.
func TestLongPingsAreAskedInParts(t *testing.T) {
	t.Parallel()
	o := pingOptions{count: 45, size: 56, interval: 10 * time.Millisecond, timeout: time.Second, output: formatTable}
	spec, err := o.spec("red/db-0")
	if err != nil {
		t.Fatal(err)
	}
	next, parts := 1, 0
	err = o.parts(t.Context(), spec, func(ctx context.Context, part api.PodPingSpec) error {
		if deadline, has := ctx.Deadline(); part.First != next || part.Count < 1 || time.Duration(part.Count)*o.timeout > pingQuestion || !has ||
			time.Until(deadline) > time.Minute {
			t.Errorf("%+v is asked, and %d is next", part, next)
		}
		next, parts = next+part.Count, parts+1
		return nil
	})
	if err != nil || next != 46 || parts != 3 {
		t.Errorf("%d parts, up to %d: %v", parts, next, err)
	}
}

func TestPingFlags(t *testing.T) {
	t.Parallel()
	good := pingOptions{count: 4, size: 56, interval: time.Second, timeout: time.Second, output: formatTable}
	for name, c := range map[string]struct {
		change func(*pingOptions)
		says   string
	}{
		"udp without port": {func(o *pingOptions) { o.udp = true }, "--port"},
		"none":             {func(o *pingOptions) { o.count = 0 }, "--count"},
		"a million":        {func(o *pingOptions) { o.count = 1e6 }, "--count"},
		"an hour":          {func(o *pingOptions) { o.timeout = time.Hour }, "--timeout"},
		"no interval":      {func(o *pingOptions) { o.interval = 0 }, "--interval"},
		"names":            {func(o *pingOptions) { o.output = formatName }, "--output"},
	} {
		o := good
		c.change(&o)
		if _, err := o.spec("red/db-0"); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for port, protocol := range map[uint16]string{0: "icmp", 80: "tcp"} {
		o := good
		o.port = port
		if s, err := o.spec("red/db-0"); err != nil || s.Protocol != protocol {
			t.Errorf("port %d: %+v, %v", port, s, err)
		}
	}
	if err := runPing(t.Context(), good, "web-0",
		"red/db-0", &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "NAMESPACE/NAME") || ExitStatus(err) != statusFailed {
		t.Errorf("no pod: %v", err)
	}
	if ExitStatus(ErrLost) != statusDifferences {
		t.Error("lost packets do not end with status 1")
	}
}
