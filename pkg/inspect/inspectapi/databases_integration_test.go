//go:build integration

package inspectapi

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/ovn"
	"github.com/atoll-net/atoll/test/wait"
)

// databases checks that OVN's programs and our checks reach the databases through the API server, and that RBAC decides who may read
// and who may write.
func (l *lab) databases(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	admin, checker, jo := l.server.Kubeconfig(), l.kubeconfigOf("checker"), l.kubeconfigOf("jo")
	l.kubectl("create", "clusterrolebinding", "checker", "--clusterrole=atoll-check", "--user=checker")
	tells := func(kubeconfig string, status int, args []string, want ...string) {
		t.Helper()
		have, out, trouble := l.atoll(kubeconfig, args...)
		for _, w := range want {
			if have != status || !strings.Contains(squeezed(out+trouble), squeezed(w)) {
				t.Errorf("atoll %s: status %d, want %d with %q:\n%s%s", strings.Join(args, " "), have, status, w, out, trouble)
			}
		}
	}
	l.eventually("RBAC to know the checker", func() error {
		if status, _, trouble := l.atoll(checker, "nbctl", "show"); status != 0 {
			return errors.New(trouble)
		}
		return nil
	})
	tells(checker, 0, []string{"nbctl", "show"}, "acme/front", "port acme/web")
	tells(checker, 0, []string{"nbctl", "--columns=name", "list", "Logical_Router", "acme"}, "name : acme")
	tells(checker, 0, []string{"sbctl", "--bare", "--columns=logical_port", "find", "Port_Binding", "logical_port=acme/web"}, "acme/web")
	// The exit status of the program is passed on.
	tells(checker, 1, []string{"nbctl", "nothing"}, "unknown command")

	// Who reads does not write, and is told what is refused. The control: with the right, and asked for, it is done.
	const stray = "stray"
	tells(checker, 1, []string{"nbctl", "ls-add", stray},
		"insert of Logical_Switch: this connection only reads. Ask for one that writes (--write)")
	tells(checker, 2, []string{"nbctl", "--write", "ls-add", stray}, `User "checker" cannot update resource "databases/proxy"`,
		"ClusterRole atoll-database-admin")
	tells(admin, 1, []string{"nbctl", "ls-add", stray}, "this connection only reads")
	if have := l.nbctl("--bare", "--columns=name", "find", "Logical_Switch", "name="+stray); have != "" {
		t.Errorf("it was written: %s", have)
	}
	tells(admin, 0, []string{"nbctl", "--write", "ls-add", stray}, "")
	if have := l.nbctl("--bare", "--columns=name", "find", "Logical_Switch", "name="+stray); have != stray {
		t.Errorf("it was not written: %s", have)
	}
	tells(admin, 0, []string{"nbctl", "--write", "ls-del", stray}, "")

	// A tenant's admin, and a user who may view everything, get no connection.
	l.kubectl("create", "clusterrolebinding", "viewer", "--clusterrole=view", "--user=viewer")
	for _, kubeconfig := range []string{jo, l.kubeconfigOf("viewer")} {
		for _, args := range [][]string{{"nbctl", "show"}, {"sbctl", "show"}, {"nbctl", "--write", "show"}} {
			tells(kubeconfig, 2, args, `cannot get resource "databases/proxy" in API group "inspect.atoll.dev" at the cluster scope`)
		}
		tells(kubeconfig, 2, []string{"policy", "trace", "acme/web", "acme/lost", "--port", "80"}, `cannot get resource "databases/proxy"`)
	}
	// The control: once jo has the right, jo is connected.
	l.kubectl("create", "clusterrolebinding", "jo-checks", "--clusterrole=atoll-check", "--user=jo")
	l.eventually("jo to be connected", func() error {
		if status, _, trouble := l.atoll(jo, "nbctl", "show"); status != 0 {
			return errors.New(trouble)
		}
		return nil
	})
	l.kubectl("delete", "clusterrolebinding", "jo-checks", "viewer")

	// Our own checks, with only the rights of the checker. No agent runs on the node, so its pods are not bound in the southbound
	// database.
	tells(checker, 1, []string{"check", "--settle", "0s"}, "Pod/acme/web southbound not-bound Port_Binding acme/web",
		"Network/acme node n1 object-missing routes 10.0.0.0/24 via 169.254.100.1", "rows, 1 node;", "Next: atoll check --repair")
	// Repairing a node needs a right of its own.
	tells(checker, 1, []string{"check", "--settle", "0s", "--repair"}, `not repaired: n1: `,
		`User "checker" cannot update resource "nodechecks"`, "ClusterRole atoll-repair", "Network/acme node n1 object-missing")
	if l.mended.Load() {
		t.Error("who may not has a node repaired")
	}
	l.kubectl("create", "clusterrolebinding", "repairer", "--clusterrole=atoll-repair", "--user=checker")
	l.eventually("RBAC to know who repairs", func() error {
		if _, out, trouble := l.atoll(checker, "check", "--settle", "0s", "--repair"); !strings.Contains(squeezed(out), "REPAIRED") {
			return errors.New(out + trouble)
		}
		return nil
	})
	if !l.mended.Load() {
		t.Error("who may does not have a node repaired")
	}
	tells(checker, 1, []string{"policy", "trace", "10.0.0.77", "acme/web", "--port", "80"}, "isolated by NetworkPolicy/acme/closed")
	if left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "atoll-*")); err != nil || len(left) > 0 {
		t.Errorf("sockets are left: %v %v", left, err)
	}

	t.Run("a caller who never reads", l.neverReads)
	t.Run("who is not known is not connected", func(t *testing.T) {
		config, err := websocket.NewConfig("wss://"+l.address+"/apis/inspect.atoll.dev/v1alpha1/databases/northbound/proxy", "https://"+l.address)
		l.must(err)
		config.Protocol, config.TlsConfig = []string{api.ProxyProtocol}, &tls.Config{InsecureSkipVerify: true}
		config.Header = http.Header{"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}}
		if conn, err := config.DialContext(t.Context()); err == nil {
			_ = conn.Close()
			t.Error("by headers without a certificate one is connected")
		}
	})
}

// neverReads checks that a client that sends many requests and reads no answers does not block other clients.
func (l *lab) neverReads(t *testing.T) {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.kubeconfigOf("checker"))
	l.must(err)
	conn, err := kube.DialStream(t.Context(), cfg, "/apis/inspect.atoll.dev/v1alpha1/databases/southbound/proxy", nil, api.ProxyProtocol)
	l.must(err)
	defer func() { _ = conn.Close() }()
	const schema = `{"id":1,"method":"get_schema","params":["OVN_Southbound"]}`
	l.must(conn.SetWriteDeadline(time.Now().Add(2 * time.Second)))
	asked := 0
	for ; asked < 4000; asked++ {
		if _, err := io.WriteString(conn, schema); err != nil {
			break // The server reads no more requests of this client.
		}
	}
	t.Logf("he asked %d times", asked)
	checker := l.kubeconfigOf("checker")
	wait.Within(t, 10*time.Second, "others", func() {}, func(context.Context) error {
		if status, _, trouble := l.atoll(checker, "sbctl", "show"); status != 0 {
			t.Fatalf("others: status %d: %s", status, trouble)
		}
		return nil
	})
}

// TestTheLeaderGoes: when a database server stops, its connections are closed with a reason. The next connection goes to the new
// leader.
func TestTheLeaderGoes(t *testing.T) {
	c := ovn.StartCluster(t)
	w := &tunnels{}
	asker := ovsdb.Asker{
		Config: ovsdb.Config{Addresses: c.Addresses(), Log: slog.New(slog.DiscardHandler)}, Database: ovsdb.NorthboundDatabase,
	}
	w.world = newWorldOf(t, func(h *handler) http.Handler {
		return h.root(map[string]http.Handler{connectionPattern: newConnector(h, Databases(asker, asker), defaultBounds())})
	})
	const add, find = `{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"insert","table":"Logical_Switch","row":{"name":"red"}}]}`,
		`{"id":1,"method":"transact","params":["OVN_Northbound",{"op":"select","table":"Logical_Switch","where":[],"columns":["name"]}]}`
	conn, err := w.dial(t, "operator", api.DatabaseNorthbound, true)
	if err != nil {
		t.Fatal(err)
	}
	if have := says(t, conn, add); !strings.Contains(have, `"uuid"`) {
		t.Fatalf("it writes: %s", have)
	}
	first, err := c.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Kill(first)
	defer wait.Limit(conn, wait.Patience)()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("the connection goes on with %d bytes", n)
	}
	var last error
	wait.Until(t, wait.Patience, "another leader", func() bool {
		conn, last = w.dial(t, "operator", api.DatabaseNorthbound, false)
		if last != nil && !apierrors.IsServiceUnavailable(last) {
			t.Fatal(last)
		}
		return last == nil
	})
	if have := says(t, conn, find); !strings.Contains(have, `"red"`) {
		t.Errorf("the new leader says %s", have)
	}
	if second, err := c.Leader(t.Context()); err != nil || second == first {
		t.Errorf("%s leads: %v", second, err)
	}
}
