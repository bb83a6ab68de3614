// Atoll-ovn runs the daemons of OVN and Open vSwitch in containers: each subcommand is the first process of one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/process/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "atoll-ovn:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "atoll-ovn",
		Version:       build.Version(),
		Short:         "Runs the daemons of OVN and Open vSwitch",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(databaseCommand(), northdCommand(), readyCommand(), endedCommand(), backupCommand())
	cmd.AddCommand(nodeCommands()...)
	return cmd
}
