package vswitch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// Unlike are the external_ids in which a port of the database differs from another one of its name, each as KEY=VALUE: what
// should be there, and what is. Keys that others write do not count, and neither do those of want that are empty.
func (p Port) Unlike(want Port) (should, is []string) {
	have := p.externalIDs()
	wanted := want.externalIDs()
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value := wanted[key]; value != "" && have[key] != value {
			should = append(should, key+"="+value)
			if have[key] != "" {
				is = append(is, key+"="+have[key])
			}
		}
	}
	return should, is
}

// Mend gives a port that is on the bridge the external_ids that it should have, and leaves those that others wrote, and the link.
// One that is not ours any more, by its row in neither table, is an error.
func (c *Client) Mend(ctx context.Context, want Port) error {
	if held, err := c.Held(ctx, want); err != nil {
		return err
	} else if !held {
		return fmt.Errorf("mend port %s: it is not there, or not ours", want.Name)
	}
	ids := want.externalIDs()
	maps.DeleteFunc(ids, func(_, value string) bool { return value == "" })
	var ops []ovsdb.Operation
	for table, set := range map[string]map[string]string{tableInterface: ids, tablePort: want.owner()} {
		encoded, err := ovsdb.NewOvsMap(set)
		if err != nil {
			return fmt.Errorf("encode external_ids: %w", err)
		}
		keys := ovsdb.OvsSet{}
		for _, key := range slices.Sorted(maps.Keys(set)) {
			keys.GoSet = append(keys.GoSet, key)
		}
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: table,
			Where: []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, want.Name)},
			// A key that is there keeps its value when it is inserted. (RFC 7047, section 5.1.)
			Mutations: []ovsdb.Mutation{
				*ovsdb.NewMutation("external_ids", ovsdb.MutateOperationDelete, keys),
				*ovsdb.NewMutation("external_ids", ovsdb.MutateOperationInsert, encoded),
			},
		})
	}
	_, err := c.transact(ctx, ops)
	return err
}

// Held reports whether a port of a name is on the bridge and its owner's, even if its interface does not say so any more.
func (c *Client) Held(ctx context.Context, want Port) (bool, error) {
	if found, has, err := c.Find(ctx, want.Name); err != nil || has && found.Sandbox == want.Sandbox && found.Porthole == want.Porthole {
		return err == nil, err
	}
	row := portRow{Name: want.Name}
	if err := c.ovs.Get(ctx, &row); errors.Is(err, client.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read port %s: %w", want.Name, err)
	}
	return row.ExternalIDs[keySandbox] == want.Sandbox && row.ExternalIDs[keyPorthole] == want.Porthole, nil
}
