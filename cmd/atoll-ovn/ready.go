package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/daemons/chassis"
)

// probes ask the daemons of this container's node, by their control sockets.
type probes struct {
	dirs chassis.Directories
	// run is the directory of the sockets of a member of the central databases.
	run string
}

func memberParts() []string { return []string{"nb", "sb", "northd"} }

func nodeParts() []string {
	return []string{chassis.PartDatabase, chassis.PartSwitch, chassis.PartController}
}

// ready succeeds when a part serves. The error says why it does not.
func (p *probes) ready(ctx context.Context, part string) error {
	switch {
	case slices.Contains(nodeParts(), part):
		return chassis.Check(ctx, p.dirs, part, chassis.Serves)
	case part == "northd":
		return central.NorthdReady(ctx, p.run)
	}
	kind, err := central.ParseKind(part)
	if err != nil {
		return err
	}
	return central.Ready(ctx, p.run, kind)
}

// live succeeds when the daemon of a node's part answers.
func (p *probes) live(ctx context.Context, part string) error {
	if !slices.Contains(nodeParts(), part) {
		return fmt.Errorf("ask whether %s lives: it is not asked for that: a member that waits for the others is well", part)
	}
	return chassis.Check(ctx, p.dirs, part, chassis.Lives)
}

// readyCommand is for people, and for probes that cannot dial.
func readyCommand() *cobra.Command {
	p, live := &probes{}, false
	cmd := &cobra.Command{
		Use:       "ready PART",
		Short:     "Succeeds when a part of a node serves, or a part of a member of the central databases",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: slices.Concat(memberParts(), nodeParts()),
		RunE: func(cmd *cobra.Command, args []string) error {
			if live {
				return p.live(cmd.Context(), args[0])
			}
			return p.ready(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	runDirectories(flags, &p.dirs)
	flags.StringVar(&p.run, "run", "/run/ovn", "directory of the sockets of a member")
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
