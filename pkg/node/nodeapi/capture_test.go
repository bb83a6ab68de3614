package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/test/wait"
)

// packets are told by a function.
type packets func(ctx context.Context, q CaptureQuestion, each func(CaptureLine) error) error

func (p packets) Ping(context.Context, Pod, ping.Spec, func(ping.Reply)) error {
	return errors.New("nobody asks for it here")
}

func (p packets) Check(context.Context, bool) (api.NodeCheckStatus, error) {
	return api.NodeCheckStatus{}, errors.New("nobody asks for it here")
}

func (p packets) Flows(context.Context, model.FlowQuestion, func(model.Flow) error) error {
	return errors.New("nobody asks for it here")
}

func (p packets) Observe(context.Context, ObserveQuestion, func(ObserveLine) error) error {
	return errors.New("nobody watches here")
}

func (p packets) Connect(context.Context, ConnectQuestion) (net.Conn, Gate, error) {
	return nil, nil, errors.New("nobody asks for it here")
}

func (p packets) Capture(ctx context.Context, q CaptureQuestion, each func(CaptureLine) error) error {
	return p(ctx, q, each)
}

func captureQuestion() CaptureQuestion {
	return CaptureQuestion{
		User: "jo", Pod: Pod{"red", "web", "uid-1"}, Spec: capture.Spec{Interface: "eth0", Direction: capture.Both, SnapLength: 100, Count: 3},
		Part: capture.Part{ID: "0123456789abcdef", Time: time.Second},
	}
}

// TestCapturesAreStreamed: each packet is told as it comes, to whoever asked, with the user's name in the log; and a refusal is one.
func TestCapturesAreStreamed(t *testing.T) {
	t.Parallel()
	var logged synced
	seen := make(chan struct{})
	c := serving(t, Handler(packets(func(ctx context.Context, q CaptureQuestion, each func(CaptureLine) error) error {
		if q.Part.Number > 0 {
			return &RefusedError{What: "the capture has ended"}
		}
		err := errors.Join(each(CaptureLine{Begun: true}),
			each(CaptureLine{Update: &capture.Update{Packets: []api.PodCapturePacket{{Length: 3, Data: []byte("abc")}}}}))
		select {
		case <-seen:
		case <-ctx.Done():
			t.Error("the first packet comes with the last")
		}
		return errors.Join(err, each(CaptureLine{Outcome: &capture.Outcome{Told: 1, More: true}}))
	}), slog.New(slog.NewTextHandler(&logged, nil))))
	var got []CaptureLine
	err := c.Capture(t.Context(), captureQuestion(), func(l CaptureLine) error {
		if got = append(got, l); l.Update != nil {
			close(seen)
		}
		return nil
	})
	if err != nil || len(got) != 3 || !got[0].Begun || string(got[1].Update.Packets[0].Data) != "abc" || !got[2].Outcome.More {
		t.Errorf("%v, %+v", err, got)
	}
	wait.Until(t, wait.Patience, "a line in the log", func() bool { return strings.Contains(logged.String(), "told=1") })
	if text := logged.String(); !strings.Contains(text, `user="\"jo\""`) || !strings.Contains(text, "pod=red/web uid=uid-1") ||
		!strings.Contains(text, "told=1") {
		t.Errorf("it is logged as %s", text)
	}
	q := captureQuestion()
	q.Part.Number = 1
	refused, ok := errors.AsType[*RefusedError](c.Capture(t.Context(), q, func(CaptureLine) error { return nil }))
	if !ok || refused.Temporary || !strings.Contains(refused.What, "has ended") {
		t.Errorf("a part that is refused: %v", refused)
	}
}

// TestNeighbouringVersionsReadCaptures: agents and atoll-inspect of the version before read these lines, and write them so.
func TestNeighbouringVersionsReadCaptures(t *testing.T) {
	t.Parallel()
	counts := api.PodCaptureCounts{Received: 2, Dropped: 1}
	packet := api.PodCapturePacket{Time: 5, Length: 3, Out: true, Data: []byte("abc")}
	for want, line := range map[string]CaptureLine{
		`{"begun":true}`: {Begun: true},
		`{"update":{"records":[{"time":5,"length":3,"out":true,"data":"YWJj"}]}}`: {
			Update: &capture.Update{Packets: []api.PodCapturePacket{packet}},
		},
		`{"update":{"stats":{"received":2,"dropped":1}}}`: {Update: &capture.Update{Counts: &counts}},
		`{"outcome":{"stats":{"received":2,"dropped":1},"told":1,"more":true}}`: {
			Outcome: &capture.Outcome{Counts: counts, Told: 1, More: true},
		},
	} {
		if got, err := json.Marshal(line); err != nil || string(got) != want {
			t.Errorf("a line is %s, %v, want %s", got, err, want)
		}
	}
}

// TestCapturesAreNotBelieved: an answer that is not whole, or has more than was asked for, is none.
func TestCapturesAreNotBelieved(t *testing.T) {
	t.Parallel()
	line := func(l CaptureLine) string {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	records := func(r ...api.PodCapturePacket) string { return line(CaptureLine{Update: &capture.Update{Packets: r}}) }
	small := api.PodCapturePacket{Length: 3, Data: []byte("abc")}
	begun, end := line(CaptureLine{Begun: true}), line(CaptureLine{Outcome: &capture.Outcome{}})
	for name, c := range map[string]struct{ text, want string }{
		"whole":         {begun + records(small, small, small) + end, ""},
		"cut":           {begun + records(small), "not whole"},
		"nothing":       {"", "not whole"},
		"no beginning":  {records(small) + end, "does not begin"},
		"two of them":   {begun + begun + end, "does not begin"},
		"too many":      {begun + records(small, small) + records(small, small) + end, "more packets"},
		"too long":      {begun + records(api.PodCapturePacket{Length: 101, Data: make([]byte, 101)}) + end, "longer than was asked for"},
		"no length":     {begun + records(api.PodCapturePacket{Length: 1, Data: []byte("abc")}) + end, "longer than was asked for"},
		"then it fails": {begun + line(CaptureLine{Error: "then it fails"}), "then it fails"},
		"a long line":   {strings.Repeat("x", maxCaptureLine+1), "too long"},
	} {
		client := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
		err := client.Capture(t.Context(), captureQuestion(), func(CaptureLine) error { return nil })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}
