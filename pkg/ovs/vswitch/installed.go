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

// attempts is how often ovs-vswitchd may fail to take a port before that counts. With the kernel's datapath it fails now
// and then for no fault of the port's: a link that goes frees its number in the datapath at once, and a new port
// that gets it is taken out again when ovs-vswitchd (3.5) comes to clear up after the old one.
const attempts = 3

// Installed waits until OVN's flows for a port are in place. A row starts without that mark, so that the mark
// of an earlier port of the same name is never taken for its own.
func (c *Client) Installed(ctx context.Context, name string) error {
	woken, stop := c.Watch(name)
	defer stop()
	for attempt := 1; ; {
		port, found, err := c.Find(ctx, name)
		switch {
		case errors.Is(err, ErrUnavailable):
			// It comes back, and every row is then reported anew.
		case err != nil:
			return err
		case !found:
			return fmt.Errorf("%w: %s", ErrRemoved, name)
		case port.Problem != "" && attempt < attempts:
			attempt++
			if err := c.reconfigure(ctx); err != nil {
				return fmt.Errorf("have open vSwitch try port %s again (%s): %w", name, port.Problem, err)
			}
			continue
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
