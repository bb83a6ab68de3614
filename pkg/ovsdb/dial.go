package ovsdb

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/nb"
)

// serverDatabase is the one in which each server tells of its databases, ovsdb-server(7) "_Server".
const serverDatabase = "_Server"

// connectWait is how long one of several servers may take to be reached before the next is tried.
const connectWait = 5 * time.Second

// errFollower: a raft cluster's other server leads.
var errFollower = errors.New("the server does not lead its cluster")

// dial connects to unix:PATH, tcp:IP:PORT or ssl:IP:PORT. (ovsdb(7), "Connection Methods".)
func dial(ctx context.Context, address string) (net.Conn, error) {
	method, where, _ := strings.Cut(address, ":")
	switch method {
	case "unix", "tcp":
		return (&net.Dialer{Timeout: connectWait}).DialContext(ctx, method, where)
	case "ssl":
		return (&tls.Dialer{NetDialer: &net.Dialer{Timeout: connectWait}}).DialContext(ctx, "tcp", where)
	}
	return nil, fmt.Errorf("%q is none of unix:PATH, tcp:IP:PORT and ssl:IP:PORT", address)
}

// followLeader refuses a server that does not lead, and has the session end when it no longer does: only the leader's
// database is up to date.
func (s *Session) followLeader(ctx context.Context) error {
	request := ovsdb.MonitorRequest{
		Columns: []string{"leader"},
		Where:   []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, nb.DatabaseName)},
	}
	params, err := json.Marshal([]any{serverDatabase, monitorLeader, map[string][]ovsdb.MonitorRequest{"Database": {request}}})
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	leader := false
	if err := s.peer.call(ctx, "monitor_cond", params, func(c *cursor) error { leader = leads(c); return nil }); err != nil {
		return fmt.Errorf("ask whether the server leads: %w", err)
	}
	if !leader {
		return errFollower
	}
	return nil
}

// leads reads an update of the one row about our database: a column that is false is left away when the row is new.
func leads(c *cursor) bool {
	leader := false
	c.object(func([]byte) {
		c.object(func([]byte) {
			c.object(func([]byte) {
				if c.null() {
					return // the row has gone, and the database with it
				}
				c.object(func([]byte) { leader = string(c.word()) == "true" })
			})
		})
	})
	return leader
}
