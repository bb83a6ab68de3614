package vswitch

import (
	"context"
	"errors"
	"fmt"
)

// ErrNotInstalled wraps the error of an Installed that waited in vain.
var ErrNotInstalled = errors.New("OVN has not set up the port")

// ErrRemoved wraps the error of an Installed whose port is not there any more.
var ErrRemoved = errors.New("port was removed meanwhile")

// Installed waits until OVN's flows for a port are in place. A row starts without that mark, so that the mark
// of an earlier port of the same name is never taken for its own.
func (c *Client) Installed(ctx context.Context, name string) error {
	woken, stop := c.Watch(name)
	defer stop()
	for {
		port, found, err := c.Find(ctx, name)
		switch {
		case errors.Is(err, ErrUnavailable):
			// It comes back, and every row is then reported anew.
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("%w: %s", ErrRemoved, name)
		case port.Problem != "":
			return fmt.Errorf("open vSwitch cannot use port %s: %s", name, port.Problem)
		case port.Installed:
			return nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return fmt.Errorf("%w %s: %w", ErrNotInstalled, name, context.Cause(ctx))
		}
	}
}
