// Command atoll-sandbox makes a real Kubernetes cluster with OVN and Atoll on one machine. See docs/contributing/sandbox.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/process/build"
	"github.com/atoll-net/atoll/test/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return
	}
	stop()
	// A command that was run in a place has said itself what is wrong; its status is ours.
	if status := statusError(0); errors.As(err, &status) {
		os.Exit(int(status))
	}
	fmt.Fprintln(os.Stderr, "atoll-sandbox:", err)
	os.Exit(1)
}

// statusError is the failure of a command that a person ran in a place.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("the command ended with status %d", int(e)) }

func root() *cobra.Command {
	opts := &sandbox.Options{}
	cmd := &cobra.Command{
		Use:     "atoll-sandbox",
		Version: build.Version(),
		Short:   "A real Kubernetes cluster with OVN and Atoll on one machine",
		Long: `A real Kubernetes cluster with OVN and Atoll on one machine, without Docker and kernel modules.

Its places are the control plane (central), the nodes (n1, n2, ...), and the rest of the world (outside). Each is a set of
Linux namespaces.

The flags below may stand before a command or after it. kubectl, ovn-nbctl and ovn-sbctl have flags of their own: with
these, write --state before the command or right after it, and --name before it.`,
		// Our flags are read before a command that hands its own over to a tool.
		TraverseChildren: true,
		SilenceUsage:     true,
		SilenceErrors:    true,
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&opts.State, "state", sandbox.DefaultState, "directory for everything that goes with the sandbox")
	flags.StringVar(&opts.Name, "name", sandbox.DefaultName, "name, with which its network namespaces and cgroups begin")
	cmd.AddCommand(
		upCommand(opts), partsCommand(opts), downCommand(opts), statusCommand(opts),
		kubectlCommand(opts), ovnCommand(opts, "ovn-nbctl"), ovnCommand(opts, "ovn-sbctl"),
		nodeCommand(opts),
		placeCommand(opts, sandbox.Central, "the control plane", "the control plane"),
		placeCommand(opts, sandbox.Outside, "what is outside of the cluster", "the outside"),
		forwardCommand(opts),
		killCommand(opts),
		daemonCommand(opts, "restart", "Stop a daemon and start it again", (*sandbox.Sandbox).Restart),
		daemonCommand(opts, "stop", "End a daemon until start", (*sandbox.Sandbox).Stop),
		daemonCommand(opts, "start", "Start a daemon that was stopped", (*sandbox.Sandbox).Start),
		logsCommand(opts),
		initCommand(), bridgesCommand(), relayCommand(),
	)
	return cmd
}
