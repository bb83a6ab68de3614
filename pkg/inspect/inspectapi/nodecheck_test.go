package inspectapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

// machines are the nodes of a cluster; asked counts who asked for them.
type machines struct {
	names []string
	asked atomic.Int32
}

func (m *machines) AgentNodes(context.Context) (out []snapshot.AgentNode, err error) {
	m.asked.Add(1)
	for _, name := range m.names {
		out = append(out, snapshot.AgentNode{Name: name})
	}
	return out, nil
}

// checking serves checks of some nodes, by an agent that is a function.
func checking(t *testing.T, m *machines, agents CheckAgents, change func(*checkBounds)) *world {
	t.Helper()
	w := newWorld(t)
	c := newChecker(w.handler, m, agents)
	change(&c.bounds)
	served := httptest.NewUnstartedServer(w.handler.root(map[string]http.Handler{nodeChecksPattern: c, nodeCheckPattern: c, repairPattern: c}))
	served.TLS = w.TLS
	served.StartTLS()
	t.Cleanup(served.Close)
	w.URL = served.URL
	return w
}

// TestWhoMayCheckNodes: who may get NodeChecks has agents look, who may update them has them repair, and nobody else has any node
// asked, nor learns which there are.
func TestWhoMayCheckNodes(t *testing.T) {
	t.Parallel()
	m := &machines{names: []string{"n2", "n1"}}
	var repaired, looked atomic.Int32
	w := checking(t, m, func(_ context.Context, on snapshot.AgentNode, q nodeapi.CheckQuestion) (api.NodeCheckStatus, error) {
		if q.Check() != nil || q.User != "checker" && q.User != "operator" {
			t.Errorf("the agent of %s is asked %+v", on.Name, q)
		}
		if q.Repair {
			repaired.Add(1)
			return api.NodeCheckStatus{Repaired: []api.NodeDifference{{Object: "routes"}}}, nil
		}
		looked.Add(1)
		if on.Name == "n2" {
			return api.NodeCheckStatus{}, &nodeapi.UnreachableError{Node: "n2", Err: errors.New("connection refused")}
		}
		return api.NodeCheckStatus{
			Interfaces: 3, Differences: []api.NodeDifference{{Owner: "Network/red", Kind: api.NodeObjectMissing, Object: "routes"}},
		}, nil
	}, func(*checkBounds) {})
	const repair = `{"metadata":{"name":"n1"},"spec":{"repair":true}}`
	for name, c := range map[string]struct {
		user, method, path, body string
		status                   int
		says                     string
		looks, repairs           int32
	}{
		"all": {"checker", http.MethodGet, "/nodechecks", "", http.StatusOK, `"object":"routes"`, 2, 0},
		"one": {"checker", http.MethodGet, "/nodechecks/n1", "", http.StatusOK, `"interfaces":3`, 1, 0},
		"one that is away": {
			"checker", http.MethodGet, "/nodechecks/n2", "", http.StatusOK, `"silent":"the agent of node n2 cannot be asked`, 1, 0,
		},
		"one that is not there": {"checker", http.MethodGet, "/nodechecks/n3", "", http.StatusNotFound, `"n3" not found`, 0, 0},
		"who may look, repairs": {
			"checker", http.MethodPut, "/nodechecks/n1", repair, http.StatusForbidden, `User "checker" cannot update resource "nodechecks"`, 0, 0,
		},
		"who may repair": {"operator", http.MethodPut, "/nodechecks/n1", repair, http.StatusOK, `"repaired":[{`, 0, 1},
		"without saying so": {
			"operator", http.MethodPut, "/nodechecks/n1", `{"metadata":{"name":"n1"}}`, http.StatusBadRequest, "spec.repair", 0, 0,
		},
		"under another's name": {"operator", http.MethodPut, "/nodechecks/n2", repair, http.StatusBadRequest, "spec.repair", 0, 0},
		"no JSON":              {"operator", http.MethodPut, "/nodechecks/n1", "hello", http.StatusBadRequest, "read the question", 0, 0},
		"a tenant's admin": {
			"jo", http.MethodGet, "/nodechecks", "", http.StatusForbidden, `User "jo" cannot list resource "nodechecks"`, 0, 0,
		},
		"of one": {
			"jo", http.MethodGet, "/nodechecks/n1", "", http.StatusForbidden, `User "jo" cannot get resource "nodechecks"`, 0, 0,
		},
		"of one that is not": {
			"jo", http.MethodGet, "/nodechecks/n3", "", http.StatusForbidden, `User "jo" cannot get resource "nodechecks"`, 0, 0,
		},
		"he repairs": {
			"jo", http.MethodPut, "/nodechecks/n1", repair, http.StatusForbidden, `User "jo" cannot get resource "nodechecks"`, 0, 0,
		},
		"who may view": {"viewer", http.MethodGet, "/nodechecks", "", http.StatusForbidden, `User "viewer" cannot list`, 0, 0},
		"nobody":       {"", http.MethodGet, "/nodechecks", "", http.StatusUnauthorized, "nobody says who asks", 0, 0},
	} {
		looked.Store(0)
		repaired.Store(0)
		m.asked.Store(0)
		status, told := w.send(t, w.client, c.user, c.method, c.path, c.body)
		if status != c.status || !strings.Contains(told, c.says) || looked.Load() != c.looks || repaired.Load() != c.repairs {
			t.Errorf("%s: %d, %s; %d nodes looked at, %d repaired", name, status, told, looked.Load(), repaired.Load())
		}
		if status == http.StatusForbidden && m.asked.Load() > 0 {
			t.Errorf("%s: nodes were looked for", name)
		}
	}
	_, told := w.send(t, w.client, "checker", http.MethodGet, "/nodechecks", "")
	var list api.NodeCheckList
	if err := json.Unmarshal([]byte(told), &list); err != nil || len(list.Items) != 2 || list.Items[0].Name != "n1" ||
		list.Items[1].Status.Silent == "" {
		t.Errorf("of all is told %s: %v", told, err)
	}
}

// TestAThousandNodesAreChecked: as many at once as may be asked, a node that does not answer holds nobody up, and there is no
// more in an answer than may be.
func TestAThousandNodesAreChecked(t *testing.T) {
	t.Parallel()
	m := &machines{}
	for i := range 1000 {
		m.names = append(m.names, fmt.Sprintf("n%03d", i))
	}
	var running, most atomic.Int32
	w := checking(t, m, func(ctx context.Context, on snapshot.AgentNode, _ nodeapi.CheckQuestion) (api.NodeCheckStatus, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for most.Load() < now && !most.CompareAndSwap(most.Load(), now) {
			continue
		}
		if strings.HasSuffix(on.Name, "99") {
			<-ctx.Done()
			return api.NodeCheckStatus{}, ctx.Err()
		}
		return api.NodeCheckStatus{Differences: []api.NodeDifference{{Object: "a"}, {Object: "b"}}}, nil
	}, func(b *checkBounds) { b.one, b.told = 100*time.Millisecond, 50 })
	status, told := w.send(t, w.client, "checker", http.MethodGet, "/nodechecks", "")
	var list api.NodeCheckList
	if err := json.Unmarshal([]byte(told), &list); err != nil || status != http.StatusOK || len(list.Items) != 1000 {
		t.Fatalf("%d, %d nodes: %v", status, len(list.Items), err)
	}
	silent, differences, more := 0, 0, 0
	for _, c := range list.Items {
		if c.Status.Silent != "" {
			silent++
		}
		differences, more = differences+len(c.Status.Differences), more+c.Status.More
	}
	if silent != 10 || differences != 50 || more != 2*990-50 {
		t.Errorf("%d nodes are silent; %d differences, and %d more", silent, differences, more)
	}
	if bound := int32(defaultCheckBounds().atOnce); most.Load() > bound {
		t.Errorf("%d nodes are asked at once, and %d may be", most.Load(), bound)
	}
}
