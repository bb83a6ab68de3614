package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/ovs/unixctl"
)

// appctlOptions are the flags of atoll appctl.
type appctlOptions struct {
	nodeOptions
	target string
}

func appctlCommand() *cobra.Command {
	var o appctlOptions
	cmd := &cobra.Command{
		Use:   "appctl (--node NODE | --pod POD) [-t DAEMON] [--write] COMMAND ARGS...",
		Short: "Send a command to a daemon of a node's Open vSwitch or OVN, by way of the API server",
		Long: `Send COMMAND to a daemon of a node, as ovs-appctl does, and print the answer. The API server and the
node's atoll-agent connect it: a kubeconfig is enough, and no program has to be installed. The command
list-commands lists a daemon's commands. Those that are known to change nothing are allowed.

` + nodeRights + ` All other commands need it: they may end a daemon, flush connections, or send packets.

The flags of this command come first. From COMMAND on, all is for the daemon. Exit status: 2 if the
daemon refuses, or could not be asked.`,
		Example: `  atoll appctl --pod red/web-0 dpif/show
  atoll appctl --node n1 -t ovn-controller connection-status
  atoll appctl --pod red/web-0 dpctl/dump-conntrack`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.do(cmd.Context(), args, cmd.OutOrStdout()); err != nil {
				return fmt.Errorf("appctl: %w", err)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	o.flags(f)
	f.StringVarP(&o.target, "target", "t", unixctl.Switch, "which daemon: "+strings.Join(unixctl.Daemons(), ", "))
	// What follows the command is the daemon's.
	f.SetInterspersed(false)
	o.complete(cmd)
	_ = cmd.RegisterFlagCompletionFunc("target",
		cobra.FixedCompletions(unixctl.Daemons(), cobra.ShellCompDirectiveNoFileComp)) // The flag is there.
	return cmd
}

// do sends the command.
func (o appctlOptions) do(ctx context.Context, args []string, out io.Writer) error {
	if !slices.Contains(unixctl.Daemons(), o.target) {
		return fmt.Errorf("--target: %q is none of %s", o.target, strings.Join(unixctl.Daemons(), ", "))
	}
	q, err := o.on(ctx, o.target, "")
	if err != nil {
		return err
	}
	conn, err := connect.DialTunnel(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answer, err := unixctl.Call(ctx, conn, args[0], args[1:]...)
	if refused, ok := errors.AsType[*unixctl.RefusedError](err); ok {
		return fmt.Errorf("%s: %s", q, strings.TrimSpace(printableText(refused.What)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", q, err)
	}
	if _, err := io.WriteString(out, printableText(answer)); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}
