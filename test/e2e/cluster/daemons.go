package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/atoll-net/atoll/pkg/sandbox"
)

// Daemon is one process of the sandbox that may be killed at any moment.
type Daemon struct{ Place, Name string }

func (d Daemon) String() string { return d.Name + " of " + d.Place }

// Kill kills d and waits until its successor serves.
func (c *Cluster) Kill(t *testing.T, d Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.KillOnce(ctx, d); err != nil {
		t.Fatalf("kill %s: %v", d, err)
	}
}

// KillOnce is Kill for those who go on after a failure.
func (c *Cluster) KillOnce(ctx context.Context, d Daemon) error {
	before, err := c.Find(ctx, d)
	if err != nil {
		return err
	}
	if err := c.Box.Signal(ctx, d.Place, d.Name, syscall.SIGKILL); err != nil {
		return err
	}
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		now, err := c.Find(ctx, d)
		if err == nil && now.Ready && now.Restarts > before.Restarts {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it has not come back: %+v: %w", now, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// StartAgain returns what starts a daemon that was stopped. It happens once: when it is called, or when the test ends.
func (c *Cluster) StartAgain(t *testing.T, d Daemon) func() {
	t.Helper()
	start := sync.OnceFunc(func() {
		ctx, cancel := AfterTest()
		defer cancel()
		if err := c.Box.Start(ctx, d.Place, d.Name); err != nil {
			t.Errorf("start %s again: %v", d, err)
		}
	})
	t.Cleanup(start)
	return start
}

// Find is a daemon as its place tells of it.
func (c *Cluster) Find(ctx context.Context, d Daemon) (sandbox.Daemon, error) {
	daemons, err := c.Box.Daemons(ctx, d.Place)
	if err != nil {
		return sandbox.Daemon{}, err
	}
	i := slices.IndexFunc(daemons, func(have sandbox.Daemon) bool { return have.Name == d.Name })
	if i < 0 {
		return sandbox.Daemon{}, fmt.Errorf("there is no %s", d)
	}
	return daemons[i], nil
}
