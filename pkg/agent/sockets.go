package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/node/nodeapi"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/pkg/ovs/openflow"
	"github.com/atoll-net/atoll/pkg/ovs/unixctl"
)

// switchDatabase is the name of Open vSwitch's database. (ovs-vswitchd.conf.db(5).)
const switchDatabase = "Open_vSwitch"

// writeHint says how to get a connection that writes.
const writeHint = "Ask for one that writes (--write)"

// sockets are those of a node's Open vSwitch and OVN.
type sockets struct {
	// node is whose they are.
	node string
	// switchDir and ovnDir are the run directories of both.
	switchDir, ovnDir string
	// database is the path of the database's socket.
	database string
}

func socketsOf(config Config) sockets {
	path, _ := strings.CutPrefix(config.OVSDB, "unix:")
	return sockets{node: config.Node, switchDir: filepath.Dir(path), ovnDir: config.OVNRunDir, database: path}
}

// Connect implements nodeapi.Answers.
func (i inquiry) Connect(ctx context.Context, q nodeapi.ConnectQuestion) (net.Conn, nodeapi.Gate, error) {
	return i.sockets.open(ctx, q)
}

// open opens a socket, and says how much of it may be used.
func (s sockets) open(ctx context.Context, q nodeapi.ConnectQuestion) (net.Conn, nodeapi.Gate, error) {
	switch q.Socket {
	case nodeapi.SocketDatabase:
		conn, err := s.dial(ctx, "Open vSwitch's database", s.database)
		return conn, ovsdb.Gate{Database: switchDatabase, Writes: q.Write, Hint: writeHint}, err
	case nodeapi.SocketOpenFlow:
		conn, err := s.bridge(ctx, q.Bridge)
		return conn, openflow.Gate{Writes: q.Write, Socket: s.management(q.Bridge)}, err
	}
	if !slices.Contains(unixctl.Daemons(), q.Socket) {
		return nil, nil, &nodeapi.RefusedError{What: fmt.Sprintf("there is no socket %q", q.Socket)}
	}
	conn, err := s.dial(ctx, q.Socket, s.control(q.Socket)...)
	return conn, unixctl.Gate{Daemon: q.Socket, Writes: q.Write, Hint: writeHint}, err
}

// management is the path of a bridge's socket for OpenFlow, which ovs-vswitchd makes as NAME.mgmt.
func (s sockets) management(bridge string) string {
	return filepath.Join(s.switchDir, bridge+managementSuffix)
}

const managementSuffix = ".mgmt"

// bridge opens a bridge's socket for OpenFlow.
func (s sockets) bridge(ctx context.Context, name string) (net.Conn, error) {
	all, err := filepath.Glob(filepath.Join(escaped(s.switchDir), "*"+managementSuffix))
	if err != nil {
		return nil, fmt.Errorf("look for bridges: %w", err)
	}
	path := s.management(name)
	if !slices.Contains(all, path) {
		for j := range all {
			all[j] = strings.TrimSuffix(filepath.Base(all[j]), managementSuffix)
		}
		return nil, &nodeapi.RefusedError{What: fmt.Sprintf("there is no bridge %s in %s, but %s", name, s.switchDir, orNone(all))}
	}
	return s.dial(ctx, "bridge "+name, path)
}

// control returns the sockets at which a daemon may take commands, in the run directory of either: DAEMON.ctl, or DAEMON.PID.ctl
// with its process number.
func (s sockets) control(daemon string) (out []string) {
	for _, dir := range []string{s.switchDir, s.ovnDir} {
		for _, pattern := range []string{daemon + ".ctl", daemon + ".[0-9]*.ctl"} {
			found, err := filepath.Glob(filepath.Join(escaped(dir), pattern))
			if err != nil || dir == "" {
				continue // The pattern is one.
			}
			out = append(out, found...)
		}
	}
	return out
}

// dial opens the first of some sockets at which somebody listens: a daemon that was killed leaves its own behind.
func (s sockets) dial(ctx context.Context, what string, paths ...string) (net.Conn, error) {
	var problems []error
	for _, path := range paths {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	if len(problems) == 0 {
		return nil, &nodeapi.RefusedError{
			What: fmt.Sprintf("%s has no socket in %s or %s: does it run, and does the agent see its run directory (--ovs-db, --ovn-run-dir)?", what,
				s.switchDir, s.ovnDir),
		}
	}
	return nil, &nodeapi.RefusedError{What: fmt.Sprintf("%s does not answer: %v", what, errors.Join(problems...)), Temporary: true}
}

// escaped is a path as a part of a pattern.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none at all: does ovs-vswitchd run?"
	}
	return strings.Join(names, ", ")
}
