package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/atoll-net/atoll/pkg/controller/engine"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// cleanPatience is how long the database may be out of reach: a restart of it, or the election of a leader, takes less.
const cleanPatience = 15 * time.Second

// clean deletes what controllers have written to a northbound database that is not Atoll's and stays when Atoll goes.
func clean(ctx context.Context, database ovsdb.Config, signer *certs.Signer, log *slog.Logger) error {
	if signer != nil {
		// For addresses that begin with ssl: alone. It ends with the process.
		go signer.Follow(ctx)
	}
	// What it prints last is shown to whoever uninstalls: the error, and nothing of the tries before it.
	database.Log = slog.New(slog.DiscardHandler)
	rows, err := engine.Erasure{Database: database, Epoch: "clean_" + uuid.NewString(), Patience: cleanPatience}.Run(ctx)
	if err != nil {
		return err
	}
	log.Info("the database has no row of Atoll's any more", "rows", rows)
	return nil
}
