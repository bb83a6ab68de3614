package southbound

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// openEvery is how often it is looked whether the southbound database is held. openTime bounds the wait for ovn-northd.
const (
	openEvery = 2 * time.Second
	openTime  = 5 * time.Minute
)

// Opener opens a southbound database that was made anew to nodes, once it is complete.
type Opener struct {
	Records central.Store
	// Northbound is the database that ovn-northd follows.
	Northbound ovsdb.Config
	// Epoch is this controller's term, and Complete says whether the northbound database has all that the cluster asks for.
	Epoch    string
	Complete func() bool
	Log      *slog.Logger
}

// Run looks again and again until ctx ends.
func (o Opener) Run(ctx context.Context) {
	tick := time.NewTicker(openEvery)
	defer tick.Stop()
	said := ""
	for {
		if err := o.open(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			o.Log.Info("the southbound database is held", "waits", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// errIncomplete says what a held database waits for.
var errIncomplete = errors.New("the northbound database is not complete yet")

func (o Opener) open(ctx context.Context) error {
	record, err := o.Records.Get(ctx, central.Southbound)
	if err != nil || !record.Held {
		return nil // A record that cannot be read holds nothing up that is open.
	}
	if !o.Complete() || record.Gone() {
		return errIncomplete
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if err := ovsdb.AwaitSouthbound(bounded, o.Northbound, o.Epoch); err != nil {
		return err
	}
	// Who asked may have been complete in a database that is gone: the epoch is of the new one only since the session on the old one
	// has ended.
	if !o.Complete() {
		return errIncomplete
	}
	if err := o.Records.Open(ctx); err != nil {
		return fmt.Errorf("open the southbound database: %w", err)
	}
	o.Log.Info("the southbound database is complete and serves nodes", "cluster", record.ClusterID, "ovn-northd",
		time.Since(began).Round(time.Millisecond))
	return nil
}
