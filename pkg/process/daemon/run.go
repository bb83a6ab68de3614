// Package daemon is what Atoll's programs that run for ever have in common: parts that end together, servers that end with their
// context, and what they tell of themselves.
package daemon

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

// Part starts a part of a program under a name; it works until its context ends.
type Part func(name string, work func(context.Context) error)

// Run has start begin a program's parts. They end together: with ctx, which is no error, or when one of them, or start, fails.
// It returns when all have ended.
func Run(ctx context.Context, start func(ctx context.Context, part Part) error) error {
	// What watches that fail are about is told by us.
	group, ctx := errgroup.WithContext(klog.NewContext(ctx, logr.Discard()))
	begin := func(work func(context.Context) error) {
		group.Go(func() error {
			err := work(ctx)
			if ctx.Err() == nil {
				return err
			}
			return nil // What fails because the others end is no news.
		})
	}
	begin(func(ctx context.Context) error {
		return start(ctx, func(name string, work func(context.Context) error) {
			begin(func(ctx context.Context) error {
				if err := work(ctx); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return nil
			})
		})
	})
	return group.Wait()
}
