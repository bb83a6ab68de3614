package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/atoll-net/atoll/pkg/process/gate"
)

// Gate forwards a client's messages to a database's server as far as the client may send them. It never forwards a message as it
// came: it reads and judges each one and writes it anew from what was judged, so that the server cannot understand it
// differently.
type Gate struct {
	// Database is the one that may be asked about. The server's own, _Server, may always be read.
	Database string
	// Writes: it may be written.
	Writes bool
	// Hint says how to get a connection that writes; it is part of a refusal.
	Hint string
}

// gateMethods are those that go through, RFC 7047 and ovsdb-server(7); true of those whose first parameter names a database.
// Nobody needs locks, which are ovn-northd's, and nobody converts a database this way.
var gateMethods = map[string]bool{
	"list_dbs": false, "get_server_id": false, "echo": false, "cancel": false, "set_db_change_aware": false, "monitor_cancel": false,
	"monitor_cond_change": false,
	"get_schema":          true, "monitor": true, "monitor_cond": true, "monitor_cond_since": true, methodTransact: true,
}

const methodTransact = "transact"

// gateReads are the operations that change nothing.
var gateReads = []string{"select", "wait", "comment", "abort", "assert"}

// judge gives the message to send on, or the answer to give in its place. It is an error if it cannot be understood.
func (g Gate) judge(in gate.Message) (on, answer gate.Message, err error) {
	id := in["id"]
	if _, asks := in["method"]; !asks {
		// An answer to the server's echo request, by which it checks that the client is alive.
		if _, answers := in["result"]; !answers {
			return nil, nil, gate.ErrNoMessage
		}
		return gate.Message{"id": id, "result": in["result"], "error": in["error"]}, nil, nil
	}
	method, params, err := in.Request()
	if err != nil {
		return nil, nil, err
	}
	ofDatabase, known := gateMethods[method]
	switch {
	case !known:
		return nil, refusal(id, fmt.Sprintf("method %q is not let through", gate.Printable(method))), nil
	case ofDatabase:
		if why := g.judgeDatabase(params); why != "" {
			return nil, refusal(id, why), nil
		}
	}
	if method == methodTransact {
		for i, op := range params[1:] {
			if why := g.judgeOperation(params[0], op); why != "" {
				// As a server answers that reads only: the operations before it were not done either.
				results := append(make([]any, i), notAllowed(why))
				return nil, gate.Message{"id": id, "result": results, "error": nil}, nil
			}
		}
	}
	return gate.Message{"id": id, "method": method, "params": params}, nil, nil
}

// judgeDatabase says what is wrong with the database that is named.
func (g Gate) judgeDatabase(params []any) string {
	if len(params) == 0 {
		return "no database is named"
	}
	if name, isText := params[0].(string); !isText || name != g.Database && name != serverDatabase {
		return fmt.Sprintf("this connection is to %s alone", g.Database)
	}
	return ""
}

// judgeOperation says why an operation is not let through.
func (g Gate) judgeOperation(database, operation any) string {
	if g.Writes && database == g.Database {
		return ""
	}
	fields, _ := operation.(map[string]any)
	name, _ := fields["op"].(string)
	switch {
	case !slices.Contains(gateReads, name):
		table, _ := fields["table"].(string)
		return strings.TrimSpace(fmt.Sprintf("%s of %s: this connection only reads. %s", gate.Printable(name), gate.Printable(table), g.Hint))
	case name == "wait" && fields["timeout"] != json.Number("0"):
		// The server looks at each one that waits whenever anything changes.
		return "wait without \"timeout\": 0: this connection only reads"
	}
	return ""
}

func refusal(id any, why string) gate.Message {
	return gate.Message{"id": id, "result": nil, "error": notAllowed(why)}
}

// notAllowed is the error of a server that only reads, by its own name for it.
func notAllowed(why string) map[string]any {
	return map[string]any{"error": "not allowed", "details": why}
}

// Join connects a client to the server. It forwards only the messages that the gate allows.
func (g Gate) Join(ctx context.Context, client, server net.Conn, b gate.Bounds) (refused int, why error) {
	return gate.Join(ctx, client, server, gate.Messages(g.judge), &gate.JSON{}, b)
}
