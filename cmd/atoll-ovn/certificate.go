package main

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/pkg/kube/certs"
)

// withCertificate does work while a certificate is asked for and renewed beside it. Until the files are there, work waits for them.
func withCertificate(ctx context.Context, c certs.KeeperConfig, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := certs.Keep(ctx, c); ctx.Err() == nil {
			return err
		}
		return nil // it ends with the work
	})
	group.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return group.Wait()
}
