package plan

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// Operation is one operation of a transaction.
type Operation = ovsdb.Operation

// Encoder writes units as operations for a server with a known schema.
type Encoder struct {
	schema ovsdb.DatabaseSchema
	// columns are those of each table that has been written.
	columns map[nb.Table][]column
}

// NewEncoder makes an encoder for the server's schema.
func NewEncoder(schema ovsdb.DatabaseSchema) Encoder {
	return Encoder{schema: schema, columns: map[nb.Table][]column{}}
}

// EpochGuard is the operation that makes a transaction fail unless the database is in the epoch: a controller
// that has lost its leadership to another cannot write. global is the UUID of the NB_Global row. The operation
// selects the row by UUID and epoch and waits, for no time at all, for the selection to be that very row.
// (RFC 7047 section 5.2.6.)
func (e Encoder) EpochGuard(epoch, global string) (ovsdb.Operation, error) {
	value, err := ovsdb.NewOvsMap(map[string]string{nb.KeyEpoch: epoch})
	if err != nil {
		return ovsdb.Operation{}, fmt.Errorf("encode epoch: %w", err)
	}
	timeout := 0
	return ovsdb.Operation{
		Op:      ovsdb.OperationWait,
		Table:   nb.TableGlobal.String(),
		Timeout: &timeout,
		Where:   []ovsdb.Condition{ovsdb.NewCondition("external_ids", ovsdb.ConditionIncludes, value)},
		Columns: []string{"_uuid"},
		Until:   string(ovsdb.WaitConditionEqual),
		Rows:    []ovsdb.Row{{"_uuid": ovsdb.UUID{GoUUID: global}}},
	}, nil
}

// SetEpoch gives the operations that put the database into an epoch, with the options of OVN as a whole that our rows need; the
// NB_Global row is made if a fresh database has none, global is nil. What an option was before is remembered in it. Further options are
// set, too,
// and not remembered: they are for a database that is Atoll's alone.
func (e Encoder) SetEpoch(epoch string, global *nb.Global, further map[string]string) []ovsdb.Operation {
	options := map[any]any{nb.OptionInvalid: nb.InvalidUnmatched}
	pairs := []pair{{columnIDs, nb.KeyEpoch, epoch}, {columnOptions, nb.OptionInvalid, nb.InvalidUnmatched}}
	for _, key := range slices.Sorted(maps.Keys(further)) {
		options[key] = further[key]
		pairs = append(pairs, pair{columnOptions, key, further[key]})
	}
	if global == nil {
		return []ovsdb.Operation{{Op: ovsdb.OperationInsert, Table: nb.TableGlobal.String(), UUIDName: "global", Row: ovsdb.Row{
			columnIDs: pairs[0].asMap(), columnOptions: ovsdb.OvsMap{GoMap: options},
		}}}
	}
	if before := nb.InvalidBefore(global); before != "" {
		pairs = append(pairs, pair{columnIDs, nb.KeyInvalidBefore, before})
	}
	var changes []ovsdb.Mutation
	for _, p := range pairs {
		changes = append(changes, p.gone(), p.there())
	}
	return []ovsdb.Operation{{Op: ovsdb.OperationMutate, Table: nb.TableGlobal.String(), Where: byUUID(global.UUID), Mutations: changes}}
}

// LeaveGlobal gives the operation that takes what is ours out of the NB_Global row, and puts back what SetEpoch remembered.
func (e Encoder) LeaveGlobal(global *nb.Global) ovsdb.Operation {
	option := pair{columnOptions, nb.OptionInvalid, global.ExternalIDs[nb.KeyInvalidBefore]}
	changes := []ovsdb.Mutation{pair{columnIDs, nb.KeyEpoch, ""}.gone(), pair{columnIDs, nb.KeyInvalidBefore, ""}.gone(), option.gone()}
	if option.value != "" {
		changes = append(changes, option.there())
	}
	return ovsdb.Operation{Op: ovsdb.OperationMutate, Table: nb.TableGlobal.String(), Where: byUUID(global.UUID), Mutations: changes}
}

// Columns of NB_Global.
const (
	columnIDs     = "external_ids"
	columnOptions = "options"
)

// pair is a pair of a map column.
type pair struct{ column, key, value string }

func (p pair) asMap() ovsdb.OvsMap { return ovsdb.OvsMap{GoMap: map[any]any{p.key: p.value}} }

// there is the mutation that inserts the pair, unless there is another with its key, and gone the one that deletes whatever is at its key.
func (p pair) there() ovsdb.Mutation {
	return *ovsdb.NewMutation(p.column, ovsdb.MutateOperationInsert, p.asMap())
}

func (p pair) gone() ovsdb.Mutation {
	return *ovsdb.NewMutation(p.column, ovsdb.MutateOperationDelete, ovsdb.OvsSet{GoSet: []any{p.key}})
}

// Operations writes units as the operations of one transaction. Elements that join or leave the same set
// become one mutation, so that the set itself is never rewritten.
func (e Encoder) Operations(units []Unit) ([]ovsdb.Operation, error) {
	var ops, deletes []ovsdb.Operation
	joins, leaves := newBySet(), newBySet()
	for _, u := range units {
		for _, row := range u.Inserts {
			values, err := e.row(row, nil)
			if err != nil {
				return nil, fmt.Errorf("encode %s of %s: %w", row.Table(), u.Owner, err)
			}
			ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationInsert, Table: row.Table().String(), UUID: row.ID(), Row: values})
		}
		for _, up := range u.Updates {
			values, err := e.row(up.Row, up.Columns)
			if err != nil {
				return nil, fmt.Errorf("encode %s of %s: %w", up.Row.Table(), u.Owner, err)
			}
			ops = append(ops, ovsdb.Operation{Op: ovsdb.OperationUpdate, Table: up.Row.Table().String(), Where: byUUID(up.Row.ID()), Row: values})
		}
		for _, m := range u.Joins {
			joins.add(m)
		}
		for _, m := range u.Leaves {
			leaves.add(m)
		}
		for _, ref := range u.Deletes {
			deletes = append(deletes, ovsdb.Operation{Op: ovsdb.OperationDelete, Table: ref.Table.String(), Where: byUUID(ref.UUID)})
		}
	}
	leaves.dropReplaced(joins)
	for _, step := range []struct {
		sets *bySet
		how  ovsdb.Mutator
	}{{leaves, ovsdb.MutateOperationDelete}, {joins, ovsdb.MutateOperationInsert}} {
		for _, s := range step.sets.order {
			ops = append(ops, ovsdb.Operation{
				Op: ovsdb.OperationMutate, Table: s.Row.Table.String(), Where: byUUID(s.Row.UUID),
				Mutations: mutations(s, step.how, step.sets.values[s]),
			})
		}
	}
	return append(ops, deletes...), nil
}

// mutations encodes what joins or leaves a set: UUIDs, values, or pairs of a map. Before a pair joins, whatever is at its key is
// taken out: an insertion changes no key that is there. (RFC 7047 section 5.1.)
func mutations(of nb.Set, how ovsdb.Mutator, values []string) []ovsdb.Mutation {
	elements := make([]any, 0, len(values))
	if !of.IsMap() {
		for _, v := range values {
			if of.IsValue() {
				elements = append(elements, v)
			} else {
				elements = append(elements, ovsdb.UUID{GoUUID: v})
			}
		}
		return []ovsdb.Mutation{*ovsdb.NewMutation(of.Column, how, ovsdb.OvsSet{GoSet: elements})}
	}
	pairs := make(map[any]any, len(values))
	for _, v := range values {
		key, value := nb.SplitPair(v)
		elements = append(elements, key)
		pairs[key] = value
	}
	out := []ovsdb.Mutation{*ovsdb.NewMutation(of.Column, how, ovsdb.OvsMap{GoMap: pairs})}
	if how == ovsdb.MutateOperationInsert {
		out = slices.Insert(out, 0, *ovsdb.NewMutation(of.Column, ovsdb.MutateOperationDelete, ovsdb.OvsSet{GoSet: elements}))
	}
	return out
}

// row encodes the columns of a row; nil means all that are not empty.
func (e Encoder) row(r nb.Row, columns []string) (ovsdb.Row, error) {
	v := reflect.ValueOf(r).Elem()
	list := e.columns[r.Table()]
	if list == nil {
		list = columnsOf(v.Type())
		e.columns[r.Table()] = list
	}
	table := e.schema.Table(r.Table().String())
	if table == nil {
		return nil, fmt.Errorf("the server has no table %s", r.Table())
	}
	out := ovsdb.Row{}
	for _, c := range list {
		field := v.Field(c.field)
		if (columns != nil || empty(field)) && !slices.Contains(columns, c.name) {
			continue
		}
		schema := table.Column(c.name)
		if schema == nil {
			return nil, fmt.Errorf("the server has no column %s", c.name)
		}
		value, err := ovsdb.NativeToOvs(schema, field.Interface())
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		out[c.name] = value
	}
	return out, nil
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

func byUUID(uuid string) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: uuid})}
}

// bySet gathers elements by the set that they join or leave, in the order in which the sets came.
type bySet struct {
	order  []nb.Set
	values map[nb.Set][]string
	seen   map[nb.Member]bool
}

func newBySet() *bySet { return &bySet{values: map[nb.Set][]string{}, seen: map[nb.Member]bool{}} }

// dropReplaced leaves away the pairs of maps at whose keys others join: that takes them out. It halves what is written when the
// value of a pair changes. What leaves alone goes with its value, so that it cannot take away what somebody else has put there.
func (b *bySet) dropReplaced(joins *bySet) {
	b.order = slices.DeleteFunc(b.order, func(s nb.Set) bool {
		if !s.IsMap() || len(joins.values[s]) == 0 {
			return false
		}
		comes := make(map[string]bool, len(joins.values[s]))
		for _, pair := range joins.values[s] {
			key, _ := nb.SplitPair(pair)
			comes[key] = true
		}
		b.values[s] = slices.DeleteFunc(b.values[s], func(pair string) bool { key, _ := nb.SplitPair(pair); return comes[key] })
		return len(b.values[s]) == 0
	})
}

func (b *bySet) add(m nb.Member) {
	if b.seen[m] {
		return
	}
	b.seen[m] = true
	if _, ok := b.values[m.Set]; !ok {
		b.order = append(b.order, m.Set)
	}
	b.values[m.Set] = append(b.values[m.Set], m.Value)
}
