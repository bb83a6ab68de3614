package ovsdb

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/process/wake"
)

// Columns of Port_Binding that any node may write of any row by OVN's role (ovn-sb(5)).
const (
	columnFurther       = "additional_chassis"
	columnFurtherEncaps = "additional_encap"
)

// claimsTogether is how many ports one transaction takes back.
const claimsTogether = 500

// furtherRow is a port binding that has further chassis.
type furtherRow struct {
	UUID        string   `ovsdb:"_uuid"`
	LogicalPort string   `ovsdb:"logical_port"`
	Further     []string `ovsdb:"additional_chassis"`
	Encaps      []string `ovsdb:"additional_encap"`
	// Asked are the further chassis that the northbound database asks for. ovn-northd alone writes them.
	Asked []string `ovsdb:"requested_additional_chassis"`
	// Datapath and TunnelKey are an index of the table: libovsdb needs all of these.
	Datapath  string `ovsdb:"datapath"`
	TunnelKey int    `ovsdb:"tunnel_key"`
}

// unasked are the further chassis of a port that nobody has asked for, and the encapsulations that go with them.
func (r *furtherRow) unasked() (chassis, encaps []string) {
	for _, c := range r.Further {
		if !slices.Contains(r.Asked, c) {
			chassis = append(chassis, c)
		}
	}
	if len(r.Asked) == 0 {
		encaps = r.Encaps
	}
	return chassis, encaps
}

// FurtherClaim is a port that was said to be on further chassis.
type FurtherClaim struct {
	Port string
	// Chassis are the names of these chassis.
	Chassis []string
}

// Claims is a connection to the southbound database with a mirror of chassis, their tunnel ends, and those ports that have further
// chassis: as a rule none.
// It needs a connection with all rights.
type Claims struct {
	client                 client.Client
	ports, chassis, encaps *cache.RowCache
	portsReady, endsReady  wake.Signal
	done                   chan struct{}
	end                    sync.Once
}

// OpenClaims connects and returns once the mirror is whole.
func OpenClaims(ctx context.Context, cfg Config) (*Claims, error) {
	if cfg.Find != nil {
		var err error
		if cfg.Addresses, err = cfg.Find(ctx); err != nil {
			return nil, fmt.Errorf("find %s: %w", southboundName, err)
		}
	}
	port, chassis, encap := &furtherRow{}, &endsRow{}, &encapRow{}
	rows := map[string]model.Model{tableBinding: port, tableChassis: chassis, tableEncap: encap}
	c, err := connectSouthbound(ctx, cfg, rows, client.WithLeaderOnly(len(cfg.Addresses) > 1))
	if err != nil {
		return nil, err
	}
	s := &Claims{client: c, portsReady: wake.NewSignal(), endsReady: wake.NewSignal(), done: make(chan struct{})}
	lost := disconnected(c, s.done)
	mirror := c.Cache()
	if mirror == nil {
		s.abandon()
		return nil, ErrClosed
	}
	mirror.AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(table string, _ model.Model) { s.wake(table) },
		UpdateFunc: func(table string, _, _ model.Model) { s.wake(table) },
		DeleteFunc: func(table string, _ model.Model) { s.wake(table) },
	})
	// The server sends rows that meet one of the conditions, and no others.
	has := func(column any) model.Condition {
		return model.Condition{Field: column, Function: ovsdb.ConditionNotEqual, Value: []string{}}
	}
	monitor := c.NewMonitor(
		client.WithConditionalTable(port, []model.Condition{has(&port.Further), has(&port.Encaps)},
			&port.LogicalPort, &port.Further, &port.Encaps, &port.Asked, &port.Datapath, &port.TunnelKey),
		client.WithTable(chassis, &chassis.Name, &chassis.Hostname, &chassis.Encaps),
		client.WithTable(encap, &encap.Type, &encap.IP),
	)
	// With this method libovsdb ends the connection after an update that does not fit; with the other one it drops the update.
	monitor.Method = ovsdb.ConditionalMonitorRPC
	if _, err := c.Monitor(ctx, monitor); err != nil {
		s.abandon()
		return nil, fmt.Errorf("monitor %s: %w", southboundName, err)
	}
	s.ports, s.chassis, s.encaps = mirror.Table(tableBinding), mirror.Table(tableChassis), mirror.Table(tableEncap)
	go keepConnection(c, lost, s.done, s.Close) // ends with the connection, or with Close
	return s, nil
}

func (s *Claims) abandon() {
	s.Close()
	s.client.Close()
}

func (s *Claims) wake(table string) {
	if table == tableBinding {
		s.portsReady.Send()
	} else {
		s.endsReady.Send()
	}
}

// Ports gets a value when a port may have got a further chassis, and Ends when chassis or their tunnel ends may have changed. At the
// beginning each
// gets one if there is any such row.
func (s *Claims) Ports() <-chan struct{} { return s.portsReady }

// Ends is described at Ports.
func (s *Claims) Ends() <-chan struct{} { return s.endsReady }

// Done is closed when the connection has ended.
func (s *Claims) Done() <-chan struct{} { return s.done }

// Close ends the connection soon.
func (s *Claims) Close() { s.end.Do(func() { close(s.done) }) }

// TakeBack takes further chassis from all ports for which nobody asked for them, and says what it took.
func (s *Claims) TakeBack(ctx context.Context) ([]FurtherClaim, error) {
	names := map[string]string{}
	for uuid, row := range s.chassis.RowsShallow() {
		names[uuid] = row.(*endsRow).Name
	}
	var ops []ovsdb.Operation
	var out []FurtherClaim
	for _, r := range s.ports.RowsShallow() {
		row := r.(*furtherRow)
		chassis, encaps := row.unasked()
		if len(chassis)+len(encaps) == 0 {
			continue
		}
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: tableBinding,
			Where:     []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: row.UUID})},
			Mutations: []ovsdb.Mutation{dropped(columnFurther, chassis), dropped(columnFurtherEncaps, encaps)},
		})
		claim := FurtherClaim{Port: row.LogicalPort}
		for _, c := range chassis {
			if name, known := names[c]; known {
				claim.Chassis = append(claim.Chassis, name)
			}
		}
		out = append(out, claim)
	}
	for part := range slices.Chunk(ops, claimsTogether) {
		if _, err := ask(ctx, s.client, part); err != nil {
			return nil, fmt.Errorf("take further chassis from ports: %w", err)
		}
	}
	return out, nil
}

// dropped takes references out of a set.
func dropped(column string, uuids []string) ovsdb.Mutation {
	set := ovsdb.OvsSet{GoSet: []any{}}
	for _, uuid := range uuids {
		set.GoSet = append(set.GoSet, ovsdb.UUID{GoUUID: uuid})
	}
	return *ovsdb.NewMutation(column, ovsdb.MutateOperationDelete, set)
}
