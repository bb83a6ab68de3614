package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
)

// vsctlOptions are the flags of atoll vsctl.
type vsctlOptions struct {
	nodeOptions
	output string
}

func vsctlCommand() *cobra.Command {
	var o vsctlOptions
	cmd := &cobra.Command{
		Use:   "vsctl (--node NODE | --pod POD) [--write] [-o FORMAT] [--kubeconfig FILE] ARGS...",
		Short: "Run ovs-vsctl on a node's Open vSwitch, by way of the API server",
		Long: `Run ovs-vsctl, which must be installed on this machine, with ARGS, on the database of a node's Open
vSwitch. The API server and the node's atoll-agent connect it: a kubeconfig is enough. The connection
only reads.

` + nodeRights + ` What OVN and Atoll own is put back within moments.

"-o table show" or "-o json show" prints each port with its pod and its error. This needs no program.

The flags of this command come first. From the first argument on that is none of them, all are for
ovs-vsctl. Exit status: that of ovs-vsctl; 2 if it could not be run.`,
		Example: `  atoll vsctl --node n1 show
  atoll vsctl --pod red/web-0 -o table show
  atoll vsctl --node n1 --columns=name,error list Interface`,
		// Most flags are not ours.
		DisableFlagParsing: true,
	}
	o.flags(cmd.Flags())
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "of show alone: table or json (default: what ovs-vsctl prints)")
	o.completeOwn(cmd)
	cmd.RunE = o.run("vsctl", func(cmd *cobra.Command, rest []string) error {
		return o.do(cmd.Context(), rest, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	return cmd
}

// do runs the program on a socket that leads to the node's database, or prints a table of our own.
func (o vsctlOptions) do(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) error {
	path := ""
	switch {
	case o.output == "":
		var err error
		if path, err = lookPath("ovs-vsctl"); err != nil {
			return fmt.Errorf("%w; without it: atoll vsctl --node NODE -o table show", err)
		}
	case o.output != formatTable && o.output != formatJSON:
		return fmt.Errorf("--output: %q is none of %s, %s", o.output, formatTable, formatJSON)
	case len(args) != 1 || args[0] != "show":
		return fmt.Errorf("--output is for show alone: %v", args)
	}
	q, err := o.on(ctx, api.NodeDatabase, "")
	if err != nil {
		return err
	}
	tunnel, err := connect.OpenTunnel(ctx, q)
	if err != nil {
		return err
	}
	defer tunnel.Close()
	if o.output != "" {
		return showPorts(ctx, tunnel, o.output, out)
	}
	cmd := exec.CommandContext(ctx, path, append([]string{"--db=" + tunnel.Address()}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, problems
	cmd.Env = withoutOVN(os.Environ())
	return runThrough(cmd, tunnel, problems)
}
