package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"github.com/atoll-net/atoll/pkg/ovn/nb"
)

// ErrEpoch: the database is not in the epoch that was asked for.
var ErrEpoch = errors.New("the database is of another epoch")

// askFollowed is the pause between two looks at whether ovn-northd has followed.
const askFollowed = 200 * time.Millisecond

// globalRow is what is read of NB_Global here.
type globalRow struct {
	UUID string `ovsdb:"_uuid"`
	NB   int    `ovsdb:"nb_cfg"`
	SB   int    `ovsdb:"sb_cfg"`
}

// AwaitSouthbound waits until ovn-northd has brought into the southbound database all that the northbound one has now. (ovn-nb(5): nb_cfg,
// sb_cfg.) The database must be in the epoch (ErrEpoch).
func AwaitSouthbound(ctx context.Context, cfg Config, epoch string) error {
	if cfg.Find != nil {
		var err error
		if cfg.Addresses, err = cfg.Find(ctx); err != nil {
			return fmt.Errorf("find %s: %w", nb.DatabaseName, err)
		}
	}
	dbModel, err := model.NewClientDBModel(nb.DatabaseName, map[string]model.Model{nb.TableGlobal.String(): &globalRow{}})
	if err != nil {
		return fmt.Errorf("build model of %s: %w", nb.DatabaseName, err)
	}
	log := logr.FromSlogHandler(cfg.Log.Handler())
	options := []client.Option{client.WithLogger(&log), client.WithTLSConfig(cfg.TLS), client.WithLeaderOnly(len(cfg.Addresses) > 1)}
	for _, a := range cfg.Addresses {
		options = append(options, client.WithEndpoint(a))
	}
	c, err := client.NewOVSDBClient(dbModel, options...)
	if err != nil {
		return fmt.Errorf("set up client of %s: %w", nb.DatabaseName, err)
	}
	defer c.Close()
	if err := c.Connect(ctx); err != nil {
		return fmt.Errorf("connect to %s: %w", nb.DatabaseName, err)
	}
	return awaitFollowed(ctx, c, epoch)
}

func awaitFollowed(ctx context.Context, c client.Client, epoch string) error {
	ours := []ovsdb.Condition{includes("external_ids", nb.KeyEpoch, epoch)}
	look := ovsdb.Operation{Op: ovsdb.OperationSelect, Table: nb.TableGlobal.String(), Columns: []string{"nb_cfg", "sb_cfg"}, Where: ours}
	results, err := ask(ctx, c, []ovsdb.Operation{look})
	if err != nil {
		return fmt.Errorf("read NB_Global: %w", err)
	}
	if len(results[0].Rows) == 0 {
		return ErrEpoch
	}
	wanted := number(results[0].Rows[0]["nb_cfg"]) + 1
	if _, err := ask(ctx, c, []ovsdb.Operation{{
		Op: ovsdb.OperationMutate, Table: nb.TableGlobal.String(), Where: ours,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("nb_cfg", ovsdb.MutateOperationAdd, 1)},
	}}); err != nil {
		return fmt.Errorf("write NB_Global: %w", err)
	}
	tick := time.NewTicker(askFollowed)
	defer tick.Stop()
	for {
		results, err := ask(ctx, c, []ovsdb.Operation{look})
		if err != nil {
			return fmt.Errorf("read NB_Global: %w", err)
		}
		if len(results[0].Rows) == 0 {
			return ErrEpoch
		}
		if number(results[0].Rows[0]["sb_cfg"]) >= wanted {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for ovn-northd: %w", ctx.Err())
		case <-tick.C:
		}
	}
}
