package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
	"github.com/atoll-net/atoll/test/wait"
)

// watching answers who asks where marked packets are.
type watching struct {
	answers
	tell func(ctx context.Context, q ObserveQuestion, each func(ObserveLine) error) error
}

func (w watching) Observe(ctx context.Context, q ObserveQuestion, each func(ObserveLine) error) error {
	return w.tell(ctx, q, each)
}

func observation(t *testing.T) ObserveQuestion {
	t.Helper()
	mark, err := ping.NewMark()
	if err != nil {
		t.Fatal(err)
	}
	return ObserveQuestion{
		User: "jo", Pod: Pod{"red", "web", "uid-1"}, Watch: observe.Watch{
			Protocol: model.UDP, Mark: mark, Targets: 2, Ports: []uint16{53}, Time: time.Second,
		},
	}
}

func aPoint() Point {
	from, to := netip.MustParseAddrPort("10.0.0.5:4242"), netip.MustParseAddrPort("10.0.0.6:53")
	return Point{
		Packet: observe.Packet{
			Target: 1, From: from, To: to, Tunnel: observe.Tunnel{From: netip.MustParseAddr("192.0.2.1"), To: netip.MustParseAddr("192.0.2.2")},
		},
		Kind: KindPod, Interface: "atoll-x", Pod: Pod{"red", "db", "uid-2"}, Time: 7,
	}
}

// TestObservationsAreTold: the question gets to the agent as it was asked, with the mark, each line is told at once, and the log
// has one line.
func TestObservationsAreTold(t *testing.T) {
	t.Parallel()
	q := observation(t)
	var logged synced
	heard := make(chan struct{})
	c := serving(t, Handler(watching{tell: func(ctx context.Context, got ObserveQuestion, each func(ObserveLine) error) error {
		if a, _ := json.Marshal(got); string(a) != must(json.Marshal(q)) {
			t.Errorf("it is asked %s", a)
		}
		if err := each(ObserveLine{}); err != nil {
			return err
		}
		select {
		case <-heard:
		case <-ctx.Done():
			t.Error("that it begins is told at its end")
		}
		p := aPoint()
		return each(ObserveLine{Point: &p})
	}}, slog.New(slog.NewTextHandler(&logged, nil))))
	var got []ObserveLine
	err := c.Observe(t.Context(), q, func(line ObserveLine) error {
		if got = append(got, line); len(got) == 1 {
			close(heard)
		}
		return nil
	})
	if err != nil || len(got) != 2 || *got[1].Point != aPoint() {
		t.Errorf("%v, %+v", err, got)
	}
	wait.Until(t, wait.Patience, "a line in the log", func() bool { return strings.Contains(logged.String(), "\n") })
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "pod=red/web") ||
		strings.Contains(text, must(q.Watch.Mark.MarshalText())) {
		t.Errorf("it is logged as %s", text)
	}
}

func must(text []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestObserversAreNotBelieved: an agent that tells of what nobody has asked for, or of more than there may be, is not taken for
// one that answers.
func TestObserversAreNotBelieved(t *testing.T) {
	t.Parallel()
	endless := func(line ObserveLine) func(context.Context, ObserveQuestion, func(ObserveLine) error) error {
		return func(_ context.Context, _ ObserveQuestion, each func(ObserveLine) error) error {
			for range 10 * maxBeats {
				if err := each(line); err != nil {
					return err
				}
			}
			return nil
		}
	}
	once := func(change func(*Point)) func(context.Context, ObserveQuestion, func(ObserveLine) error) error {
		p := aPoint()
		change(&p)
		return func(_ context.Context, _ ObserveQuestion, each func(ObserveLine) error) error {
			return each(ObserveLine{Point: &p})
		}
	}
	p := aPoint()
	for name, c := range map[string]struct {
		tell func(context.Context, ObserveQuestion, func(ObserveLine) error) error
		says string
	}{
		"a packet of another target": {once(func(p *Point) { p.Target = 2 }), "nobody has asked for"},
		"no target":                  {once(func(p *Point) { p.Target = -1 }), "nobody has asked for"},
		"no addresses":               {once(func(p *Point) { p.From = netip.AddrPort{} }), "nobody has asked for"},
		"half a tunnel":              {once(func(p *Point) { p.Tunnel.To = netip.Addr{} }), "nobody has asked for"},
		"nowhere":                    {once(func(p *Point) { p.Interface = "" }), "nobody has asked for"},
		"never":                      {once(func(p *Point) { p.Time = 0 }), "nobody has asked for"},
		"too many points":            {endless(ObserveLine{Point: &p}), "longer than it may be"},
		"too many beats":             {endless(ObserveLine{}), "longer than it may be"},
		"half an answer": {func(_ context.Context, _ ObserveQuestion, each func(ObserveLine) error) error {
			return errors.Join(each(ObserveLine{}), errors.New("then it fails"))
		}, "then it fails"},
		"a refusal": {func(context.Context, ObserveQuestion, func(ObserveLine) error) error {
			return &RefusedError{What: "not now", Temporary: true}
		}, "not now"},
	} {
		client := serving(t, Handler(watching{tell: c.tell}, quiet()))
		err := client.Observe(t.Context(), observation(t), func(ObserveLine) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	older := serving(t, http.NotFoundHandler())
	if err := older.Observe(t.Context(), observation(t), func(ObserveLine) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "older than atoll-inspect") {
		t.Errorf("an older agent: %v", err)
	}
}

// TestObservationsAreBounded: no more at once than an agent makes, and none without a mark.
func TestObservationsAreBounded(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	client := serving(t, Handler(watching{tell: func(_ context.Context, _ ObserveQuestion, each func(ObserveLine) error) error {
		begun <- struct{}{}
		<-end
		return each(ObserveLine{})
	}}, quiet()))
	ended := make(chan error, maxObservationsAtOnce)
	for i := range maxObservationsAtOnce {
		q := observation(t)
		q.Account = turns.Who{Share: strconv.Itoa(i), Operator: true}
		go func() { ended <- client.Observe(t.Context(), q, func(ObserveLine) error { return nil }) }()
		<-begun
	}
	err := client.Observe(t.Context(), observation(t), func(ObserveLine) error { return nil })
	if refused, ok := errors.AsType[*RefusedError](err); !ok || !refused.Temporary ||
		!strings.Contains(refused.What, "as many questions at once as it may") {
		t.Errorf("one more: %v", err)
	}
	close(end)
	for range maxObservationsAtOnce {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	q := observation(t)
	q.Watch.Mark = ping.Mark{}
	if err := client.Observe(t.Context(), q, func(ObserveLine) error { return nil }); err == nil {
		t.Error("it is watched for packets without a mark")
	}
}
