package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// tableFlow and tableDatapath are more tables of the southbound database, ovn-sb(5).
const (
	tableFlow     = "Logical_Flow"
	tableDatapath = "Datapath_Binding"
)

// judgeStages are the stages of a switch's pipelines that judge by ACLs of ours: what a pod dials, what it sends, after
// load balancing, and what it receives. (ovn-northd(8).)
var judgeStages = []string{"ls_in_acl_eval", "ls_in_acl_after_lb_eval", "ls_out_acl_eval"}

// Judges are the logical flows of one stage that judge by ACLs.
type Judges struct {
	// Stage is the stage's name.
	Stage string
	// Flows that were made of ACLs of ours, by their cookies on every bridge.
	Flows map[uint64]nb.Origin
	// Others are cookies of the stage's other flows. A bridge has some of these if it has any switch.
	Others []uint64
}

// PortNumbers are the numbers under which flows know a logical port.
type PortNumbers struct{ Datapath, Port uint32 }

// Reader asks the southbound database and keeps nothing of it: no mirror, no monitor. It is for whoever asks seldom.
type Reader struct{ client client.Client }

// OpenReader connects to any of the servers.
func OpenReader(ctx context.Context, cfg Config) (*Reader, error) {
	c, err := connectSouthbound(ctx, cfg, map[string]model.Model{tableChassis: &chassisRow{}})
	if err != nil {
		return nil, err
	}
	return &Reader{c}, nil
}

// Close ends the connection.
func (r *Reader) Close() { r.client.Close() }

// Judges reads which logical flows judge by ACLs, stage by stage.
func (r *Reader) Judges(ctx context.Context) ([]Judges, error) {
	var ops []ovsdb.Operation
	for _, stage := range judgeStages {
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableFlow, Columns: []string{"_uuid", "match"},
			Where: []ovsdb.Condition{includes("external_ids", "stage-name", stage)},
		})
	}
	results, err := r.ask(ctx, ops)
	if err != nil {
		return nil, fmt.Errorf("read logical flows: %w", err)
	}
	out := make([]Judges, len(judgeStages))
	for i, stage := range judgeStages {
		out[i] = Judges{Stage: stage, Flows: map[uint64]nb.Origin{}}
		for _, row := range results[i].Rows {
			cookie, err := cookieOf(row["_uuid"])
			if err != nil {
				return nil, err
			}
			text, _ := row["match"].(string)
			if origin, ours := nb.OriginOf(text); ours {
				out[i].Flows[cookie] = origin
			} else {
				out[i].Others = append(out[i].Others, cookie)
			}
		}
	}
	return out, nil
}

// Ports reads the names of the logical ports that were asked for on a chassis.
func (r *Reader) Ports(ctx context.Context, chassis string) (map[PortNumbers]string, error) {
	results, err := r.ask(ctx, []ovsdb.Operation{
		{Op: ovsdb.OperationSelect, Table: tableDatapath, Columns: []string{"_uuid", "tunnel_key"}, Where: []ovsdb.Condition{}},
		{
			Op: ovsdb.OperationSelect, Table: tableBinding, Columns: []string{"logical_port", "datapath", "tunnel_key"},
			Where: []ovsdb.Condition{includes("options", "requested-chassis", chassis)},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("read port bindings: %w", err)
	}
	datapaths := map[any]uint32{}
	for _, row := range results[0].Rows {
		datapaths[row["_uuid"]] = number(row["tunnel_key"])
	}
	out := map[PortNumbers]string{}
	for _, row := range results[1].Rows {
		if name, ok := row["logical_port"].(string); ok {
			out[PortNumbers{datapaths[row["datapath"]], number(row["tunnel_key"])}] = name
		}
	}
	return out, nil
}

func (r *Reader) ask(ctx context.Context, ops []ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	return ask(ctx, r.client, ops)
}

func ask(ctx context.Context, c client.Client, ops []ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := c.Transact(ctx, ops...)
	if err != nil {
		return nil, err
	}
	for _, result := range results {
		if result.Error != "" {
			return nil, errors.New(strings.TrimSpace(result.Error + " " + result.Details))
		}
	}
	if len(results) < len(ops) {
		return nil, fmt.Errorf("%d answers to %d questions", len(results), len(ops))
	}
	return results, nil
}

func includes(column, key, value string) ovsdb.Condition {
	return ovsdb.Condition{Column: column, Function: ovsdb.ConditionIncludes, Value: ovsdb.OvsMap{GoMap: map[any]any{key: value}}}
}

// cookieOf is the cookie of a logical flow's flows: the first 32 bits of its UUID. (ovn-architecture(7).)
func cookieOf(id any) (uint64, error) {
	uuid, ok := id.(ovsdb.UUID)
	if !ok || len(uuid.GoUUID) < 8 {
		return 0, fmt.Errorf("read logical flow: its UUID is %v", id)
	}
	cookie, err := strconv.ParseUint(uuid.GoUUID[:8], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("read logical flow: %w", err)
	}
	return cookie, nil
}

// number is a number of the database as JSON has it.
func number(v any) uint32 {
	switch n := v.(type) {
	case float64:
		return uint32(n)
	case int:
		return uint32(n)
	}
	return 0
}
