package ovsdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// maxMessage bounds what a client may send in one message, in bytes, give or take what was read ahead. Decoded it may take twenty times as much.
const maxMessage = 256 << 10

// maxAnswers bounds the refusals that wait until the server's message is over, in bytes.
const maxAnswers = 256 << 10

// Gate lets a client's messages through to a database's server as far as he may send them. No message goes on as it came: each is read, judged, and written anew from what was
// judged, so that the server and we cannot understand it differently.
type Gate struct {
	// Database is the one that may be asked about. The server's own, _Server, may always be read.
	Database string
	// Writes: it may be written.
	Writes bool
	// Hint says how to get a connection that writes; it is part of a refusal.
	Hint string
}

// gateMethods are those that go through, RFC 7047 and ovsdb-server(7); true of those whose first parameter names a database. Nobody needs locks, which
// are ovn-northd's, and nobody converts a database this way.
var gateMethods = map[string]bool{
	"list_dbs": false, "get_server_id": false, "echo": false, "cancel": false, "set_db_change_aware": false, "monitor_cancel": false, "monitor_cond_change": false,
	"get_schema": true, "monitor": true, "monitor_cond": true, "monitor_cond_since": true, methodTransact: true,
}

const methodTransact = "transact"

// gateReads are the operations that change nothing.
var gateReads = []string{"select", "wait", "comment", "abort", "assert"}

// message is one of JSON-RPC 1.0: a request, a notification or an answer.
type message map[string]any

var errNoMessage = errors.New("it is no message of JSON-RPC")

// judge gives the message to send on, or the answer to give in its place. It is an error if it cannot be understood.
func (g Gate) judge(in message) (on, answer message, err error) {
	id := in["id"]
	named, asks := in["method"]
	if !asks {
		// An answer: to the server's question whether he is still there.
		if _, answers := in["result"]; !answers {
			return nil, nil, errNoMessage
		}
		return message{"id": id, "result": in["result"], "error": in["error"]}, nil, nil
	}
	method, isText := named.(string)
	params, isList := in["params"].([]any)
	if !isText || !isList {
		return nil, nil, errNoMessage
	}
	ofDatabase, known := gateMethods[method]
	switch {
	case !known:
		return nil, refusal(id, fmt.Sprintf("method %q is not let through", printable(method))), nil
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
				return nil, message{"id": id, "result": results, "error": nil}, nil
			}
		}
	}
	return message{"id": id, "method": method, "params": params}, nil, nil
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
		return strings.TrimSpace(fmt.Sprintf("%s of %s: this connection only reads. %s", printable(name), printable(table), g.Hint))
	case name == "wait" && fields["timeout"] != json.Number("0"):
		// The server looks at each one that waits whenever anything changes.
		return "wait without \"timeout\": 0: this connection only reads"
	}
	return ""
}

// printable is a name as it may stand in a message.
func printable(name string) string {
	const longest = 64
	if len(name) > longest {
		name = name[:longest]
	}
	return strings.ToValidUTF8(name, "?")
}

func refusal(id any, why string) message {
	return message{"id": id, "result": nil, "error": notAllowed(why)}
}

// notAllowed is the error of a server that only reads, by its own name for it.
func notAllowed(why string) map[string]any {
	return map[string]any{"error": "not allowed", "details": why}
}

// pass reads a client's messages until they end, and gives each to the server, or its answer to the client. It counts the refused.
func (g Gate) pass(client io.Reader, server, answers io.Writer) (refused int, err error) {
	bounded := &io.LimitedReader{R: client}
	messages := json.NewDecoder(bounded)
	messages.UseNumber()
	for {
		bounded.N = maxMessage
		var in message
		switch err := messages.Decode(&in); {
		case err != nil && bounded.N == 0:
			return refused, fmt.Errorf("a message of more than %d bytes", maxMessage)
		case errors.Is(err, io.EOF):
			return refused, nil
		case err != nil:
			return refused, fmt.Errorf("read a message: %w", err)
		}
		on, answer, err := g.judge(in)
		if err != nil {
			return refused, err
		}
		to, text := server, on
		if on == nil {
			refused++
			if answer["id"] == nil {
				continue // Nobody waits for an answer to a notification.
			}
			to, text = answers, answer
		}
		if err := writeMessage(to, text); err != nil {
			return refused, err
		}
	}
}

// writeMessage writes a message at once.
func writeMessage(to io.Writer, m message) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	_, err := to.Write(text.Bytes())
	return err
}
