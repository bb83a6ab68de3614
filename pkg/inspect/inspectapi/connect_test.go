package inspectapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/wait"
)

// database is a fake database server. It says that it leads, and answers each request with its method.
func database(t *testing.T, leads *atomic.Bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); running.Wait() })
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = conn.Close() }()
				for requests := json.NewDecoder(conn); ; {
					var r struct {
						ID     any    `json:"id"`
						Method string `json:"method"`
					}
					if requests.Decode(&r) != nil {
						return
					}
					row := map[string]any{"model": "clustered", "connected": true, "leader": leads.Load(), "said": r.Method}
					_ = json.NewEncoder(conn).Encode(map[string]any{"id": r.ID, "result": []any{map[string]any{"rows": []any{row}}}, "error": nil})
				}
			})
		}
	})
	return "unix:" + path
}

// tunnels is a world whose northbound database can be connected to.
type tunnels struct {
	*world
	leads atomic.Bool
}

func newTunnels(t *testing.T, bounds connectBounds) *tunnels {
	t.Helper()
	w := &tunnels{}
	w.leads.Store(true)
	address := database(t, &w.leads)
	w.world = newWorldOf(t, func(h *handler) http.Handler {
		asker := ovsdb.Asker{Config: ovsdb.Config{Addresses: []string{address}}, Database: ovsdb.NorthboundDatabase}
		return h.root(map[string]http.Handler{connectionPattern: newConnector(h, map[string]ovsdb.Asker{api.DatabaseNorthbound: asker}, bounds)})
	})
	return w
}

// dial connects on behalf of a user, as the API server does.
func (w *tunnels) dial(t *testing.T, user, name string, write bool) (net.Conn, error) {
	t.Helper()
	query := url.Values{}
	if write {
		query.Set(api.ProxyWrite, "true")
	}
	conn, err := kube.DialStream(t.Context(), w.as(user), "/apis/inspect.atoll.dev/v1alpha1/databases/"+name+"/proxy", query,
		api.ProxyProtocol)
	if err == nil {
		t.Cleanup(func() { _ = conn.Close() })
	}
	return conn, err
}

// as returns a client config with the API server's certificate that names a user in X-Remote-User.
func (w *tunnels) as(user string) *rest.Config {
	cfg := &rest.Config{Host: w.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, CertData: w.certPEM, KeyData: w.keyPEM}}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return trip(func(r *http.Request) (*http.Response, error) {
			r.Header.Set("X-Remote-User", user)
			return next.RoundTrip(r)
		})
	})
	return cfg
}

type trip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// says sends a request and returns the answer.
func says(t *testing.T, conn net.Conn, request string) string {
	t.Helper()
	defer wait.Limit(conn, wait.Patience)()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var answer json.RawMessage
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

const (
	selects = `{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"ACL","where":[]}]}`
	inserts = `{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"ACL","row":{}}]}`
)

// TestWhoIsConnected: RBAC decides before anything else. Writing needs a right of its own.
func TestWhoIsConnected(t *testing.T) {
	t.Parallel()
	w := newTunnels(t, defaultBounds())
	for _, c := range []struct {
		user, name string
		write      bool
		status     int32
		told       string
	}{
		{"checker", "northbound", false, 0, ""},
		{"checker", "northbound", true, 403, `User "checker" cannot update resource "databases/proxy"`},
		{"checker", "none", false, 404, `databases.inspect.atoll.dev "none" not found`},
		{"operator", "northbound", true, 0, ""},
		{
			"jo", "northbound", false, 403, `databases.inspect.atoll.dev "northbound" is forbidden: User "jo" cannot get resource "databases/proxy"`,
		},
		{"jo", "none", false, 403, "is forbidden"},
		{"viewer", "northbound", false, 403, "is forbidden"},
		{"", "northbound", false, 401, "nobody says who asks"},
	} {
		conn, err := w.dial(t, c.user, c.name, c.write)
		status, _ := errors.AsType[*apierrors.StatusError](err)
		if err == nil && c.status == 0 {
			if have := says(t, conn, selects); !strings.Contains(have, `"said":"transact"`) {
				t.Errorf("%s is told %s", c.user, have)
			}
			have := says(t, conn, inserts)
			if passed := strings.Contains(have, `"said":"transact"`); passed != c.write ||
				!c.write && !strings.Contains(have, "insert of ACL: this connection only reads. Ask for one that writes (--write)") {
				t.Errorf("%s writes: %s", c.user, have)
			}
			continue
		}
		if status == nil || status.ErrStatus.Code != c.status || !strings.Contains(status.Error(), c.told) {
			t.Errorf("%s asks for %s, to write %t: %v; want %d %s", c.user, c.name, c.write, err, c.status, c.told)
		}
	}
	if status, _ := w.ask(t, w.with(), "operator", "/databases/northbound/proxy"); status != http.StatusUnauthorized {
		t.Errorf("without the API server's certificate: %d", status)
	}
	if status, told := w.ask(t, w.client, "operator", "/databases/northbound/proxy"); status != http.StatusBadRequest ||
		!strings.Contains(told, "ask for an upgrade") {
		t.Errorf("without an upgrade: %d %s", status, told)
	}
}

// TestConnectionsAreBounded: the number of connections is bounded, for all users and for each. A closed connection makes room.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	bounds := defaultBounds()
	bounds.every, bounds.each = 3, 2
	w := newTunnels(t, bounds)
	first, err := w.dial(t, "operator", "northbound", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ user, refused string }{
		{"operator", ""}, {"operator", "you have 2 connections"}, {"checker", ""}, {"checker", "there are 3 connections"},
	} {
		_, err := w.dial(t, c.user, "northbound", false)
		if c.refused == "" && err != nil ||
			c.refused != "" && (!apierrors.IsTooManyRequests(err) || !strings.Contains(fmt.Sprint(err), c.refused)) {
			t.Errorf("%s: %v, want %q", c.user, err, c.refused)
		}
	}
	_ = first.Close()
	wait.Until(t, wait.Patience, "room for another", func() bool { _, err := w.dial(t, "checker", "northbound", false); return err == nil })
}

// TestConnectionsEnd: a connection ends when its user loses the right, when it is too old, and with the controller. Without a leader
// there is no connection.
func TestConnectionsEnd(t *testing.T) {
	t.Parallel()
	ends := func(t *testing.T, conn net.Conn) {
		t.Helper()
		defer wait.Limit(conn, wait.Patience)()
		_, err := conn.Read(make([]byte, 1))
		if late, ok := errors.AsType[net.Error](err); err == nil || ok && late.Timeout() {
			t.Errorf("it is still open: %v", err)
		}
	}
	short := defaultBounds()
	short.lasts = 50 * time.Millisecond
	watchful := defaultBounds()
	watchful.again = 10 * time.Millisecond
	t.Run("it is old", func(t *testing.T) {
		t.Parallel()
		conn, err := newTunnels(t, short).dial(t, "operator", "northbound", true)
		if err != nil {
			t.Fatal(err)
		}
		ends(t, conn)
	})
	t.Run("the right is gone", func(t *testing.T) {
		t.Parallel()
		w := newTunnels(t, watchful)
		conn, err := w.dial(t, "operator", "northbound", true)
		if err != nil {
			t.Fatal(err)
		}
		other, err := w.dial(t, "checker", "northbound", false)
		if err != nil {
			t.Fatal(err)
		}
		says(t, conn, inserts)
		gone := "operator"
		w.revoked.Store(&gone)
		w.forget()
		ends(t, conn)
		says(t, other, selects)
	})
	t.Run("nobody leads", func(t *testing.T) {
		t.Parallel()
		w := newTunnels(t, defaultBounds())
		w.leads.Store(false)
		if _, err := w.dial(t, "operator", "northbound", false); !apierrors.IsServiceUnavailable(err) ||
			!strings.Contains(err.Error(), "no server leads OVN_Northbound") || !strings.Contains(err.Error(), "it follows") {
			t.Errorf("%v", err)
		}
	})
}
