package inspectapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/test/wait"
)

// nodeWorld is a world whose node n1 has an agent that says what it is told; asked is the last question to it.
type nodeWorld struct {
	*tunnels
	nodes *pods
	asked atomic.Pointer[nodeapi.ConnectQuestion]
	fails atomic.Pointer[error]
}

func newNodeWorld(t *testing.T, bounds connectBounds) *nodeWorld {
	t.Helper()
	w := &nodeWorld{nodes: &pods{t: t}}
	agents := func(_ context.Context, on snapshot.Sender, q nodeapi.ConnectQuestion) (net.Conn, error) {
		if on.Node != "n1" || len(on.Addresses) != 1 {
			t.Errorf("the agent of %+v is asked", on)
		}
		w.asked.Store(&q)
		if err := w.fails.Load(); err != nil {
			return nil, *err
		}
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(far, far); _ = far.Close() }()
		return near, nil
	}
	w.tunnels = &tunnels{world: newWorldOf(t, func(h *handler) http.Handler {
		return h.root(map[string]http.Handler{nodePattern: newNodeConnector(h, w.nodes, agents, bounds)})
	})}
	return w
}

func (w *nodeWorld) connect(t *testing.T, user, node, query string) (net.Conn, error) {
	t.Helper()
	w.asked.Store(nil)
	w.nodes.asked = false
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := kube.DialStream(t.Context(), w.as(user), "/apis/inspect.atoll.dev/v1alpha1/nodes/"+node+"/proxy", values, api.NodeProtocol)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// TestWhoIsConnectedToNodes: RBAC decides before anything is looked up, with a right of its own for those who write; and the
// agent is told what was decided.
func TestWhoIsConnectedToNodes(t *testing.T) {
	t.Parallel()
	w := newNodeWorld(t, defaultBounds())
	for _, c := range []struct {
		user, node, query string
		status            int32
		told              string
		looks             bool
	}{
		{"looker", "n1", "socket=database", 0, "", true},
		{"looker", "n1", "socket=openflow&bridge=br-int", 0, "", true},
		{"looker", "n1", "socket=ovn-controller&write=false", 0, "", true},
		{"looker", "n1", "socket=database&write=true", 403, `User "looker" cannot update resource "nodes/proxy"`, false},
		{"operator", "n1", "socket=ovs-vswitchd&write=true", 0, "", true},
		{"looker", "n9", "socket=database", 400, "there is no node n9", true},
		{
			"looker", "n1", "socket=ssh", 400, `there is no socket "ssh", only database, openflow, ovs-vswitchd, ovn-controller, ovsdb-server`,
			false,
		},
		{"looker", "n1", "", 400, "there is no socket", false},
		{"looker", "n1", "socket=openflow&bridge=..%2Fdb", 400, "no name of a bridge", false},
		// Those who have other rights, and a tenant's admin.
		{
			"checker", "n1", "socket=database", 403, `nodes.inspect.atoll.dev "n1" is forbidden: User "checker" cannot get resource "nodes/proxy"`,
			false,
		},
		{"viewer", "n1", "socket=database", 403, "is forbidden", false},
		{"jo", "n1", "socket=openflow&bridge=br-int", 403, "is forbidden", false},
		{"jo", "n9", "socket=ssh", 403, "is forbidden", false},
		{"", "n1", "socket=database", 401, "nobody says who asks", false},
	} {
		conn, err := w.connect(t, c.user, c.node, c.query)
		if w.nodes.asked != c.looks {
			t.Errorf("%s asks for %s of %s: looked up: %t", c.user, c.query, c.node, w.nodes.asked)
		}
		q := w.asked.Load()
		if c.status == 0 {
			if err != nil {
				t.Errorf("%s asks for %s: %v", c.user, c.query, err)
				continue
			}
			if have := says(t, conn, `{"said":"it"}`); have != `{"said":"it"}` {
				t.Errorf("%s is told %s", c.user, have)
			}
			values, _ := url.ParseQuery(c.query)
			if q == nil || q.User != c.user || q.Socket != values.Get("socket") || q.Bridge != values.Get("bridge") ||
				q.Write != (values.Get("write") == "true") {
				t.Errorf("%s asks for %s: the agent is asked %+v", c.user, c.query, q)
			}
			_ = conn.Close()
			continue
		}
		status, _ := errors.AsType[*apierrors.StatusError](err)
		if status == nil || status.ErrStatus.Code != c.status || !strings.Contains(status.Error(), c.told) || q != nil {
			t.Errorf("%s asks for %s of %s: %v; want %d %s; the agent is asked %+v", c.user, c.query, c.node, err, c.status, c.told, q)
		}
	}
	if status, told := w.ask(t, w.client, "looker", "/nodes/n1/proxy?socket=database"); status != http.StatusBadRequest ||
		!strings.Contains(told, "ask for an upgrade") {
		t.Errorf("without an upgrade: %d %s", status, told)
	}
	for _, c := range []struct {
		err    error
		status int32
	}{
		{&nodeapi.RefusedError{What: "node n1: there is no bridge br-ex"}, 400},
		{&nodeapi.RefusedError{What: "node n1: ask again in a moment", Temporary: true}, 504},
		{&nodeapi.UnreachableError{Node: "n1", Err: errors.New("connection refused")}, 504},
	} {
		w.fails.Store(&c.err)
		_, err := w.connect(t, "looker", "n1", "socket=database")
		if status, _ := errors.AsType[*apierrors.StatusError](err); status == nil || status.ErrStatus.Code != c.status ||
			!strings.Contains(status.Error(), c.err.Error()) {
			t.Errorf("%v is told as %v", c.err, err)
		}
	}
}

// TestConnectionsToNodesEnd: there are no more of one user than may be, and one ends when its user's right has gone.
func TestConnectionsToNodesEnd(t *testing.T) {
	t.Parallel()
	bounds := defaultBounds()
	bounds.each, bounds.again = 1, 10*time.Millisecond
	w := newNodeWorld(t, bounds)
	conn, err := w.connect(t, "looker", "n1", "socket=database")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.connect(t, "looker", "n1", "socket=database"); !apierrors.IsTooManyRequests(err) ||
		!strings.Contains(err.Error(), "you have 1 connections to nodes") {
		t.Errorf("a second one: %v", err)
	}
	other, err := w.connect(t, "operator", "n1", "socket=database")
	if err != nil {
		t.Fatal(err)
	}
	gone := "looker"
	w.revoked.Store(&gone)
	w.forget()
	defer wait.Limit(conn, wait.Patience)()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is still open: %v", err)
	} else if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		t.Errorf("it is still open: %v", err)
	}
	says(t, other, `{"said":"it"}`)
}
