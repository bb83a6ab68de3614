package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// databases are dumped table by table, each row a line of JSON.
func (c *collector) databases(ctx context.Context) {
	for _, d := range []struct{ database, name string }{
		{api.DatabaseNorthbound, ovsdb.NorthboundDatabase}, {api.DatabaseSouthbound, ovsdb.SouthboundDatabase},
	} {
		what := "dump of OVN's " + d.database + " database"
		if !c.Databases {
			c.miss(what, errors.New("it was not asked for (--databases)"))
			continue
		}
		if err := c.dump(ctx, d.database, d.name); err != nil {
			c.miss(what, err)
		}
	}
}

// made are tables that are too large to be held here.
var made = map[string]bool{"Logical_Flow": true, "Logical_DP_Group": true}

// dump reads one by way of the API server.
func (c *collector) dump(ctx context.Context, database, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*askTime)
	defer cancel()
	tunnel, err := connect.OpenTunnel(ctx, connect.TunnelQuery{Kubeconfig: c.Kubeconfig, Database: database})
	if err != nil {
		return err
	}
	defer tunnel.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(tunnel.Address(), "unix:"))
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	asked := &rpc{encode: json.NewEncoder(conn), decode: json.NewDecoder(conn)}
	var schema struct {
		Tables map[string]json.RawMessage `json:"tables"`
	}
	if err := asked.call(&schema, "get_schema", name); err != nil {
		return fmt.Errorf("read the schema of %s: %w", name, errors.Join(err, tunnel.Err()))
	}
	for _, table := range slices.Sorted(maps.Keys(schema.Tables)) {
		if made[table] {
			c.miss(fmt.Sprintf("table %s of %s", table, name),
				errors.New("it may be very large, and ovn-northd makes it of the northbound database. Next: atoll sbctl lflow-list NETWORK/SUBNET"))
			continue
		}
		var results []struct {
			Rows  []map[string]any `json:"rows"`
			Error string           `json:"error"`
		}
		err := asked.call(&results, "transact", name, map[string]any{"op": "select", "table": table, "where": []any{}})
		switch {
		case err != nil:
			return fmt.Errorf("read table %s: %w", table, errors.Join(err, tunnel.Err()))
		case len(results) != 1 || results[0].Error != "":
			c.miss(fmt.Sprintf("table %s of %s", table, name), fmt.Errorf("the server says: %v", results))
			continue
		}
		c.table(database, table, results[0].Rows)
	}
	return nil
}

// table puts a table's rows into the archive.
func (c *collector) table(database, table string, rows []map[string]any) {
	f := File{
		Name: fmt.Sprintf("databases/%s/%s.json", database, table), What: fmt.Sprintf("table %s of OVN's %s database", table, database),
		Items: len(rows),
	}
	var out bytes.Buffer
	for i, row := range rows {
		c.row(row)
		line, err := json.Marshal(row)
		if err != nil {
			c.miss(f.What, err)
			return
		}
		if out.Len()+len(line) > maxTable {
			f.Cut = fmt.Sprintf("only the first %d of %d rows are there: a table may have %d MiB", i, len(rows), maxTable>>20)
			break
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	c.add(f, out.Bytes())
}

// row removes what may be a secret from a row. A map is a list of pairs there, of which the first says what the second is. (RFC
// 7047, section 5.1.)
func (c *collector) row(row map[string]any) {
	for column, value := range row {
		list, is := value.([]any)
		if !is || len(list) != 2 || list[0] != "map" {
			continue
		}
		pairs, _ := list[1].([]any)
		for _, pair := range pairs {
			if both, is := pair.([]any); is && len(both) == 2 {
				key, _ := both[0].(string)
				one := map[string]any{key: both[1]}
				c.clean.object(one)
				both[1] = one[key]
			}
		}
		row[column] = value
	}
	c.clean.object(row)
}

// rpc is a client of JSON-RPC 1.0, one request at a time. (RFC 7047, section 4.)
type rpc struct {
	encode *json.Encoder
	decode *json.Decoder
	id     int
}

func (r *rpc) call(into any, method string, params ...any) error {
	r.id++
	if err := r.encode.Encode(map[string]any{"method": method, "params": params, "id": r.id}); err != nil {
		return err
	}
	for {
		var answer struct {
			ID     any             `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
			Error  any             `json:"error"`
		}
		if err := r.decode.Decode(&answer); err != nil {
			return err
		}
		switch {
		case answer.Method != "" || answer.ID != float64(r.id): // a question of the server's
			continue
		case answer.Error != nil:
			return fmt.Errorf("the server refuses: %v", answer.Error)
		}
		return json.Unmarshal(answer.Result, into)
	}
}
