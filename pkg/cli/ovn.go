package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
)

// errNotConfirmed says that nothing was done.
var errNotConfirmed = errors.New("nothing was done: say it again with --yes")

type rebuildOptions struct {
	kubeconfig, namespace string
	yes, discard          bool
	timeout               time.Duration
}

func ovnCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ovn", Short: "OVN's databases, where Atoll runs them (overlays ha and single)"}
	cmd.AddCommand(rebuildCommand())
	return cmd
}

func rebuildCommand() *cobra.Command {
	var o rebuildOptions
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Rebuild OVN's databases after their files are lost",
		Long: `Rebuild databases whose members have all lost their files. The controller compiles the northbound
database from the cluster's objects, and ovn-northd makes the southbound one from it: nothing is lost
but time. Without --yes the command says what it would do.

It writes one thing: in ConfigMap atoll-ovn it gives up the ids of the old clusters, which stay listed
there. Members then make new clusters, once. Files of the old ones that turn up are moved aside, never
deleted. Nodes keep their flows until the southbound database is complete: running pods go on, and new
pods wait.

The command needs the Kubernetes API only. If it is interrupted, the rebuild goes on by itself; call
it again to wait for the rest.

Exit status: 0 all is back; 2 it failed, or there was nothing to do.`,
		Example: `  atoll ovn rebuild
  atoll ovn rebuild --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return rebuild(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.namespace, "namespace", "atoll-system", "namespace of the ConfigMap "+central.RecordName)
	f.BoolVar(&o.yes, "yes", false, "do it")
	f.BoolVar(&o.discard, "discard-files", false,
		"give up clusters of which members still have files, too: when a quorum is lost for good, or what they hold is not wanted")
	f.DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long to wait until all is back")
	return cmd
}

// printProgress prints a stage that is done, or what one waits for.
func printProgress(out io.Writer, done bool, took time.Duration, text string) {
	mark := "   "
	if done {
		mark = "ok "
	}
	fmt.Fprintf(out, "%s%6.1f s  %s\n", mark, took.Seconds(), text)
}

// rebuild plans, asks for --yes, has it done, and tells how long each part took.
func rebuild(ctx context.Context, o rebuildOptions, out io.Writer) error {
	client, err := connect.UserClient(o.kubeconfig)
	if err != nil {
		return err
	}
	store := central.Store{Client: client, Namespace: o.namespace}
	records, err := store.Records(ctx)
	if err != nil {
		return err
	}
	plan, err := central.PlanRebuild(records, o.discard)
	if err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	for _, reason := range plan.Reasons {
		fmt.Fprintln(out, reason)
	}
	if plan.Underway {
		fmt.Fprintln(out, "a rebuild is under way")
	}
	for _, kind := range plan.Give {
		fmt.Fprintf(out, "%s is made anew: its members make another cluster\n", kind)
	}
	if len(plan.Give) > 0 {
		fmt.Fprintln(out,
			"meanwhile running pods go on by the flows that their nodes have; new pods, and changes of Networks, Services and policies, wait")
		if !o.yes {
			return errNotConfirmed
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	began := time.Now()
	if err := central.Rebuild(ctx, store, plan, func(p central.Progress) {
		printProgress(out, p.Done, p.Took, p.Text)
	}); err != nil {
		return fmt.Errorf("rebuild: %w", err)
	}
	fmt.Fprintf(out, "all is back after %.1f s. Compare it with the cluster's objects: atoll check\n", time.Since(began).Seconds())
	return nil
}
