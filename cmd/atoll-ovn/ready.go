package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/central"
	"github.com/atoll-net/atoll/pkg/chassis"
)

// readyCommand is for probes.
func readyCommand() *cobra.Command {
	dirs, run, live := chassis.Directories{}, "", false
	members, node := []string{"nb", "sb", "northd"}, []string{chassis.PartDatabase, chassis.PartSwitch, chassis.PartController}
	cmd := &cobra.Command{
		Use:       "ready PART",
		Short:     "Succeeds when a part of a node serves, or a part of a member of the central databases",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: slices.Concat(members, node),
		RunE: func(cmd *cobra.Command, args []string) error {
			part := args[0]
			switch {
			case slices.Contains(node, part) && live:
				return chassis.Check(cmd.Context(), dirs, part, chassis.Lives)
			case slices.Contains(node, part):
				return chassis.Check(cmd.Context(), dirs, part, chassis.Serves)
			case live:
				return fmt.Errorf("read --live: %s is not asked for that: a member that waits for the others is well", part)
			case part == "northd":
				return central.NorthdReady(cmd.Context(), run)
			}
			kind, err := central.ParseKind(part)
			if err != nil {
				return err
			}
			return central.Ready(cmd.Context(), run, kind)
		},
	}
	flags := cmd.Flags()
	runDirectories(flags, &dirs)
	flags.StringVar(&run, "run", "/run/ovn", "directory of the sockets of a member")
	flags.BoolVar(&live, "live", false, "only ask whether a node's daemon lives")
	return cmd
}

// endedCommand is for the hook that is called before a container is told to end.
func endedCommand() *cobra.Command {
	dirs, within := chassis.Directories{}, time.Duration(0)
	cmd := &cobra.Command{
		Use:       "ended PART",
		Short:     "Waits until the daemon of a part of this node has ended, if it runs",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{chassis.PartDatabase, chassis.PartSwitch, chassis.PartController},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return chassis.AwaitEnd(ctx, dirs, args[0])
		},
	}
	flags := cmd.Flags()
	runDirectories(flags, &dirs)
	flags.DurationVar(&within, "within", 20*time.Second, "how long to wait")
	return cmd
}
