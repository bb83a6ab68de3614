package nodeapi

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/node/ping"
	"github.com/atoll-net/atoll/pkg/process/turns"
	"github.com/atoll-net/atoll/test/wait"
)

// answers are told by a function.
type answers func(ctx context.Context, pod Pod, spec ping.Spec, each func(ping.Reply)) error

func (a answers) Ping(ctx context.Context, pod Pod, spec ping.Spec, each func(ping.Reply)) error {
	return a(ctx, pod, spec, each)
}

func (a answers) Check(context.Context, bool) (api.NodeCheckStatus, error) {
	return api.NodeCheckStatus{}, errors.New("nobody asks for it here")
}

func (a answers) Flows(context.Context, model.FlowQuestion, func(model.Flow) error) error {
	return errors.New("it is asked for flows")
}

func (a answers) Connect(context.Context, ConnectQuestion) (net.Conn, Gate, error) {
	return nil, nil, errors.New("nobody asks for it here")
}

func (a answers) Capture(context.Context, CaptureQuestion, func(CaptureLine) error) error {
	return errors.New("nobody asks for it here")
}

func (a answers) Observe(context.Context, ObserveQuestion, func(ObserveLine) error) error {
	return errors.New("nobody watches here")
}

func question() Question {
	return Question{User: "jo", Pod: Pod{"red", "web", "uid-1"}, Ping: ping.Spec{
		Protocol: model.TCP, Port: 80, Targets: []netip.Addr{netip.MustParseAddr("10.0.0.9")}, Count: 2, First: 1, Size: 56,
		Interval: time.Second, Timeout: time.Second,
	}}
}

// serving is a client of an agent with these answers, or with a handler of its own.
func serving(t *testing.T, h http.Handler) Client {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config = Server(h, quiet())
	s.StartTLS()
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return Client{
		Node: "n1", Addresses: []netip.Addr{at.Addr()}, Port: at.Port(),
		TLS: func(netip.Addr) *tls.Config { return &tls.Config{InsecureSkipVerify: true} },
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestAnswersAreStreamed: each reply is told as it comes, to whoever asked, with the user's name in the log.
func TestAnswersAreStreamed(t *testing.T) {
	t.Parallel()
	q := question()
	q.User = "jo\n" + strings.Repeat("x", 1000)
	var logged synced
	seen := make(chan struct{})
	c := serving(t, Handler(answers(func(ctx context.Context, pod Pod, spec ping.Spec, each func(ping.Reply)) error {
		if pod != q.Pod || spec.Port != 80 {
			t.Errorf("the agent is asked about %+v: %+v", pod, spec)
		}
		each(ping.Reply{Target: spec.Targets[0], Number: 1, Answered: true, Took: time.Millisecond})
		select {
		case <-seen:
		case <-ctx.Done():
			t.Error("the first reply comes with the last")
		}
		each(ping.Reply{Target: spec.Targets[0], Number: 2, Why: "no answer"})
		return nil
	}), slog.New(slog.NewTextHandler(&logged, nil))))
	var got []ping.Reply
	err := c.Ping(t.Context(), q, func(r ping.Reply) error {
		if got = append(got, r); len(got) == 1 {
			close(seen)
		}
		return nil
	})
	if err != nil || len(got) != 2 || !got[0].Answered || got[0].Took != time.Millisecond || got[1].Why != "no answer" {
		t.Errorf("%v, %+v", err, got)
	}
	wait.Until(t, wait.Patience, "a line in the log", func() bool { return strings.Contains(logged.String(), "\n") })
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `user="\"jo\\nxxx`) || len(text) > 1000 ||
		!strings.Contains(text, "pod=red/web") {
		t.Errorf("it is logged as %s", text)
	}
}

// TestRefusalsAreTold: why an agent does not answer, and whether to ask again.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err       error
		temporary bool
	}{
		"gone":    {&RefusedError{What: "the pod has gone"}, false},
		"not yet": {&RefusedError{What: "the pod is being made", Temporary: true}, true},
		"broken":  {errors.New("the database is away"), true},
	} {
		client := serving(t, Handler(answers(func(context.Context, Pod, ping.Spec, func(ping.Reply)) error { return c.err }), quiet()))
		err := client.Ping(t.Context(), question(), func(ping.Reply) error { return nil })
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Temporary != c.temporary || !strings.Contains(refused.What, c.err.Error()) ||
			!strings.Contains(refused.What, "node n1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	half := serving(t, Handler(answers(func(_ context.Context, _ Pod, s ping.Spec, each func(ping.Reply)) error {
		each(ping.Reply{Target: s.Targets[0]})
		return errors.New("then it fails")
	}), quiet()))
	told := 0
	if err := half.Ping(t.Context(), question(), func(ping.Reply) error { told++; return nil }); err == nil ||
		!strings.Contains(err.Error(), "then it fails") || told != 1 {
		t.Errorf("%d replies, then %v", told, err)
	}
	older := serving(t, http.NotFoundHandler())
	if err := older.Ping(t.Context(), question(), func(ping.Reply) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "older than atoll-inspect") {
		t.Errorf("an agent that does not know the question: %v", err)
	}
	nobody := Client{Node: "n1", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Port: 1, TLS: older.TLS}
	err := nobody.Ping(t.Context(), question(), func(ping.Reply) error { return nil })
	if _, ok := errors.AsType[*UnreachableError](err); !ok || !strings.Contains(err.Error(), "node n1 cannot be asked") {
		t.Errorf("without an agent: %v", err)
	}
}

// TestAgentsAreNotBelieved: an answer that is not whole, not about what was asked, or longer than that is none.
func TestAgentsAreNotBelieved(t *testing.T) {
	t.Parallel()
	line := func(l Line) string {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	own, other := netip.MustParseAddr("10.0.0.9"), netip.MustParseAddr("10.0.0.8")
	reply := func(a netip.Addr) string { return line(Line{Reply: &ping.Reply{Target: a}}) }
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"whole":        {reply(own) + line(Line{End: true}), nil},
		"cut":          {reply(own), errors.New("not whole")},
		"nothing":      {"", errors.New("not whole")},
		"too many":     {strings.Repeat(reply(own), 4) + line(Line{End: true}), errors.New("not whole")},
		"of another":   {reply(other) + line(Line{End: true}), errors.New("10.0.0.8, which nobody has asked for")},
		"no JSON":      {"hello\n", errors.New("read the answer")},
		"a long line":  {strings.Repeat("x", maxLine+1), errors.New("too long")},
		"without end ": {reply(own) + reply(own) + "\n", errors.New("read the answer")},
	} {
		client := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
		told := 0
		err := client.Ping(t.Context(), question(), func(ping.Reply) error { told++; return nil })
		if (err == nil) != (c.want == nil) || err != nil && !strings.Contains(err.Error(), c.want.Error()) || told > 3 {
			t.Errorf("%s: %v, and %d replies; want %v", name, err, told, c.want)
		}
	}
}

// TestQuestionsAreBounded: there are no more at once than there may be, and what is no question is not answered.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	client := serving(t, Handler(answers(func(ctx context.Context, _ Pod, _ ping.Spec, _ func(ping.Reply)) error {
		enter <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return nil
	}), quiet()))
	var asking sync.WaitGroup
	askBy := func(by turns.Who) error {
		q := question()
		q.Account = by
		return client.Ping(t.Context(), q, func(ping.Reply) error { return nil })
	}
	ask := func() error { return askBy(turns.Who{Share: "acme", Tenant: true}) }
	for range atOnce().Each {
		asking.Go(func() {
			if err := ask(); err != nil {
				t.Error(err)
			}
		})
		<-enter
	}
	refused, ok := errors.AsType[*RefusedError](ask())
	if !ok || !refused.Temporary || !strings.Contains(refused.What, "ask again") {
		t.Errorf("one too many is answered with %v", refused)
	}
	// Another Tenant and an operator do not wait for that one.
	for _, by := range []turns.Who{{Share: "umbrella", Tenant: true}, {Share: "ann", Operator: true}} {
		asking.Go(func() {
			if err := askBy(by); err != nil {
				t.Errorf("%s: %v", by.Share, err)
			}
		})
		<-enter
	}
	close(leave)
	asking.Wait()
	// The control: there is room again.
	asking.Go(func() {
		if err := ask(); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
	<-enter
	asking.Wait()
	for name, body := range map[string]string{
		"no JSON":    "hello",
		"no pod":     `{"user":"jo"}`,
		"no user":    `{"pod":{"namespace":"red","name":"web","uid":"1"}}`,
		"no packets": `{"user":"jo","pod":{"namespace":"red","name":"web","uid":"1"},"ping":{}}`,
		"too long":   fmt.Sprintf(`{"user":%q}`, strings.Repeat("x", maxQuestion)),
	} {
		asked := httptest.NewServer(Handler(answers(func(context.Context, Pod, ping.Spec, func(ping.Reply)) error {
			t.Errorf("%s: it is answered", name)
			return nil
		}), quiet()))
		answer, err := asked.Client().Post(asked.URL+pathPing, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		asked.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", name, answer.StatusCode)
		}
	}
}
