package ovsdb

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Sampled says whose the samples are that the switches of OVN take.
type Sampled struct {
	// Points are the ACLs of ours, by the first 32 bits of their UUIDs: their observation points.
	Points map[uint32]nb.Origin
	// Switches are the names of logical switches, by the keys of their datapaths.
	Switches map[uint32]string
	// Ports are the names of the logical ports of one chassis, by their addresses on their datapaths.
	Ports map[PortAddress]string
}

// PortAddress is an address on a datapath.
type PortAddress struct {
	Datapath uint32
	Address  netip.Addr
}

// Sampled reads whose samples of a chassis are. A logical flow names the ACL that it was made of in its stage-hint. (ovn-sb(5),
// Logical_Flow.)
func (r *Reader) Sampled(ctx context.Context, chassis string) (Sampled, error) {
	var ops []ovsdb.Operation
	for _, stage := range judgeStages {
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableFlow, Columns: []string{"match", "external_ids"},
			Where: []ovsdb.Condition{includes("external_ids", "stage-name", stage)},
		})
	}
	ops = append(ops,
		ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableDatapath, Columns: []string{"_uuid", "tunnel_key", "external_ids"}, Where: []ovsdb.Condition{},
		},
		ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableBinding, Columns: []string{"logical_port", "datapath", "mac"},
			Where: []ovsdb.Condition{includes("options", "requested-chassis", chassis)},
		})
	results, err := r.ask(ctx, ops)
	if err != nil {
		return Sampled{}, fmt.Errorf("read whose samples are: %w", err)
	}
	out := Sampled{Points: map[uint32]nb.Origin{}, Switches: map[uint32]string{}, Ports: map[PortAddress]string{}}
	for _, stage := range results[:len(judgeStages)] {
		for _, row := range stage.Rows {
			text, _ := row["match"].(string)
			origin, ours := nb.OriginOf(text)
			point, err := strconv.ParseUint(valueOf(row["external_ids"], "stage-hint"), 16, 32)
			if ours && err == nil {
				out.Points[uint32(point)] = origin
			}
		}
	}
	datapaths := map[any]uint32{}
	for _, row := range results[len(judgeStages)].Rows {
		datapaths[row["_uuid"]] = number(row["tunnel_key"])
		if valueOf(row["external_ids"], "logical-switch") != "" {
			out.Switches[number(row["tunnel_key"])] = valueOf(row["external_ids"], "name")
		}
	}
	for _, row := range results[len(judgeStages)+1].Rows {
		name, _ := row["logical_port"].(string)
		for _, text := range Texts(row, "mac") {
			for word := range strings.FieldsSeq(text) {
				// The first word is the MAC address.
				if address, err := netip.ParseAddr(word); err == nil {
					out.Ports[PortAddress{datapaths[row["datapath"]], address}] = name
				}
			}
		}
	}
	return out, nil
}

// valueOf is the value at a key of a map column; empty for none.
func valueOf(column any, key string) string {
	if m, ok := column.(ovsdb.OvsMap); ok {
		text, _ := m.GoMap[key].(string)
		return text
	}
	return ""
}
