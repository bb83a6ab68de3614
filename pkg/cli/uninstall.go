package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/install"
	"github.com/atoll-net/atoll/pkg/process/progress"
)

// listedHanging is how many of what hangs on Atoll are listed.
const listedHanging = 50

type uninstallOptions struct {
	kubeconfig string
	force      bool
	leave      bool
	timeout    time.Duration
}

func uninstallCommand() *cobra.Command {
	o := uninstallOptions{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove Atoll from a cluster and its nodes",
		Long: `Remove programs, policies, settings, definitions and the namespace atoll-system, and clean each node:
links, ports, routes, rules, files, and OVN's databases if Atoll brought them. In a northbound
database of your own, delete what Atoll wrote and nothing else.

The command refuses while Atoll connects pods, or users have Networks or Tenants, and lists them. With
--force it deletes these too. Controllers make the pods anew; they start when the nodes have another
network plugin.

Exit status: 0 all is gone; 1 something depends on Atoll; 2 something failed or took longer than
--timeout. Called again, it goes on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return uninstall(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.BoolVar(&o.force, "force", false, "also delete Networks and Tenants of users, and the pods that have their network from Atoll")
	f.BoolVar(&o.leave, "leave-northbound", false, "leave Atoll's rows in a northbound database of your own, for one that is gone")
	f.DurationVar(&o.timeout, "timeout", installTimeout, "how long it may take")
	return cmd
}

func uninstall(ctx context.Context, o uninstallOptions, out, progressTo io.Writer) error {
	cluster, err := install.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	removal, err := install.PlanRemoval(ctx, cluster)
	if err != nil {
		return err
	}
	if len(removal.Hanging) > 0 && !o.force {
		if err := printHanging(out, removal.Hanging); err != nil {
			return err
		}
		return fmt.Errorf("%w: remove it first, or let it go with --force", install.ErrHanging)
	}
	removal.LeaveNorthbound = o.leave
	steps := progress.New(progressTo, install.RemovalSteps)
	if err := install.Remove(ctx, cluster, removal, o.timeout, steps); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Atoll is gone, after %s.\n", progress.Round(steps.Elapsed()))
	return err
}

func printHanging(out io.Writer, hanging []install.Hanging) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "HANGS ON ATOLL\tWHY")
	for _, h := range hanging[:min(len(hanging), listedHanging)] {
		fmt.Fprintf(w, "%s\t%s\n", h.Object, h.Why)
	}
	if more := len(hanging) - listedHanging; more > 0 {
		fmt.Fprintf(w, "and %d more\t\n", more)
	}
	return w.Flush()
}
