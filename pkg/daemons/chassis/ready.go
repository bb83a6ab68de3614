package chassis

import (
	"context"
	"fmt"
)

// Health is what a probe asks of a daemon.
type Health int

const (
	// Lives: its loop turns. Nothing else is a reason to end a daemon.
	Lives Health = iota
	// Serves: it does its work, for which it may need others.
	Serves
)

// The node's daemons, as the subcommands of atoll-ovn that run them are called.
const (
	PartDatabase   = "switch-database"
	PartSwitch     = "switch"
	PartController = "controller"
)

// Check succeeds if a part of the node is in a state of health. The error says why it is not.
func Check(ctx context.Context, dirs Directories, part string, health Health) error {
	daemon, err := daemonOf(part)
	if err != nil {
		return err
	}
	if _, err := ask(ctx, dirs.control(daemon), "version"); err != nil || health == Lives {
		return err
	}
	switch part {
	case PartDatabase:
		return serves(ctx, dirs)
	case PartController:
		status, err := ask(ctx, dirs.control(daemon), "connection-status")
		if err == nil && status != "connected" {
			err = fmt.Errorf("ovn-controller is %s to the southbound database", status)
		}
		return err
	default:
		return nil
	}
}

// daemonOf is the daemon that a part of the node runs.
func daemonOf(part string) (string, error) {
	daemon, known := map[string]string{PartDatabase: databaseDaemon, PartSwitch: switchDaemon, PartController: controllerDaemon}[part]
	if !known {
		return "", fmt.Errorf("there is no %q on a node, only %s, %s and %s", part, PartDatabase, PartSwitch, PartController)
	}
	return daemon, nil
}
