package inspectapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/node/ping"
)

// pods are acme/web on n1; whom it dials is told by the question.
type pods struct {
	t     *testing.T
	asked bool
}

func (p *pods) Sender(_ context.Context, key model.PodKey) (snapshot.Sender, error) {
	p.asked = true
	if key.Name != "web" {
		return snapshot.Sender{}, &question.Error{Err: errors.New("there is no such pod")}
	}
	return snapshot.Sender{Key: key, UID: "uid-1", Node: "n1", Network: "acme", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, nil
}

func (p *pods) NodeAddresses(_ context.Context, name string) ([]netip.Addr, error) {
	p.asked = true
	if name != "n1" {
		return nil, &question.Error{Err: errors.New("there is no node " + name)}
	}
	return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
}

func (p *pods) Dialled(_ context.Context, from model.PodKey, spec api.ExplanationSpec, may question.MayAsk) ([]netip.Addr, error) {
	if may == nil {
		p.t.Errorf("who may not ask about everything, asks about everything: %+v", spec)
	} else if other, err := may("umbrella"); err != nil || other {
		p.t.Errorf("he may ask about umbrella: %v", err)
	}
	if from.Namespace != "acme" || spec.Raw {
		p.t.Errorf("%s asks %+v", from, spec)
	}
	if spec.To == "umbrella/db" {
		return nil, &question.Error{Err: errors.New("you may not ask about that")}
	}
	return []netip.Addr{netip.MustParseAddr(spec.To)}, nil
}

func (p *pods) Sending(context.Context, api.ExplanationSpec, question.MayAsk) (*explain.Sending, error) {
	return nil, errors.New("nobody explains here")
}

// TestPings: RBAC decides by the pod's namespace before anything is looked up, the pod is named to its agent by its UID, and each
// reply is handed on.
func TestPings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := &pods{t: t}
	var answer func(each func(ping.Reply) error) error
	agents := func(_ context.Context, on snapshot.Sender, q nodeapi.Question, each func(ping.Reply) error) error {
		if on.Node != "n1" || q.Pod != (nodeapi.Pod{Namespace: "acme", Name: "web", UID: "uid-1"}) || q.User != "jo" || q.Check() != nil {
			t.Errorf("the agent of %s is asked %+v: %v", on.Node, q, q.Check())
		}
		return answer(each)
	}
	pinger := newPinger(w.handler, nodes, agents)
	served := httptest.NewUnstartedServer(w.handler.root(map[string]http.Handler{pingPattern: pinger}))
	served.TLS = w.TLS
	served.StartTLS()
	t.Cleanup(served.Close)
	w.URL = served.URL
	ask := func(user, path, to string) (int, string) {
		t.Helper()
		body := `{"spec":{"to":"` + to + `","protocol":"icmp","count":2,"first":1,"size":56,"interval":"1s","timeout":"1s"}}`
		return w.send(t, w.client, user, http.MethodPost, path, body)
	}
	target := netip.MustParseAddr("10.0.0.9")
	two := func(each func(ping.Reply) error) error {
		return errors.Join(each(ping.Reply{Target: target, Number: 1, Answered: true, Took: 1500 * time.Microsecond}),
			each(ping.Reply{Target: target, Number: 2, Why: "no answer"}))
	}
	answer = two
	const mine = "/namespaces/acme/pods/web/ping"
	status, told := ask("jo", mine, "10.0.0.9")
	want := `{"reply":{"address":"10.0.0.9","number":1,"answered":true,"took":"1.5ms"}}` +
		"\n" + `{"reply":{"address":"10.0.0.9","number":2,"answered":false,"why":"no answer"}}` + "\n" + `{"end":true}` + "\n"
	if status != http.StatusOK || told != want {
		t.Errorf("he is told %d: %s\nwant %s", status, told, want)
	}
	for name, c := range map[string]struct {
		user, path, to string
		status         int
		says           string
		looks          bool
	}{
		"another's pod": {
			"jo", "/namespaces/umbrella/pods/web/ping", "10.0.0.9", http.StatusForbidden,
			`User "jo" cannot create resource "pods/ping" in API group "inspect.atoll.dev" in the namespace "umbrella"`, false,
		},
		"another's that is not": {
			"jo", "/namespaces/umbrella/pods/none/ping", "10.0.0.9", http.StatusForbidden, `in the namespace "umbrella"`, false,
		},
		"who may only look":       {"viewer", mine, "10.0.0.9", http.StatusForbidden, `User "viewer" cannot create resource "pods/ping"`, false},
		"nobody":                  {"", mine, "10.0.0.9", http.StatusUnauthorized, "nobody says who asks", false},
		"a pod that is not there": {"jo", "/namespaces/acme/pods/none/ping", "10.0.0.9", http.StatusBadRequest, "there is no such pod", true},
		"whom he may not ask":     {"jo", mine, "umbrella/db", http.StatusBadRequest, "you may not ask about that", true},
	} {
		nodes.asked = false
		answer = func(func(ping.Reply) error) error { t.Errorf("%s: an agent is asked", name); return nil }
		status, told := ask(c.user, c.path, c.to)
		if status != c.status || !strings.Contains(told, c.says) || nodes.asked != c.looks {
			t.Errorf("%s: %d, %s; looked up: %t", name, status, told, nodes.asked)
		}
	}
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"gone":     {&nodeapi.RefusedError{What: "the pod has gone"}, http.StatusBadRequest},
		"busy":     {&nodeapi.RefusedError{What: "the pod is being made", Temporary: true}, http.StatusGatewayTimeout},
		"no agent": {&nodeapi.UnreachableError{Node: "n1", Err: errors.New("connection refused")}, http.StatusGatewayTimeout},
	} {
		answer = func(func(ping.Reply) error) error { return c.err }
		if status, told := ask("jo", mine, "10.0.0.9"); status != c.status || !strings.Contains(told, c.err.Error()) {
			t.Errorf("%s: %d, %s", name, status, told)
		}
	}
	answer = func(each func(ping.Reply) error) error {
		return errors.Join(each(ping.Reply{Target: target, Number: 1}), errors.New("then it fails"))
	}
	if _, told := ask("jo", mine, "10.0.0.9"); !strings.Contains(told, "then it fails") || strings.Contains(told, `"end"`) {
		t.Errorf("of half an answer is told %s", told)
	}
	if status, told := w.send(t, w.client,
		"jo", http.MethodPost, mine,
		`{"spec":{"to":"10.0.0.9","protocol":"icmp","count":1000000,"size":56,"interval":"1ns","timeout":"1s"}}`); status !=
		http.StatusBadRequest || !strings.Contains(told, "interval") {
		t.Errorf("a flood: %d, %s", status, told)
	}
}
