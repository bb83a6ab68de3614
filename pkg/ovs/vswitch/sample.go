package vswitch

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// More tables of the database Open_vSwitch, ovs-vswitchd.conf.db(5).
const (
	tableCollectors = "Flow_Sample_Collector_Set"
	tableIPFIX      = "IPFIX"
)

const (
	// sampleCache is for how long, in seconds, Open vSwitch adds up packets with the same addresses and ports, and sampleCached of
	// how many flows. What is more is sent at once.
	sampleCache  = 1
	sampleCached = 4096
	// templateEvery is how often, in seconds, it says what its records mean: some 20 KB for each datapath.
	templateEvery = 60
)

// Sample has the bridge send, as IPFIX, what OVN samples for nb.SampleSet to a UDP address.
func (c *Client) Sample(ctx context.Context, target netip.AddrPort) error {
	bridge, err := c.bridgeRow(ctx)
	if err != nil {
		return err
	}
	exporter := ovsdb.Row{
		"targets": target.String(), "cache_active_timeout": sampleCache, "cache_max_flows": sampleCached, "template_interval": templateEvery,
	}
	there, err := c.sampled(ctx, bridge, exporter)
	if err != nil || there {
		return err
	}
	const made = "exporter"
	_, err = c.transact(ctx, []ovsdb.Operation{
		withdrawSamples(),
		{Op: ovsdb.OperationInsert, Table: tableIPFIX, UUIDName: made, Row: exporter},
		{Op: ovsdb.OperationInsert, Table: tableCollectors, Row: ovsdb.Row{
			"id": nb.SampleSet, "bridge": ovsdb.UUID{GoUUID: bridge.UUID}, "ipfix": ovsdb.UUID{GoUUID: made},
		}},
	})
	return err
}

// Unsample takes back what Sample did. What nothing refers to is removed.
func (c *Client) Unsample(ctx context.Context) error {
	if err := c.synced(ctx); err != nil {
		return err
	}
	_, err := c.transact(ctx, []ovsdb.Operation{withdrawSamples()})
	return err
}

func samplesOurs() []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("id", ovsdb.ConditionEqual, nb.SampleSet)}
}

func withdrawSamples() ovsdb.Operation {
	return ovsdb.Operation{Op: ovsdb.OperationDelete, Table: tableCollectors, Where: samplesOurs()}
}

// sampled reports whether the bridge's samples go where they are to go. It asks the database: nobody else looks at these tables.
func (c *Client) sampled(ctx context.Context, bridge *bridgeRow, exporter ovsdb.Row) (bool, error) {
	results, err := c.transact(ctx, []ovsdb.Operation{{
		Op: ovsdb.OperationSelect, Table: tableCollectors, Columns: []string{"bridge", "ipfix"}, Where: samplesOurs(),
	}})
	if err != nil {
		return false, fmt.Errorf("read where samples go: %w", err)
	}
	if len(results[0].Rows) != 1 || !reflect.DeepEqual(results[0].Rows[0]["bridge"], ovsdb.UUID{GoUUID: bridge.UUID}) {
		return false, nil
	}
	id, ok := results[0].Rows[0]["ipfix"].(ovsdb.UUID)
	if !ok {
		return false, nil
	}
	columns := make([]string, 0, len(exporter))
	for name := range exporter {
		columns = append(columns, name)
	}
	results, err = c.transact(ctx, []ovsdb.Operation{{
		Op: ovsdb.OperationSelect, Table: tableIPFIX, Columns: columns, Where: []ovsdb.Condition{
			ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, id),
		},
	}})
	if err != nil {
		return false, fmt.Errorf("read where samples go: %w", err)
	}
	if len(results[0].Rows) != 1 {
		return false, nil
	}
	for name, value := range exporter {
		if fmt.Sprint(results[0].Rows[0][name]) != fmt.Sprint(value) {
			return false, nil
		}
	}
	return true, nil
}
