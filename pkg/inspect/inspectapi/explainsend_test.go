package inspectapi

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube/access"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/observe"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// sends are of acme/web on n1, whose packet is watched for on n1 and n2.
type sends struct {
	mu    sync.Mutex
	asked int
	// limited: the last asker may not ask about everything.
	limited bool
	unsent  string
	judged  []explain.Observed
}

func (s *sends) Sending(_ context.Context, _ api.ExplanationSpec, may question.MayAsk) (*explain.Sending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.limited = s.asked+1, may != nil
	from := snapshot.Sender{Key: model.PodKey{Namespace: "acme", Name: "web"}, UID: "uid-1", Node: "n1"}
	return &explain.Sending{
		Status: api.ExplanationStatus{Verdict: "Reached", Reached: true}, Unsent: s.unsent, From: from,
		Targets: []netip.Addr{netip.MustParseAddr("10.0.0.9")}, Ports: []uint16{80},
		Nodes: []snapshot.Sender{from, {Node: "n2"}},
		Judge: func(seen []explain.Observed, replies []ping.Reply) []api.ExplanationSent {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.judged = seen
			return []api.ExplanationSent{{Verdict: api.SentAsExplained, Answered: len(replies) == 1 && replies[0].Answered}}
		},
	}, nil
}

// nodesAgents are agents of n1 and n2. They watch, one line a millisecond, and see the packet once it is sent.
type nodesAgents struct {
	t    *testing.T
	sent chan struct{}
	once sync.Once
	// broken are nodes whose agents do not watch, silent those that say nothing.
	broken, silent map[string]error
	mu             sync.Mutex
	pings          int
	mark           *ping.Mark
	watches        map[string]observe.Watch
}

func (a *nodesAgents) observe(
	ctx context.Context, on snapshot.Sender, q nodeapi.ObserveQuestion, each func(nodeapi.ObserveLine) error,
) error {
	if err := q.Check(); err != nil || q.Pod.UID != "uid-1" || q.User == "" {
		a.t.Errorf("node %s is asked %+v: %v", on.Node, q, err)
	}
	a.mu.Lock()
	a.watches[on.Node] = q.Watch
	a.mu.Unlock()
	if err := a.broken[on.Node]; err != nil {
		return err
	}
	beat := time.NewTicker(time.Millisecond)
	defer beat.Stop()
	sent := a.sent
	for {
		if a.silent[on.Node] == nil {
			if err := each(nodeapi.ObserveLine{}); err != nil {
				return err
			}
		}
		select {
		case <-sent:
			sent = nil
			if err := each(nodeapi.ObserveLine{Point: &nodeapi.Point{Kind: nodeapi.KindOther, Interface: "eth0", Time: 1}}); err != nil {
				return err
			}
		case <-beat.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *nodesAgents) ping(_ context.Context, on snapshot.Sender, q nodeapi.Question, each func(ping.Reply) error) error {
	a.mu.Lock()
	a.pings, a.mark = a.pings+1, q.Ping.Mark
	a.mu.Unlock()
	if on.Node != "n1" || q.Check() != nil || q.Ping.Mark == nil || q.Pod.UID != "uid-1" {
		a.t.Errorf("the agent of %s is asked to send %+v: %v", on.Node, q, q.Check())
	}
	a.once.Do(func() { close(a.sent) })
	return each(ping.Reply{Target: q.Ping.Targets[0], Number: 1, Answered: true, Took: time.Millisecond})
}

// proving is a world whose explanations send.
func proving(t *testing.T) (*world, *sends, *nodesAgents) {
	t.Helper()
	w := newWorld(t)
	s := &sends{}
	a := &nodesAgents{
		t: t, sent: make(chan struct{}), broken: map[string]error{}, silent: map[string]error{}, watches: map[string]observe.Watch{},
	}
	w.handler.prover = newProver(s, Agents{Ping: a.ping, Observe: a.observe})
	return w, s, a
}

const sendQuestion = `{"spec":{"from":"acme/web","to":"10.0.0.9","protocol":"tcp","port":80,"send":true}}`

// TestWhoMaySend: a packet is sent only for a user who may ask, and may ping from the pod. For any other user nothing is looked up
// or sent.
func TestWhoMaySend(t *testing.T) {
	t.Parallel()
	w, s, a := proving(t)
	for _, c := range []struct {
		user, path, body string
		status           int
		told             string
		// sends: the packet is sent. limited: the user may not see everything.
		sends, limited bool
	}{
		{"operator", "/explanations", sendQuestion, http.StatusCreated, `"sent":[{`, true, false},
		{"jo", "/namespaces/acme/explanations", sendQuestion, http.StatusCreated, `"verdict":"as explained"`, true, true},
		{"viewer", "/explanations", sendQuestion, http.StatusForbidden, `User "viewer" cannot create resource "pods/ping"`, false, false},
		{"ed", "/namespaces/acme/explanations", sendQuestion, http.StatusForbidden, `User "ed" cannot create resource "pods/ping"`, false, false},
		{
			"pinging", "/namespaces/acme/explanations", sendQuestion, http.StatusForbidden, `User "pinging" cannot create resource "explanations"`,
			false, false,
		},
		{
			"jo", "/namespaces/acme/explanations", strings.Replace(sendQuestion, "acme/web", "umbrella/web", 1), http.StatusForbidden,
			`cannot create resource "pods/ping" in API group "inspect.atoll.dev" in the namespace "umbrella"`, false, false,
		},
		{"", "/explanations", sendQuestion, http.StatusUnauthorized, "nobody says who asks", false, false},
		{
			"operator", "/explanations", strings.Replace(sendQuestion, "acme/web", "node/n1", 1), http.StatusBadRequest, "FROM must be a pod", false,
			false,
		},
		{
			"operator", "/explanations", strings.Replace(sendQuestion, "acme/web", "outside", 1), http.StatusBadRequest, "FROM must be a pod", false,
			false,
		},
		{"operator", "/explanations", strings.Replace(sendQuestion, "tcp", "sctp", 1), http.StatusBadRequest, "sctp are not sent", false, false},
	} {
		s.asked, a.pings = 0, 0
		status, told := w.send(t, w.client, c.user, http.MethodPost, c.path, c.body)
		if status != c.status || !strings.Contains(told, c.told) {
			t.Errorf("%s posts to %s: %d %s; want %d %s", c.user, c.path, status, told, c.status, c.told)
		}
		if sent := a.pings == 1 && s.asked == 1; sent != c.sends || !c.sends && s.asked+a.pings > 0 || c.sends && s.limited != c.limited {
			t.Errorf("%s posts to %s: looked up %d times, sent %d times, limited %t", c.user, c.path, s.asked, a.pings, s.limited)
		}
	}
	if a.mark == nil || a.watches["n1"].Mark != *a.mark || a.watches["n2"].Mark != *a.mark || len(a.watches["n1"].Ports) != 1 {
		t.Errorf("sent with the mark %v, watched for %+v", a.mark, a.watches)
	}
	if len(s.judged) != 2 || s.judged[0].Node != "n1" || len(s.judged[0].Points)+len(s.judged[1].Points) == 0 ||
		s.judged[0].Problem+s.judged[1].Problem != "" {
		t.Errorf("judged is %+v", s.judged)
	}
}

// TestSendsWithoutAgents: nothing is sent if the sender's node does not watch; an older agent cannot. If another node does not
// watch, the packet is sent, and the answer says so.
func TestSendsWithoutAgents(t *testing.T) {
	t.Parallel()
	w, s, a := proving(t)
	a.broken["n2"] = &nodeapi.RefusedError{What: "node n2: it does not know the question: it is older than atoll-inspect"}
	status, told := w.send(t, w.client, "operator", http.MethodPost, "/explanations", sendQuestion)
	if status != http.StatusCreated || a.pings != 1 || len(s.judged) != 2 ||
		!strings.Contains(s.judged[1].Problem, "older than atoll-inspect") || s.judged[0].Problem != "" {
		t.Errorf("without n2: %d %s, judged is %+v", status, told, s.judged)
	}
	a.pings, a.broken = 0, map[string]error{"n1": errors.New("it is away")}
	if status, told := w.send(t, w.client, "operator", http.MethodPost, "/explanations", sendQuestion); status != http.StatusGatewayTimeout ||
		a.pings != 0 || !strings.Contains(told, "nothing was sent: node n1 does not watch: it is away") {
		t.Errorf("without n1: %d %s, %d are sent", status, told, a.pings)
	}
	a.broken, s.unsent = nil, "nothing is sent: nobody is there"
	if status, told := w.send(t, w.client, "operator", http.MethodPost, "/explanations", sendQuestion); status != http.StatusCreated ||
		a.pings != 0 || !strings.Contains(told, `"unsent":"nothing is sent: nobody is there"`) {
		t.Errorf("to nobody: %d %s, %d are sent", status, told, a.pings)
	}
}

// TestSilentAgentsAreSaid: the answer says which agents reported nothing in time. It does not conclude that they saw nothing.
func TestSilentAgentsAreSaid(t *testing.T) {
	t.Parallel()
	_, _, a := proving(t)
	p := newProver(&sends{}, Agents{Ping: a.ping, Observe: a.observe})
	s, err := p.sends.Sending(t.Context(), api.ExplanationSpec{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.silent["n2"] = errors.New("silent")
	seen, replies, err := p.send(t.Context(), request{who: access.User{Name: "jo"}}, api.ExplanationSpec{Protocol: "tcp", Port: 80}, s)
	if err != nil || len(replies) != 1 || len(seen) != 2 || seen[0].Problem != "" ||
		!strings.Contains(seen[1].Problem, "has not begun to watch") {
		t.Errorf("%v, %+v, %+v", err, replies, seen)
	}
}
