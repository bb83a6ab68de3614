package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/node/netdev"
	"github.com/atoll-net/atoll/pkg/node/porthole"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
)

// cleanPatience bounds the wait for the node's Open vSwitch when a node is cleaned.
const cleanPatience = 30 * time.Second

// Clean removes from the node all that an agent makes there: the runtime's configuration and plugin, ports, links, portholes,
// routes, rules, sockets. No agent may run. It may be called again, and goes on where it failed.
//
// With an empty OVSDB the ports stay: their switch is gone, or is taken away as a whole.
func Clean(ctx context.Context, config Config, log *slog.Logger) error {
	// First, so that the runtime starts no pod by it any more.
	for _, name := range []string{filepath.Join(config.ConfDir, confName), filepath.Join(config.BinDir, pluginName)} {
		if err := removeWithDrafts(name); err != nil {
			return err
		}
	}
	if config.OVSDB != "" {
		if err := cleanSwitch(ctx, config, log); err != nil {
			return err
		}
	}
	keeper, err := porthole.NewKeeper()
	if err != nil {
		return err
	}
	if err := errors.Join(keeper.Clear(), netdev.Clear()); err != nil {
		return err
	}
	if err := nri.RemoveHostsDir(hostsDir(config)); err != nil {
		return err
	}
	if err := os.RemoveAll(config.RunDir); err != nil {
		return fmt.Errorf("remove %s: %w", config.RunDir, err)
	}
	return nil
}

// removeWithDrafts removes a file that replaceFile wrote, and what a crash left of one.
func removeWithDrafts(name string) error {
	drafts, err := filepath.Glob(filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"-*.draft"))
	if err != nil {
		return fmt.Errorf("list drafts of %s: %w", name, err)
	}
	for _, file := range append(drafts, name) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", file, err)
		}
	}
	return nil
}

// cleanSwitch takes the agent's ports and settings out of a switch that stays.
func cleanSwitch(ctx context.Context, config Config, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, cleanPatience)
	defer cancel()
	ovs, err := vswitch.Dial(ctx, config.OVSDB, config.Bridge, log)
	if err != nil {
		return err
	}
	defer ovs.Close()
	if err := ovs.Ready(ctx); err != nil {
		return err
	}
	pods, err := ovs.List(ctx)
	if err != nil {
		return err
	}
	own, err := ovs.Portholes(ctx)
	if err != nil {
		return err
	}
	if ports := slices.Concat(pods, own); len(ports) > 0 {
		if err := ovs.Detach(ctx, ports...); err != nil {
			return err
		}
	}
	if err := ovs.Unsample(ctx); err != nil {
		return err
	}
	return ovs.Unthrottle(ctx, newThrottle(config).dir)
}

// hostsDir has the hosts files of pods.
func hostsDir(config Config) string { return filepath.Join(config.RunDir, "hosts") }
