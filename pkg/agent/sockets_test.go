package agent

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/openflow"
	"github.com/atoll-net/atoll/pkg/ovs/unixctl"
)

// listening is a socket at which somebody listens; it says its own name.
func listening(t *testing.T, path string) {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = listener.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(filepath.Base(path)))
			_ = conn.Close()
		}
	}()
}

// TestSockets: each is found by the names that daemons and scripts give it, one of a process that has gone is passed over, and
// the gate is that of what it is.
func TestSockets(t *testing.T) {
	t.Parallel()
	one, two := filepath.Join(t.TempDir(), "a[b"), t.TempDir()
	if err := os.Mkdir(one, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"db.sock", "br-int.mgmt", "ovs-vswitchd.4711.ctl", "ovsdb-server.ctl"} {
		listening(t, filepath.Join(one, path))
	}
	listening(t, filepath.Join(two, "ovn-controller.12.ctl"))
	// Nobody listens there any more; another daemon's name begins alike.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(two, "ovn-controller.11.ctl")})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	listening(t, filepath.Join(two, "ovn-controller-vtep.1.ctl"))
	listening(t, filepath.Join(two, "secret.mgmt"))
	s := socketsOf(Config{Node: "n1", OVSDB: "unix:" + filepath.Join(one, "db.sock"), OVNRunDir: two})
	for _, c := range []struct {
		q    nodeapi.ConnectQuestion
		name string
		gate nodeapi.Gate
	}{
		{nodeapi.ConnectQuestion{Socket: "database"}, "db.sock", ovsdb.Gate{Database: "Open_vSwitch", Hint: writeHint}},
		{
			nodeapi.ConnectQuestion{Socket: "database", Write: true}, "db.sock", ovsdb.Gate{Database: "Open_vSwitch", Hint: writeHint, Writes: true},
		},
		{nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "br-int"}, "br-int.mgmt", openflow.Gate{Socket: filepath.Join(one, "br-int.mgmt")}},
		{
			nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "br-int", Write: true},
			"br-int.mgmt",
			openflow.Gate{Socket: filepath.Join(one, "br-int.mgmt"), Writes: true},
		},
		{nodeapi.ConnectQuestion{Socket: "ovs-vswitchd"}, "ovs-vswitchd.4711.ctl", unixctl.Gate{Daemon: "ovs-vswitchd", Hint: writeHint}},
		{nodeapi.ConnectQuestion{Socket: "ovsdb-server"}, "ovsdb-server.ctl", unixctl.Gate{Daemon: "ovsdb-server", Hint: writeHint}},
		{
			nodeapi.ConnectQuestion{Socket: "ovn-controller", Write: true},
			"ovn-controller.12.ctl",
			unixctl.Gate{Daemon: "ovn-controller", Hint: writeHint, Writes: true},
		},
	} {
		conn, gate, err := s.open(t.Context(), c.q)
		if err != nil {
			t.Errorf("%+v: %v", c.q, err)
			continue
		}
		have := make([]byte, 100)
		n, _ := conn.Read(have)
		_ = conn.Close()
		if string(have[:n]) != c.name || gate != c.gate {
			t.Errorf("%+v: %s with %+v, want %s with %+v", c.q, have[:n], gate, c.name, c.gate)
		}
	}
	refused := func(s sockets, q nodeapi.ConnectQuestion, want string, temporary bool) {
		t.Helper()
		_, _, err := s.open(t.Context(), q)
		r, ok := errors.AsType[*nodeapi.RefusedError](err)
		if !ok || r.Temporary != temporary || !strings.Contains(r.What, want) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	refused(s, nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "secret"}, "there is no bridge secret in "+one+", but br-int", false)
	refused(s, nodeapi.ConnectQuestion{Socket: "ssh"}, "no socket", false)
	if err := os.Remove(filepath.Join(two, "ovn-controller.12.ctl")); err != nil {
		t.Fatal(err)
	}
	refused(s, nodeapi.ConnectQuestion{Socket: "ovn-controller"}, "ovn-controller does not answer", true)
	none := socketsOf(Config{OVSDB: "unix:" + filepath.Join(t.TempDir(), "db.sock"), OVNRunDir: t.TempDir()})
	refused(none, nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "br-int"}, "does ovs-vswitchd run?", false)
	refused(none, nodeapi.ConnectQuestion{Socket: "ovn-controller"}, "ovn-controller has no socket in", false)
	refused(none, nodeapi.ConnectQuestion{Socket: "database"}, "does not answer", true)
}
