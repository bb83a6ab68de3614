package ovsdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
)

// southboundName is the name of the southbound database, ovn-sb(5).
const southboundName = "OVN_Southbound"

const (
	tableBinding = "Port_Binding"
	tableChassis = "Chassis"
)

type bindingRow struct {
	UUID        string  `ovsdb:"_uuid"`
	LogicalPort string  `ovsdb:"logical_port"`
	Chassis     *string `ovsdb:"chassis"`
	Up          *bool   `ovsdb:"up"`
	// Datapath and TunnelKey are an index of the table: libovsdb needs all of these.
	Datapath  string `ovsdb:"datapath"`
	TunnelKey int    `ovsdb:"tunnel_key"`
}

type chassisRow struct {
	UUID     string `ovsdb:"_uuid"`
	Name     string `ovsdb:"name"`
	Hostname string `ovsdb:"hostname"`
}

// Binding is where a logical port is.
type Binding struct {
	// Chassis and Hostname are the names of the chassis that has bound the port; empty while none has.
	Chassis, Hostname string
	// Up: the chassis has set the port up.
	Up bool
}

// Southbound is a connection to the southbound database with a mirror of its port bindings. It never writes.
type Southbound struct {
	client            client.Client
	bindings, chassis *cache.RowCache
}

// OpenSouthbound connects and returns once the mirror holds every port binding.
func OpenSouthbound(ctx context.Context, cfg Config) (*Southbound, error) {
	binding, chassis := &bindingRow{}, &chassisRow{}
	c, err := connectSouthbound(ctx, cfg, map[string]model.Model{tableBinding: binding, tableChassis: chassis},
		client.WithLeaderOnly(len(cfg.Addresses) > 1))
	if err != nil {
		return nil, err
	}
	monitor := c.NewMonitor(
		client.WithTable(binding, &binding.LogicalPort, &binding.Chassis, &binding.Up, &binding.Datapath, &binding.TunnelKey),
		client.WithTable(chassis, &chassis.Name, &chassis.Hostname),
	)
	if _, err := c.Monitor(ctx, monitor); err != nil {
		c.Close()
		return nil, fmt.Errorf("monitor %s: %w", southboundName, err)
	}
	mirror := c.Cache()
	if mirror == nil {
		c.Close()
		return nil, ErrClosed
	}
	return &Southbound{client: c, bindings: mirror.Table(tableBinding), chassis: mirror.Table(tableChassis)}, nil
}

// connectSouthbound connects to any of the servers.
func connectSouthbound(ctx context.Context, cfg Config, rows map[string]model.Model, options ...client.Option) (client.Client, error) {
	dbModel, err := model.NewClientDBModel(southboundName, rows)
	if err != nil {
		return nil, fmt.Errorf("build model of %s: %w", southboundName, err)
	}
	log := logr.FromSlogHandler(cfg.Log.Handler())
	options = append(options, client.WithLogger(&log), client.WithTLSConfig(cfg.TLS))
	for _, a := range cfg.Addresses {
		if strings.HasPrefix(a, "ssl:") && cfg.TLS == nil {
			return nil, fmt.Errorf("connect to %s at %s: there is no certificate for it", southboundName, a)
		}
		options = append(options, client.WithEndpoint(a))
	}
	c, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		return nil, fmt.Errorf("set up client of %s: %w", southboundName, err)
	}
	if err := c.Connect(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to %s: %w", southboundName, err)
	}
	return c, nil
}

// Bindings are all port bindings by the name of their logical port. It asks the server for a sign of life first:
// what the mirror holds of a dead one says nothing.
func (s *Southbound) Bindings(ctx context.Context) (map[string]Binding, error) {
	if err := s.client.Echo(ctx); err != nil {
		return nil, fmt.Errorf("reach %s: %w", southboundName, err)
	}
	chassis, rows := s.chassis.RowsShallow(), s.bindings.RowsShallow()
	out := make(map[string]Binding, len(rows))
	for _, r := range rows {
		row := r.(*bindingRow)
		b := Binding{Up: row.Up != nil && *row.Up}
		if row.Chassis != nil {
			if c, ok := chassis[*row.Chassis].(*chassisRow); ok {
				b.Chassis, b.Hostname = c.Name, c.Hostname
			}
		}
		out[row.LogicalPort] = b
	}
	return out, nil
}

// Close ends the connection.
func (s *Southbound) Close() { s.client.Close() }
