//go:build integration

package agent

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovs/unixctl"
	"github.com/atoll-net/atoll/test/wait"
)

// reached is a node whose sockets are reached as a controller reaches them.
type reached struct {
	*node
	client nodeapi.Client
}

func newReached(t *testing.T) reached {
	t.Helper()
	n := newNode(t)
	a := n.agent()
	server := httptest.NewUnstartedServer(nodeapi.Handler(a.inquiry(), a.log))
	server.StartTLS()
	t.Cleanup(server.Close)
	listens := netip.MustParseAddrPort(server.Listener.Addr().String())
	return reached{
		n, nodeapi.Client{
			Node: n.name, Addresses: []netip.Addr{listens.Addr()}, Port: listens.Port(),
			TLS: func(netip.Addr) *tls.Config { return &tls.Config{InsecureSkipVerify: true} },
		},
	}
}

// tunnel is a socket in a directory of its own; each connection to it becomes one to the node's.
func (r reached) tunnel(t *testing.T, name string, q nodeapi.ConnectQuestion) string {
	t.Helper()
	q.User = "jo"
	dir, err := os.MkdirTemp("", "tunnel")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, name)
	listener, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			local, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = local.Close() }()
				far, err := r.client.Connect(context.WithoutCancel(t.Context()), q)
				if err != nil {
					return
				}
				defer func() { _ = far.Close() }()
				go func() { _, _ = io.Copy(local, far); _ = local.Close() }()
				_, _ = io.Copy(far, local)
			}()
		}
	}()
	return path
}

// run runs a program of Open vSwitch's with its run directory.
func (r reached) run(t *testing.T, dir, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(wait.Context(t, wait.Patience), r.parts.Program(program), args...)
	cmd.Env = append(os.Environ(), "OVS_RUNDIR="+dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSocketsOfANode: the programs of Open vSwitch read a node as they do on the node itself, and write nothing unless they may.
// The control of each refusal is the same by a connection that writes.
func TestSocketsOfANode(t *testing.T) {
	r := newReached(t)
	t.Run("database", r.reachDatabase)
	t.Run("openflow", r.reachBridge)
	t.Run("openflow, slowly", r.reachBridgeSlowly)
	t.Run("commands", r.reachDaemons)
}

func (r reached) reachDatabase(t *testing.T) {
	reads, writes := r.tunnel(t, "db.sock", nodeapi.ConnectQuestion{Socket: "database"}), r.tunnel(t,
		"db.sock", nodeapi.ConnectQuestion{Socket: "database", Write: true})
	if out, err := r.run(t, "/nowhere", "ovs-vsctl", "--db=unix:"+reads, "show"); err != nil || !strings.Contains(out, "Bridge br-int") {
		t.Errorf("show: %v: %s", err, out)
	}
	set := []string{"--timeout=10", "set", "Open_vSwitch", ".", "external_ids:test=written"}
	if out, err := r.run(t, "/nowhere", "ovs-vsctl", append([]string{"--db=unix:" + reads}, set...)...); err == nil ||
		!strings.Contains(out, "this connection only reads") {
		t.Errorf("it writes: %v: %s", err, out)
	}
	if have := r.vsctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:test"); have != "" {
		t.Errorf("it was written: %s", have)
	}
	if out, err := r.run(t, "/nowhere", "ovs-vsctl", append([]string{"--db=unix:" + writes}, set...)...); err != nil {
		t.Errorf("who may write: %v: %s", err, out)
	}
	if have := r.vsctl("--if-exists", "get", "Open_vSwitch", ".", "external_ids:test"); have != "written" {
		t.Errorf("it was not written: %s", have)
	}
}

func (r reached) reachBridge(t *testing.T) {
	reads, writes := filepath.Dir(r.tunnel(t, "br-int.mgmt", nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "br-int"})),
		filepath.Dir(r.tunnel(t, "br-int.mgmt", nodeapi.ConnectQuestion{Socket: "openflow", Bridge: "br-int", Write: true}))
	flow := func(dir, verb string) (string, error) {
		return r.run(t, dir, "ovs-ofctl", verb, "br-int", "cookie=0x7e57,table=250,priority=1,actions=drop")
	}
	has := func() bool {
		out, err := r.run(t, reads, "ovs-ofctl", "dump-flows", "br-int", "table=250")
		must(t, err)
		return strings.Contains(out, "cookie=0x7e57")
	}
	for _, version := range []string{"", "OpenFlow10", "OpenFlow13", "OpenFlow15"} {
		for _, command := range []string{
			"show", "dump-flows", "dump-ports", "dump-ports-desc", "dump-tables", "dump-aggregate", "dump-desc", "dump-groups", "dump-meters",
			"queue-stats", "dump-tlv-map",
		} {
			args := []string{command, "br-int"}
			if version != "" {
				args = append([]string{"-O", version}, args...)
			}
			// What a version has not is said in the same way without us.
			have, err := r.run(t, reads, "ovs-ofctl", args...)
			direct, other := r.run(t, r.dir, "ovs-ofctl", args...)
			if (err == nil) != (other == nil) || strings.Contains(have, "OFPBRC_EPERM") || strings.Count(have, "\n") != strings.Count(direct, "\n") {
				t.Errorf("%v: %v: %s\nand on the node itself: %v: %s", args, err, have, other, direct)
			}
		}
	}
	if out, err := flow(reads, "add-flow"); err == nil || !strings.Contains(out, "OFPBRC_EPERM") || has() {
		t.Errorf("it writes a flow: %v: %s", err, out)
	}
	for _, args := range [][]string{
		{"--bundle", "add-flow", "br-int", "table=250,actions=drop"},
		{"packet-out", "br-int", "in_port=local,packet=" + strings.Repeat("00", 60) + ",actions=drop"},
		{"mod-port", "br-int", "LOCAL", "down"},
		{"-O", "OpenFlow13", "add-group", "br-int", "group_id=7,type=all"},
		{"-O", "OpenFlow13", "add-meter", "br-int", "meter=7,kbps,band=type=drop,rate=1"},
		{"set-frags", "br-int", "drop"},
	} {
		if out, err := r.run(t, reads, "ovs-ofctl", args...); err == nil {
			t.Errorf("%v is done: %s", args, out)
		}
	}
	if out, err := flow(writes, "add-flow"); err != nil || !has() {
		t.Errorf("who may write: %v: %s", err, out)
	}
	if out, err := r.run(t, reads, "ovs-ofctl", "del-flows", "br-int", "table=250"); err == nil || !has() {
		t.Errorf("it deletes a flow: %v: %s", err, out)
	}
	if out, err := r.run(t, writes, "ovs-ofctl", "del-flows", "br-int", "table=250"); err != nil || has() {
		t.Errorf("who may write deletes no flow: %v: %s", err, out)
	}
	_, err := r.client.Connect(t.Context(), nodeapi.ConnectQuestion{User: "jo", Socket: "openflow", Bridge: "br-none"})
	if refused, ok := errors.AsType[*nodeapi.RefusedError](err); !ok || refused.Temporary || !strings.Contains(refused.What, "br-int") {
		t.Errorf("a bridge that is not there: %v", err)
	}
}

// reachBridgeSlowly: a client that is silent at first has its answer. The control, on the bridge's own socket, is sent away.
func (r reached) reachBridgeSlowly(t *testing.T) {
	// ovs-vswitchd waits for one second.
	const silent = 3 * time.Second
	hello := []byte{0x01, 0, 0, 8, 0, 0, 0, 1}
	greeted := func(conn net.Conn) error {
		defer wait.Limit(conn, wait.Patience)()
		<-time.After(silent)
		// The bridge's own greeting has come before ours.
		if _, err := conn.Write(append(hello, 0x01, 2, 0, 8, 0, 0, 0, 2)); err != nil {
			return err
		}
		for {
			var header [8]byte
			if _, err := io.ReadFull(conn, header[:]); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint16(header[2:]))-8); err != nil {
				return err
			}
			if header[1] == 3 { // The answer to the echo request.
				return nil
			}
		}
	}
	control, err := net.Dial("unix", filepath.Join(r.dir, "br-int.mgmt"))
	must(t, err)
	defer func() { _ = control.Close() }()
	if err := greeted(control); err == nil {
		t.Error("the bridge waits by itself")
	}
	conn, err := r.client.Connect(t.Context(), nodeapi.ConnectQuestion{User: "jo", Socket: "openflow", Bridge: "br-int"})
	must(t, err)
	defer func() { _ = conn.Close() }()
	if err := greeted(conn); err != nil {
		t.Errorf("a client that was silent: %v", err)
	}
}

func (r reached) reachDaemons(t *testing.T) {
	call := func(q nodeapi.ConnectQuestion, command string, args ...string) (string, error) {
		t.Helper()
		q.User = "jo"
		ctx := wait.Context(t, wait.Patience)
		conn, err := r.client.Connect(ctx, q)
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close() }()
		return unixctl.Call(ctx, conn, command, args...)
	}
	vswitchd, writes := nodeapi.ConnectQuestion{Socket: unixctl.Switch}, nodeapi.ConnectQuestion{Socket: unixctl.Switch, Write: true}
	for command, want := range map[string]string{
		"version": "ovs-vswitchd", "list-commands": "fdb/flush", "dpif/show": "br-int", "coverage/show": "Event coverage",
		"memory/show": "ports:",
	} {
		if out, err := call(vswitchd, command); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s", command, err, out)
		}
	}
	if out, err := call(vswitchd, "ofproto/trace", "br-int", "in_port=LOCAL,dl_src=0a:00:00:00:00:01"); err != nil ||
		!strings.Contains(out, "Final flow") {
		t.Errorf("a trace: %v: %s", err, out)
	}
	if out, err := call(nodeapi.ConnectQuestion{Socket: unixctl.Database},
		"ovsdb-server/list-dbs"); err != nil || !strings.Contains(out, "Open_vSwitch") {
		t.Errorf("of the database's server: %v: %s", err, out)
	}
	for _, line := range []string{"exit", "fdb/flush", "vlog/set dbg", "ofproto/trace br-int in_port=LOCAL -generate"} {
		words := strings.Fields(line)
		_, err := call(vswitchd, words[0], words[1:]...)
		if refused, ok := errors.AsType[*unixctl.RefusedError](err); !ok || !strings.Contains(refused.What, "this connection only reads") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if out, err := call(writes, "fdb/flush"); err != nil {
		t.Errorf("who may write: %v: %s", err, out)
	}
	_, err := call(nodeapi.ConnectQuestion{Socket: unixctl.Controller}, "version")
	if refused, ok := errors.AsType[*nodeapi.RefusedError](err); !ok || !strings.Contains(refused.What, "ovn-controller has no socket") {
		t.Errorf("a daemon that does not run: %v", err)
	}
	// Each command that is said to read is one, of those that this version has: none of a misspelt name.
	all, err := call(vswitchd, "list-commands")
	must(t, err)
	for _, command := range []string{
		"bond/show", "dpctl/dump-conntrack", "dpif/dump-flows", "fdb/show", "ofproto/list", "tnl/ports/show", "upcall/show", "ovs/route/show",
		"dpctl/ct-get-limits", "qos/show",
	} {
		if !strings.Contains(all, "\n  "+command) || !unixctl.Reads(unixctl.Switch, command, nil) {
			t.Errorf("%s is no command that reads", command)
		}
	}
}
