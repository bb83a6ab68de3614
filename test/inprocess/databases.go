package inprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/database/inmemory"
	"github.com/ovn-kubernetes/libovsdb/model"
	vsdb "github.com/ovn-kubernetes/libovsdb/ovsdb"
	"github.com/ovn-kubernetes/libovsdb/ovsdb/serverdb"
	memory "github.com/ovn-kubernetes/libovsdb/server"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
	"github.com/atoll-net/atoll/test/wait"
)

// southboundSchema has what is asked about the southbound database (ovn-sb(5)).
const southboundSchema = `{"name": "OVN_Southbound", "version": "20.41.0", "tables": {
"Chassis": {"columns": {"name": {"type": "string"}, "hostname": {"type": "string"}}, "isRoot": true},
"Port_Binding": {"columns": {"logical_port": {"type": "string"}, "type": {"type": "string"}, "datapath": {"type": "uuid"}, "tunnel_key": {"type": "integer"},
  "chassis": {"type": {"key": {"type": "uuid", "refTable": "Chassis", "refType": "weak"}, "min": 0, "max": 1}},
  "up": {"type": {"key": "boolean", "min": 0, "max": 1}}}, "isRoot": true}}}`

type chassisRow struct {
	UUID     string `ovsdb:"_uuid"`
	Name     string `ovsdb:"name"`
	Hostname string `ovsdb:"hostname"`
}

type bindingRow struct {
	UUID        string  `ovsdb:"_uuid"`
	LogicalPort string  `ovsdb:"logical_port"`
	Type        string  `ovsdb:"type"`
	Chassis     *string `ovsdb:"chassis"`
	Up          *bool   `ovsdb:"up"`
	Datapath    string  `ovsdb:"datapath"`
	TunnelKey   int     `ovsdb:"tunnel_key"`
}

// database is a server of OVN's databases, in memory: libovsdb's, which has what we ask of one but no ovn-northd beside it.
type database struct {
	*memory.OvsdbServer
	address string
}

// newDatabase serves both databases at a socket in dir, until stop is called. schema is the file of the northbound database's.
func newDatabase(dir, schema string) (d database, stop func(), err error) {
	northbound, err := os.ReadFile(schema)
	if err != nil {
		return d, nil, fmt.Errorf("read schema: %w", err)
	}
	rows := map[string]model.Model{nb.TableGlobal.String(): &nb.Global{}}
	for _, t := range nb.Tables() {
		rows[t.Table.String()] = t.New()
	}
	served := serverdb.Schema()
	of := map[string]vsdb.DatabaseSchema{}
	for name, text := range map[string][]byte{ovsdb.NorthboundDatabase: northbound, ovsdb.SouthboundDatabase: []byte(southboundSchema)} {
		var one vsdb.DatabaseSchema
		if err := json.Unmarshal(text, &one); err != nil {
			return d, nil, fmt.Errorf("read schema of %s: %w", name, err)
		}
		of[name] = one
	}
	of[served.Name] = served
	clients := map[string]model.ClientDBModel{}
	for name, rows := range map[string]map[string]model.Model{
		ovsdb.NorthboundDatabase: rows, ovsdb.SouthboundDatabase: {"Chassis": &chassisRow{}, "Port_Binding": &bindingRow{}},
		served.Name: {serverdb.DatabaseTable: &serverdb.Database{}},
	} {
		if clients[name], err = model.NewClientDBModel(name, rows); err != nil {
			return d, nil, fmt.Errorf("build model of %s: %w", name, err)
		}
	}
	var models []model.DatabaseModel
	for name, schema := range of {
		m, problems := model.NewDatabaseModel(schema, clients[name])
		if len(problems) > 0 {
			return d, nil, fmt.Errorf("build model of %s: %v", name, problems)
		}
		models = append(models, m)
	}
	log := logr.FromSlogHandler(slog.DiscardHandler)
	if d.OvsdbServer, err = memory.NewOvsdbServer(inmemory.NewDatabase(clients, &log), &log, models...); err != nil {
		return d, nil, fmt.Errorf("make databases: %w", err)
	}
	for _, name := range []string{ovsdb.NorthboundDatabase, ovsdb.SouthboundDatabase} {
		err := d.insert(served.Name, serverdb.DatabaseTable, vsdb.Row{
			"name": name, "model": serverdb.DatabaseModelStandalone, "connected": true, "leader": true,
		})
		if err != nil {
			return d, nil, err
		}
	}
	if err := d.insert(ovsdb.NorthboundDatabase, nb.TableGlobal.String(), vsdb.Row{}); err != nil {
		return d, nil, err
	}
	path := filepath.Join(dir, "ovn.sock")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Serve("unix", path) // It ends when d is closed. A client that cannot connect reports why.
	}()
	d.address = "unix:" + path
	err = wait.For(context.Background(), wait.Patience, func(context.Context) error {
		conn, err := net.Dial("unix", path)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return d, nil, fmt.Errorf("connect to databases: %w", err)
	}
	return d, func() { d.Close(); <-ended }, nil
}

// insert puts a row into a table.
func (d database) insert(database, table string, row vsdb.Row) error {
	return d.transact(database, vsdb.Operation{Op: vsdb.OperationInsert, Table: table, Row: row})
}

// transact does operations, all or none.
func (d database) transact(database string, operations ...vsdb.Operation) error {
	name, err := json.Marshal(database)
	if err != nil {
		return err
	}
	arguments := []json.RawMessage{name}
	for _, operation := range operations {
		text, err := json.Marshal(operation)
		if err != nil {
			return err
		}
		arguments = append(arguments, text)
	}
	var reply []*vsdb.OperationResult
	if err := d.Transact(nil, arguments, &reply); err != nil {
		return fmt.Errorf("write %s: %w", database, err)
	}
	for _, r := range reply {
		if r != nil && r.Error != "" {
			return fmt.Errorf("write %s: %s: %s", database, r.Error, r.Details)
		}
	}
	return nil
}

// bind has the ports of pods up on the chassis of their nodes, as ovn-northd and ovn-controller do it: a node for each port.
func (d database) bind(nodes []string, ports map[string]string) error {
	uuids := map[string]vsdb.UUID{}
	var operations []vsdb.Operation
	for i, node := range nodes {
		uuids[node] = vsdb.UUID{GoUUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1)}
		operations = append(operations, vsdb.Operation{
			Op: vsdb.OperationInsert, Table: "Chassis", UUID: uuids[node].GoUUID, Row: vsdb.Row{"name": node, "hostname": node},
		})
	}
	for i, port := range slices.Sorted(maps.Keys(ports)) {
		operations = append(operations, vsdb.Operation{Op: vsdb.OperationInsert, Table: "Port_Binding", Row: vsdb.Row{
			"logical_port": port, "type": "", "chassis": uuids[ports[port]], "up": true,
			"datapath": vsdb.UUID{GoUUID: "00000000-0000-4000-8000-000000000000"}, "tunnel_key": i + 1,
		}})
	}
	return d.transact(ovsdb.SouthboundDatabase, operations...)
}

// stray puts a port that is nobody's into a switch.
func (d database) stray(of, name, addresses string) error {
	const row = "port"
	return d.transact(ovsdb.NorthboundDatabase,
		vsdb.Operation{
			Op: vsdb.OperationInsert, Table: nb.TableLogicalSwitchPort.String(), UUIDName: row, Row: vsdb.Row{
				"name": name, "addresses": vsdb.OvsSet{GoSet: []any{addresses}},
			},
		},
		vsdb.Operation{
			Op: vsdb.OperationMutate, Table: nb.TableLogicalSwitch.String(), Where: []vsdb.Condition{ovsdb.Equal("name", of)},
			Mutations: []vsdb.Mutation{
				{Column: "ports", Mutator: vsdb.MutateOperationInsert, Value: vsdb.OvsSet{GoSet: []any{vsdb.UUID{GoUUID: row}}}},
			},
		})
}
