package ovsdb

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// The databases that can be asked.
const (
	// NorthboundDatabase says what is wanted.
	NorthboundDatabase = "OVN_Northbound"
	// SouthboundDatabase says what is done on nodes.
	SouthboundDatabase = southboundName
	// serverDatabase tells of the server itself and of the databases that it has (ovsdb-server(5)).
	serverDatabase = "_Server"
)

// Asker asks a database a question now and then, with a connection for each: it needs no schema and keeps no mirror.
type Asker struct {
	Config
	// Database is NorthboundDatabase or SouthboundDatabase.
	Database string
}

// Select reads rows from the first server that answers.
func (a Asker) Select(ctx context.Context, selects ...ovsdb.Operation) (rows [][]ovsdb.Row, err error) {
	err = a.first(ctx, func(conn net.Conn) error {
		rows, err = selectOver(ctx, conn, a.Database, selects)
		return err
	})
	return rows, err
}

// CountRows returns how many rows a table has, according to the first server that answers. It reads no row, because a table may
// not fit into memory. It needs a connection that may write.
func (a Asker) CountRows(ctx context.Context, table string) (count int, err error) {
	// An update of no column changes nothing, and is answered with how many rows it is about (RFC 7047, 5.2.3).
	update := map[string]any{"op": ovsdb.OperationUpdate, "table": table, "where": []any{}, "row": map[string]any{}}
	err = a.first(ctx, func(conn net.Conn) error {
		results, err := transactOver(ctx, conn, a.Database, []any{update})
		if err == nil {
			count = results[0].Count
		}
		return err
	})
	return count, err
}

// first asks one server after the other, until one answers. ask closes its connection.
func (a Asker) first(ctx context.Context, ask func(net.Conn) error) error {
	addresses, err := a.servers(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, address := range addresses {
		conn, err := a.dial(ctx, address)
		if err == nil {
			err = ask(conn)
		}
		if err == nil {
			return nil
		}
		problems = append(problems, fmt.Errorf("ask %s at %s: %w", a.Database, address, err))
	}
	return errors.Join(problems...)
}

// servers are where the database is now.
func (a Asker) servers(ctx context.Context) ([]string, error) {
	if a.Find == nil {
		return a.Addresses, nil
	}
	found, err := a.Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", a.Database, err)
	}
	return found, nil
}

// ServerStatus is what a server says of its copy of the database.
type ServerStatus struct {
	Address string
	// Clustered: it is a member of a raft cluster. Leader: it leads it. Connected: it is in contact with a majority.
	Clustered, Leader, Connected bool
	// Index is the log's entry that it has applied last; 0 when it is not clustered.
	Index int64
	// Certificate is what the server showed; nil without TLS.
	Certificate *x509.Certificate
	// Err says why it did not answer.
	Err error
}

// Servers asks each server how it is, all at once.
func (a Asker) Servers(ctx context.Context) ([]ServerStatus, error) {
	addresses, err := a.servers(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]ServerStatus, len(addresses))
	done := make(chan struct{})
	for i, address := range addresses {
		go func() {
			defer func() { done <- struct{}{} }()
			out[i] = a.status(ctx, address)
		}()
	}
	for range addresses {
		<-done
	}
	return out, nil
}

func (a Asker) status(ctx context.Context, address string) ServerStatus {
	s := ServerStatus{Address: address}
	conn, err := a.dial(ctx, address)
	if err != nil {
		s.Err = err
		return s
	}
	if secured, is := conn.(*tls.Conn); is {
		s.Certificate = secured.ConnectionState().PeerCertificates[0]
	}
	rows, err := selectOver(ctx, conn, serverDatabase, []ovsdb.Operation{{
		Op: ovsdb.OperationSelect, Table: "Database", Columns: []string{"model", "connected", "leader", "index"},
		Where: []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, a.Database)},
	}})
	switch {
	case err != nil:
		s.Err = err
	case len(rows[0]) == 0:
		s.Err = fmt.Errorf("the server has no database %s", a.Database)
	default:
		row := rows[0][0]
		s.Clustered = Text(row, "model") == "clustered"
		s.Connected, s.Leader = Is(row, "connected"), Is(row, "leader")
		s.Index = Number(row, "index")
	}
	return s
}

// Text is a column's text; empty when it has none.
func Text(row ovsdb.Row, column string) string {
	switch v := single(row[column]).(type) {
	case string:
		return v
	case ovsdb.UUID:
		return v.GoUUID
	}
	return ""
}

// Number is a column's number; 0 when it has none.
func Number(row ovsdb.Row, column string) int64 {
	switch v := single(row[column]).(type) {
	case float64:
		return int64(v)
	case int:
		return int64(v)
	}
	return 0
}

// Count is how many elements a column has.
func Count(row ovsdb.Row, column string) int {
	switch v := row[column].(type) {
	case ovsdb.OvsSet:
		return len(v.GoSet)
	case nil:
		return 0
	}
	return 1
}

// Texts are the texts of a column.
func Texts(row ovsdb.Row, column string) (out []string) {
	switch v := row[column].(type) {
	case ovsdb.OvsSet:
		for _, e := range v.GoSet {
			if text, ok := e.(string); ok {
				out = append(out, text)
			}
		}
	case string:
		out = append(out, v)
	}
	return out
}

// single is the element of a set of one; OVSDB writes such a one in either way.
func single(v any) any {
	if set, ok := v.(ovsdb.OvsSet); ok {
		if len(set.GoSet) == 0 {
			return nil
		}
		return set.GoSet[0]
	}
	return v
}

// SelectRows is the operation that reads columns of a table.
func SelectRows(table string, columns []string, where ...ovsdb.Condition) ovsdb.Operation {
	if where == nil {
		where = []ovsdb.Condition{}
	}
	return ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Columns: columns, Where: where}
}

// Equal is the condition that a column has a value.
func Equal(column string, value any) ovsdb.Condition {
	return ovsdb.NewCondition(column, ovsdb.ConditionEqual, value)
}

// answerTo is a message of the server: the answer to a request, or a request of its own, which is not heard.
type answerTo struct {
	ID     any                     `json:"id"`
	Method string                  `json:"method"`
	Result []ovsdb.OperationResult `json:"result"`
	Error  any                     `json:"error"`
}

// selectOver is one transaction of selects over a connection, which it closes.
func selectOver(ctx context.Context, conn net.Conn, database string, selects []ovsdb.Operation) ([][]ovsdb.Row, error) {
	ops := make([]any, len(selects))
	for i := range selects {
		ops[i] = selects[i]
	}
	results, err := transactOver(ctx, conn, database, ops)
	if err != nil {
		return nil, err
	}
	out := make([][]ovsdb.Row, len(ops))
	for i := range ops {
		out[i] = results[i].Rows
	}
	return out, nil
}

// transactOver is one transaction over a connection, which it closes: JSON-RPC 1.0 (RFC 7047, 4.1.3).
func transactOver(ctx context.Context, conn net.Conn, database string, ops []any) ([]ovsdb.OperationResult, error) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(
		map[string]any{"method": methodTransact, "params": append([]any{database}, ops...), "id": 1}); err != nil {
		return nil, whyEnded(ctx, err)
	}
	answers := json.NewDecoder(bufio.NewReader(conn))
	var answer answerTo
	for answer.ID = nil; answer.ID != float64(1); {
		answer = answerTo{}
		if err := answers.Decode(&answer); err != nil {
			return nil, whyEnded(ctx, err)
		}
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("the server refuses: %v", answer.Error)
	}
	if len(answer.Result) < len(ops) {
		return nil, errors.New("the server's answer is too short")
	}
	for _, r := range answer.Result {
		if r.Error != "" {
			return nil, fmt.Errorf("read %s: %s", database, strings.TrimSpace(r.Error+" "+r.Details))
		}
	}
	return answer.Result, nil
}

func whyEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (a Asker) dial(ctx context.Context, address string) (net.Conn, error) {
	kind, rest, _ := strings.Cut(address, ":")
	switch kind {
	case "unix":
		return (&net.Dialer{}).DialContext(ctx, "unix", rest)
	case "tcp":
		return (&net.Dialer{}).DialContext(ctx, "tcp", rest)
	case "ssl":
		if a.TLS == nil {
			return nil, errors.New("there is no certificate for it")
		}
		return (&tls.Dialer{Config: a.TLS}).DialContext(ctx, "tcp", rest)
	}
	return nil, fmt.Errorf("read address %q: it is unix:PATH, tcp:IP:PORT or ssl:IP:PORT", address)
}

// Is reports whether a column says true.
func Is(row ovsdb.Row, column string) bool {
	yes, _ := single(row[column]).(bool)
	return yes
}

// DialLeader connects to the server that leads the database now, and says which it is.
func (a Asker) DialLeader(ctx context.Context) (net.Conn, string, error) {
	servers, err := a.Servers(ctx)
	if err != nil {
		return nil, "", err
	}
	var problems []string
	for _, s := range servers {
		switch {
		case s.Err != nil:
			problems = append(problems, fmt.Sprintf("%s: %v", s.Address, s.Err))
		case s.Leader && s.Connected:
			conn, err := a.dial(ctx, s.Address)
			if err != nil {
				return nil, "", fmt.Errorf("connect to %s at %s: %w", a.Database, s.Address, err)
			}
			return conn, s.Address, nil
		default:
			problems = append(problems, s.Address+": it follows")
		}
	}
	return nil, "", fmt.Errorf("no server leads %s (%s)", a.Database, strings.Join(problems, "; "))
}
