package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/install"
)

func preflightCommand() *cobra.Command {
	o := &installOptions{}
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether Atoll can be installed in a cluster",
		Long: `Check whether Atoll can be installed, from what the API server knows of the cluster and its nodes.
The flags are those of atoll install. The command writes nothing. What only a node knows (the kernel's
module, the runtime's NRI socket, MTUs) the node's programs check when they start, and log.

Exit status: 0 nothing speaks against an installation; 1 a check refuses; 2 the command could not
look.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return preflight(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func preflight(ctx context.Context, o *installOptions, out io.Writer) (err error) {
	if o.Values, err = o.values(); err != nil {
		return err
	}
	cluster, err := install.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	plan, err := install.Prepare(ctx, cluster, o.Options)
	if err != nil {
		return err
	}
	checks, err := install.Preflight(ctx, cluster, plan)
	if err != nil {
		return err
	}
	if err := printChecks(out, checks); err != nil {
		return err
	}
	if install.Refused(checks) {
		return install.ErrRefused
	}
	return nil
}

// preflightFirst makes the checks before something is written, and prints those that say something.
func preflightFirst(ctx context.Context, cluster *install.Cluster, plan *install.Plan, out io.Writer, what intent) error {
	checks, err := install.Preflight(ctx, cluster, plan)
	if err != nil {
		return err
	}
	checks = slices.DeleteFunc(checks, func(c install.Check) bool {
		// Whether the step is supported, the upgrade has asked.
		return c.Verdict == install.OK || what == upgrading && c.Name == install.CheckInstalled
	})
	if len(checks) == 0 {
		return nil
	}
	if err := printChecks(out, checks); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if install.Refused(checks) {
		return fmt.Errorf("%w: nothing was written; --skip-preflight does without the checks", install.ErrRefused)
	}
	return nil
}

func printChecks(out io.Writer, checks []install.Check) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "CHECK\tRESULT\tFOUND\tWHAT TO DO")
	for _, c := range checks {
		next := c.Next
		if next == "" {
			next = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Verdict, c.Found, next)
	}
	return w.Flush()
}
