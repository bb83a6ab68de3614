package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
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

// flowAnswers are told by a function.
type flowAnswers func(ctx context.Context, q model.FlowQuestion, each func(model.Flow) error) error

func (a flowAnswers) Observe(context.Context, ObserveQuestion, func(ObserveLine) error) error {
	return errors.New("it is asked to watch")
}

func (a flowAnswers) Connect(context.Context, ConnectQuestion) (net.Conn, Gate, error) {
	return nil, nil, errors.New("nobody asks for it here")
}

func (a flowAnswers) Capture(context.Context, CaptureQuestion, func(CaptureLine) error) error {
	return errors.New("nobody asks for it here")
}

func (a flowAnswers) Check(context.Context, bool) (api.NodeCheckStatus, error) {
	return api.NodeCheckStatus{}, errors.New("nobody asks for it here")
}

func (a flowAnswers) Ping(context.Context, Pod, ping.Spec, func(ping.Reply)) error {
	return errors.New("it is asked to ping")
}

func (a flowAnswers) Flows(ctx context.Context, q model.FlowQuestion, each func(model.Flow) error) error {
	return a(ctx, q, each)
}

func flowsOf(networks ...string) FlowsQuestion {
	return FlowsQuestion{User: "jo", Flows: model.FlowQuestion{Networks: networks, Limit: 3}}
}

func flow(network, pod string) model.Flow {
	return model.Flow{
		Network: network, Pod: pod, Verdict: "drop", Source: netip.MustParseAddr("10.0.0.6"), Destination: netip.MustParseAddr("10.0.0.5"),
		Port: 80, Protocol: "tcp", Last: time.Unix(1e9, 0).UTC(),
	}
}

// TestFlowsAreFollowed: each flow comes at once, and between them the agent says that it is there: who follows waits longer than
// an agent may say nothing.
func TestFlowsAreFollowed(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	var logged synced
	c := serving(t, Handler(flowAnswers(func(ctx context.Context, q model.FlowQuestion, each func(model.Flow) error) error {
		if len(q.Networks) != 1 || q.Networks[0] != "red" || q.Namespaces != nil || !q.Follow || q.Limit != 3 {
			t.Errorf("the agent is asked for %+v", q)
		}
		err := each(flow("red", "red/web"))
		select {
		case <-more:
		case <-ctx.Done():
			t.Error("the first flow comes with the last, or nobody waits for the last")
		}
		return errors.Join(err, each(flow("red", "red/db")))
	}), slog.New(slog.NewTextHandler(&logged, nil))))
	c.patience = 2 * beatEvery
	q := flowsOf("red")
	q.Flows.Follow = true
	var got []model.Flow
	waited := time.AfterFunc(3*beatEvery, func() { close(more) })
	defer waited.Stop()
	err := c.Flows(t.Context(), q, func(f model.Flow) error { got = append(got, f); return nil })
	if err != nil || len(got) != 2 || got[0] != flow("red", "red/web") || got[1].Pod != "red/db" {
		t.Errorf("%v, %+v", err, got)
	}
	wait.Until(t, wait.Patience, "a line in the log", func() bool { return strings.Contains(logged.String(), "\n") })
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `user="\"jo\""`) {
		t.Errorf("it is logged as %s", text)
	}
	// The control: an agent that says nothing is not waited for.
	silent := serving(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	}))
	silent.patience = 50 * time.Millisecond
	if err := silent.Flows(t.Context(), q, func(model.Flow) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "has said nothing") && !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("of one that says nothing: %v", err)
	}
}

// TestAgentsAreNotBelievedAboutFlows: what is not whole, of another Network or namespace, not a drop, or more than was asked for
// is no answer.
func TestAgentsAreNotBelievedAboutFlows(t *testing.T) {
	t.Parallel()
	text := func(lines ...FlowLine) string {
		var out strings.Builder
		for _, l := range lines {
			line, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(append(line, '\n'))
		}
		return out.String()
	}
	tells := func(network, pod string) FlowLine { f := flow(network, pod); return FlowLine{Flow: &f} }
	passed := flow("red", "red/web")
	passed.Verdict = "allow"
	own, end := tells("red", "red/web"), FlowLine{End: true}
	red, namespace, drops, everything := flowsOf("red"), flowsOf(), flowsOf("red"), flowsOf()
	namespace.Flows.Networks, namespace.Flows.Namespaces, drops.Flows.Drops, everything.All, everything.Flows.Networks = nil, []string{"red"},
		true, true, nil
	for name, c := range map[string]struct {
		q    FlowsQuestion
		text string
		told int
		says string
	}{
		"whole":                 {red, text(own, FlowLine{}, own, own, end), 3, ""},
		"nothing":               {red, text(end), 0, ""},
		"all":                   {everything, text(own, tells("blue", "blue/web"), end), 2, ""},
		"cut":                   {red, text(own), 1, "not whole"},
		"failed":                {red, text(own, FlowLine{Error: "open vSwitch takes no samples"}), 1, "node n1: open vSwitch takes no samples"},
		"of another Network":    {red, text(own, tells("blue", "blue/web"), end), 1, `a flow of Network "blue"`},
		"of none":               {red, text(tells("", "red/web"), end), 0, `a flow of Network ""`},
		"of another namespace":  {namespace, text(own, tells("red", "blue/web"), end), 1, `pod "blue/web"`},
		"of nobody's pod":       {namespace, text(tells("red", ""), end), 0, `pod ""`},
		"no drop":               {drops, text(own, FlowLine{Flow: &passed}, end), 1, "for which nobody has asked"},
		"too many":              {red, text(own, own, own, own, end), 3, "more than was asked for"},
		"a long line":           {red, `{"error":"` + strings.Repeat("x", maxLine) + "\"}\n", 0, "too long"},
		"a question about none": {flowsOf(), "", 0, "names Networks or namespaces"},
		"a question of nobody":  {FlowsQuestion{All: true, Flows: model.FlowQuestion{Limit: 1}}, "", 0, "on whose account"},
		"a question for all":    {FlowsQuestion{All: true, User: "jo"}, "", 0, "1 to"},
	} {
		client := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) }))
		told := 0
		if name == "a question about none" {
			c.q.Flows.Networks = nil
		}
		err := client.Flows(t.Context(), c.q, func(model.Flow) error { told++; return nil })
		if told != c.told || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d flows, %v; want %d, %q", name, told, err, c.told, c.says)
		}
	}
}

// TestFlowQuestionsAreBounded: no more are answered at once than may be, which take no turns of pings; a question that names
// nobody is none.
func TestFlowQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	enter, leave := make(chan struct{}), make(chan struct{})
	client := serving(t, Handler(flowAnswers(func(ctx context.Context, _ model.FlowQuestion, _ func(model.Flow) error) error {
		enter <- struct{}{}
		select {
		case <-leave:
		case <-ctx.Done():
		}
		return &RefusedError{What: "flows are not sampled"}
	}), quiet()))
	ask := func() error {
		q := flowsOf("red")
		q.Account = turns.Who{Share: "acme", Tenant: true}
		return client.Flows(t.Context(), q, func(model.Flow) error { return nil })
	}
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if refused, ok := errors.AsType[*RefusedError](ask()); !ok || refused.Temporary ||
				!strings.Contains(refused.What, "flows are not sampled") {
				t.Errorf("it is refused with %+v", refused)
			}
		})
		<-enter
	}
	if refused, ok := errors.AsType[*RefusedError](ask()); !ok || !refused.Temporary || !strings.Contains(refused.What, "ask again") {
		t.Errorf("one too many is answered with %v", refused)
	}
	if err := client.Ping(t.Context(), question(), func(ping.Reply) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "it is asked to ping") {
		t.Errorf("meanwhile a ping is answered with %v", err)
	}
	close(leave)
	asking.Wait()
	for name, body := range map[string]string{
		"nobody":   `{"user":"jo","flows":{"limit":1}}`,
		"both":     `{"user":"jo","all":true,"flows":{"networks":["red"],"limit":1}}`,
		"too many": fmt.Sprintf(`{"user":"jo","all":true,"flows":{"limit":%d}}`, MaxFlows+1),
		"no JSON":  "hello",
	} {
		client := serving(t, Handler(flowAnswers(func(context.Context, model.FlowQuestion, func(model.Flow) error) error {
			t.Errorf("%s: it is answered", name)
			return nil
		}), quiet()))
		answer, err := client.send(t.Context(), pathFlows, json.RawMessage(strings.ReplaceAll(body, "hello", `"hello"`)))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s is answered with %d", name, answer.StatusCode)
		}
	}
}

// TestFollowersAreOfShares: followers of many users of one Tenant leave places for another Tenant and for operators, at each
// node; and one who has followed as long as one may is told that it ends, whole. The control is that users who are nobody's are
// counted one by one.
func TestFollowersAreOfShares(t *testing.T) {
	t.Parallel()
	enter := make(chan struct{})
	h := newHandler(flowAnswers(func(ctx context.Context, _ model.FlowQuestion, _ func(model.Flow) error) error {
		enter <- struct{}{}
		<-ctx.Done()
		return context.Cause(ctx)
	}), quiet())
	client := serving(t, h.mux())
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	follow := func(user string, by turns.Who) bool {
		t.Helper()
		q, ended := flowsOf("red"), make(chan error, 1)
		q.User, q.Account, q.Flows.Follow = user, by, true
		asking.Go(func() { ended <- client.Flows(ctx, q, func(model.Flow) error { return nil }) })
		select {
		case <-enter:
			return true
		case err := <-ended:
			if refused, ok := errors.AsType[*RefusedError](err); !ok || !refused.Temporary {
				t.Errorf("%s: %v", user, err)
			}
			return false
		}
	}
	held := func(n int, by func(int) turns.Who) (count int) {
		for i := range n {
			if follow(fmt.Sprintf("user-%d", i), by(i)) {
				count++
			}
		}
		return count
	}
	if n := held(20, func(int) turns.Who { return turns.Who{Share: "mallory", Tenant: true} }); n != 4 {
		t.Errorf("one Tenant follows %d times", n)
	}
	if n := held(20, func(int) turns.Who { return turns.Who{} }); n != 6 {
		t.Errorf("users who are nobody's follow %d times", n)
	}
	if n := held(1, func(int) turns.Who { return turns.Who{Share: "acme", Tenant: true} }); n != 1 {
		t.Error("another Tenant does not follow")
	}
	if n := held(4, func(i int) turns.Who { return turns.Who{Share: fmt.Sprint(i), Operator: true} }); n != 4 {
		t.Errorf("operators follow %d times", n)
	}
	short := newHandler(flowAnswers(func(ctx context.Context, _ model.FlowQuestion, each func(model.Flow) error) error {
		err := each(flow("red", "red/web"))
		<-ctx.Done()
		return errors.Join(err, context.Cause(ctx))
	}), quiet())
	short.followTime = 50 * time.Millisecond
	q := flowsOf("red")
	q.Flows.Follow = true
	if err := serving(t, short.mux()).Flows(t.Context(), q, func(model.Flow) error { return nil }); err != nil {
		t.Errorf("at its end it is %v", err)
	}
}

// TestWhoReadsNoFlowsIsCutOff: the answer ends when a follower reads nothing, so that the node buffers nothing for it.
func TestWhoReadsNoFlowsIsCutOff(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	client := serving(t, Handler(flowAnswers(func(ctx context.Context, _ model.FlowQuestion, each func(model.Flow) error) error {
		for {
			if err := each(flow("red", "red/web")); err != nil {
				ended <- err
				return err
			}
			if ctx.Err() != nil {
				ended <- ctx.Err()
				return ctx.Err()
			}
		}
	}), quiet()))
	q := flowsOf("red")
	q.Flows.Follow = true
	answer, err := client.send(t.Context(), pathFlows, q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ends without an error")
		}
	case <-wait.Context(t, 4*writeTime).Done():
		t.Error("it is told on and on")
	}
}
