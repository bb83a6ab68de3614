package inspectapi

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/capture"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// TestCaptures: RBAC decides by the pod's namespace before anything is looked up, the pod is named to its agent by its UID, and
// each packet is handed on.
func TestCaptures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nodes := &pods{t: t}
	var answer func(each func(nodeapi.CaptureLine) error) error
	capturer := newCapturer(w.handler,
		nodes, func(_ context.Context, on snapshot.Sender, q nodeapi.CaptureQuestion, each func(nodeapi.CaptureLine) error) error {
			if on.Node != "n1" || q.Pod != (nodeapi.Pod{Namespace: "acme", Name: "web", UID: "uid-1"}) || q.User != "jo" || q.Check() != nil ||
				q.Spec.Filter.String() != "(host 10.0.0.9) and (port 80)" {
				t.Errorf("the agent of %s is asked %+v: %v", on.Node, q, q.Check())
			}
			return answer(each)
		})
	served := httptest.NewUnstartedServer(w.handler.root(map[string]http.Handler{capturePattern: capturer}))
	served.TLS = w.TLS
	served.StartTLS()
	t.Cleanup(served.Close)
	w.URL = served.URL
	const mine, good = "/namespaces/acme/pods/web/capture",
		`{"spec":{"id":"0123456789abcdef","time":"30s","interface":"eth0","direction":"both","snapLength":1500,"prefixes":["10.0.0.9/32"],"ports":[80]}}`
	ask := func(user, path, body string) (int, string) {
		t.Helper()
		return w.send(t, w.client, user, http.MethodPost, path, body)
	}
	answer = func(each func(nodeapi.CaptureLine) error) error {
		return errors.Join(each(nodeapi.CaptureLine{Begun: true}),
			each(nodeapi.CaptureLine{Update: &capture.Update{
				Packets: []api.PodCapturePacket{{Time: 5, Length: 9, Out: true, Data: []byte("abc")}},
			}}),
			each(nodeapi.CaptureLine{Outcome: &capture.Outcome{Counts: api.PodCaptureCounts{Received: 2, Dropped: 1}, Told: 1, More: true}}))
	}
	status, told := ask("jo", mine, good)
	want := `{"begun":{"uid":"uid-1","network":"acme","node":"n1","filter":"(host 10.0.0.9) and (port 80)"}}` +
		"\n" + `{"packets":[{"time":5,"length":9,"out":true,"data":"YWJj"}]}` + "\n" +
		`{"end":{"counts":{"received":2,"dropped":1},"told":1,"more":true}}` + "\n"
	if status != http.StatusOK || told != want {
		t.Errorf("he is told %d: %s\nwant %s", status, told, want)
	}
	for name, c := range map[string]struct {
		user, path, body string
		status           int
		says             string
		looks            bool
	}{
		"another's pod": {
			"jo", "/namespaces/umbrella/pods/web/capture", good, http.StatusForbidden,
			`User "jo" cannot create resource "pods/capture" in API group "inspect.atoll.dev" in the namespace "umbrella"`, false,
		},
		"another's that is not": {
			"jo", "/namespaces/umbrella/pods/none/capture", good, http.StatusForbidden, `in the namespace "umbrella"`, false,
		},
		"who may only ping":       {"pinging", mine, good, http.StatusForbidden, `User "pinging" cannot create resource "pods/capture"`, false},
		"nobody":                  {"", mine, good, http.StatusUnauthorized, "nobody says who asks", false},
		"a pod that is not there": {"jo", "/namespaces/acme/pods/none/capture", good, http.StatusBadRequest, "there is no such pod", true},
		"a part of an hour": {
			"jo", mine, strings.Replace(good, "30s", "1h", 1), http.StatusBadRequest, "time: 1h0m0s is not between", false,
		},
		"no prefix":   {"jo", mine, strings.Replace(good, "/32", "/33", 1), http.StatusBadRequest, "10.0.0.9/33", false},
		"no question": {"jo", mine, "hello", http.StatusBadRequest, "read the question", false},
	} {
		nodes.asked = false
		answer = func(func(nodeapi.CaptureLine) error) error { t.Errorf("%s: an agent is asked", name); return nil }
		status, told := ask(c.user, c.path, c.body)
		if status != c.status || !strings.Contains(told, c.says) || nodes.asked != c.looks {
			t.Errorf("%s: %d, %s; looked up: %t", name, status, told, nodes.asked)
		}
	}
	answer = func(each func(nodeapi.CaptureLine) error) error {
		return errors.Join(each(nodeapi.CaptureLine{Begun: true}), errors.New("then it fails"))
	}
	if _, told := ask("jo", mine, good); !strings.Contains(told, `{"error":"then it fails"}`) || strings.Contains(told, `"end"`) {
		t.Errorf("of half an answer is told %s", told)
	}
	answer = func(func(nodeapi.CaptureLine) error) error {
		return &nodeapi.RefusedError{What: "the pod was made anew"}
	}
	if status, told := ask("jo", mine, good); status != http.StatusBadRequest || !strings.Contains(told, "made anew") {
		t.Errorf("of a pod that is another is told %d, %s", status, told)
	}
}
