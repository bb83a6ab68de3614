package lab

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Patience bounds each wait for the controller.
const Patience = 10 * time.Minute

// Load is how something is done many times: by so many workers as fast as they can, or so many per second.
type Load struct {
	Count     int
	Workers   int
	PerSecond int
}

// Run calls do for 0 to Count-1.
func (load Load) Run(ctx context.Context, do func(context.Context, int) error) error {
	if load.PerSecond > 0 {
		return load.paced(ctx, do)
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range load.Workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= load.Count || ctx.Err() != nil {
					return ctx.Err()
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (load Load) paced(ctx context.Context, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	tick := time.NewTicker(time.Second / time.Duration(load.PerSecond))
	defer tick.Stop()
	for i := range load.Count {
		group.Go(func() error { return do(ctx, i) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return group.Wait()
		}
	}
	return group.Wait()
}
