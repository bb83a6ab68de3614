package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/steps"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

func nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Shut out a node that an attacker has taken over, and admit it again"}
	cmd.AddCommand(shutOutCommand(), admitCommand())
	return cmd
}

type shutOutOptions struct {
	kubeconfig string
	yes        bool
	unguarded  bool
	timeout    time.Duration
}

// withoutPolicy is the flag by which an operator shuts a node out though no admission policy keeps it out.
const withoutPolicy = "without-admission-policy"

func shutOutCommand() *cobra.Command {
	var o shutOutOptions
	cmd := &cobra.Command{
		Use:   "shut-out [NODE]",
		Short: "Take everything from a node that an attacker has taken over",
		Long: `Take from a node what Atoll and Kubernetes gave it, in this order:

1. List it in ConfigMap ` + shutout.Name + `: whoever has its credentials gets nothing new.
2. Renew the authorities that signed for it. All other nodes get new certificates.
3. Delete its Node and its pods, which ends the pods' tokens.
4. Delete its chassis: other nodes remove their tunnels to it.

If it has a member of OVN's databases, remove the member and renew the members' authority. Then the
databases' servers restart, which ends open connections.

Pods of other nodes go on. New pods wait for about a minute. Controllers make the node's pods anew on
other nodes.

The command refuses if admission policy ` + shutout.Name + ` (dist/admission) is missing or does not
deny: the node's kubelet would register it anew. --` + withoutPolicy + ` does the rest anyway.

Without --yes the command says what it would do, which Secrets the node could read, and which
bootstrap tokens the cluster has. Without NODE it lists the nodes that are shut out. If it is
interrupted, call it again: it goes on.

You need a cluster admin's rights. Exit status: 0 the node has nothing any more; 2 something failed,
took longer than --timeout, or was not confirmed.`,
		Example: `  atoll node shut-out
  atoll node shut-out n3
  atoll node shut-out n3 --yes`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listShutOut(cmd.Context(), o.kubeconfig, cmd.OutOrStdout())
			}
			return shutOut(cmd.Context(), o, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.BoolVar(&o.yes, "yes", false, "do it")
	f.BoolVar(&o.unguarded, withoutPolicy, false, "do it although the API server does not refuse what the node's kubelet writes")
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long it may take")
	return cmd
}

type admitOptions struct {
	kubeconfig string
	ended      bool
}

// credentialsHaveEnded is the flag by which an operator says that the node's old credentials are worth nothing.
const credentialsHaveEnded = "old-credentials-have-ended"

func admitCommand() *cobra.Command {
	var o admitOptions
	cmd := &cobra.Command{
		Use:   "admit NODE",
		Short: "Let a node come back whose name was shut out",
		Long: `Remove a node from the list of those that are shut out. The safe way needs no admit: set the machine
up anew under another name.

Kubernetes does not revoke a kubelet's certificate. It ends by itself, at most a year after it was
made unless kube-controller-manager has another --cluster-signing-duration. New credentials on the
machine do not end old ones. So whoever has the old ones has the node again when its name is
admitted: its pods' tokens, their Secrets, and certificates.

So the command refuses for a year after the shut-out. --` + credentialsHaveEnded + ` says that the old
credentials are worth nothing: the cluster has another CA for its clients, or all kubelet certificates
of that name have ended. The kubelet of an admitted node registers it when the kubelet restarts.`,
		Example: `  atoll node admit n3
  atoll node admit n3 --` + credentialsHaveEnded,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return admit(cmd.Context(), o, args[0], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.BoolVar(&o.ended, credentialsHaveEnded, false, "the credentials that the node had are worth nothing any more")
	return cmd
}

func admit(ctx context.Context, o admitOptions, node string, out io.Writer) error {
	client, err := connect.UserClient(o.kubeconfig)
	if err != nil {
		return err
	}
	listed, err := shutout.Read(ctx, client)
	if err != nil {
		return err
	}
	if _, is := listed[node]; !is {
		return fmt.Errorf("node %q is not shut out: %s", node, orNobody(listed))
	}
	if !o.ended {
		now, err := shutout.Now(ctx, client)
		if err != nil {
			return err
		}
		if until := listed.CredentialsUntil(node); until.IsZero() || now.Before(until) {
			return stillGood(node, until)
		}
	}
	if err := shutout.Admit(ctx, client, node); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "node %s may come back: start its kubelet anew\n", node)
	return err
}

// stillGood says why a node is not admitted, and what to do. until is zero if it is not known since when the node is listed.
func stillGood(node string, until time.Time) error {
	last := "it is not known how long"
	if !until.IsZero() {
		last = "until " + until.Format(time.RFC3339) + " at the latest, if kubelets' certificates last a year"
	}
	return fmt.Errorf("node %s is not admitted: the certificate that its kubelet had may still be good (%s), and whoever has "+
		"it would have the node again. Make the machine anew under another name, which needs no admission. If that certificate is worth "+
		"nothing, because the cluster has another CA for its clients, say --%s", node, last, credentialsHaveEnded)
}

func orNobody(listed shutout.List) string {
	if len(listed) == 0 {
		return "no node is"
	}
	return "these are: " + strings.Join(listed.Names(), ", ")
}

func listShutOut(ctx context.Context, kubeconfig string, out io.Writer) error {
	client, err := connect.UserClient(kubeconfig)
	if err != nil {
		return err
	}
	listed, err := shutout.Read(ctx, client)
	if err != nil {
		return err
	}
	if len(listed) == 0 {
		_, err := fmt.Fprintln(out, "no node is shut out")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NODE\tSHUT OUT SINCE")
	for _, name := range listed.Names() {
		fmt.Fprintf(w, "%s\t%s\n", name, listed[name].Format(time.RFC3339))
	}
	return w.Flush()
}

// shutOut plans, asks for --yes, does it, and says what is left to do for people.
func shutOut(ctx context.Context, o shutOutOptions, node string, out io.Writer) error {
	client, err := connect.UserClient(o.kubeconfig)
	if err != nil {
		return err
	}
	plan, err := steps.Look(ctx, client, node)
	if err != nil {
		return fmt.Errorf("shut node %s out: %w", node, err)
	}
	if !plan.There && plan.Since.IsZero() && len(plan.Pods) == 0 {
		return fmt.Errorf("there is no node %q, and none of that name is shut out", node)
	}
	printPlan(out, plan)
	if !o.yes {
		return errNotConfirmed
	}
	if plan.Unguarded != "" && !o.unguarded {
		return fmt.Errorf("shut node %s out: %s: its kubelet would register it anew. Apply dist/admission, or say --%s", node, plan.Unguarded,
			withoutPolicy)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	began := time.Now()
	runner := steps.Runner{
		Client: client, Chassis: func(ctx context.Context) ([]string, error) { return connect.Chassis(ctx, o.kubeconfig) },
		Say: func(p steps.Progress) { printProgress(out, p.Done, p.Took, p.Text) },
	}
	if err := runner.Run(ctx, plan); err != nil {
		return fmt.Errorf("shut node %s out: %w", node, err)
	}
	fmt.Fprintf(out, "node %s is shut out after %.1f s. What is left to do: docs/how-to/shut-out-a-node.md\n", node,
		time.Since(began).Seconds())
	return nil
}

// shownOfPlan is how many pods, and how many Secrets, of a node are listed.
const shownOfPlan = 20

func printPlan(out io.Writer, p steps.Plan) {
	fmt.Fprintf(out, "node %s: %d pods are deleted, and certificates of all other nodes are made anew\n", p.Node, len(p.Pods))
	for _, kind := range p.Databases {
		fmt.Fprintf(out, "its member of database %s is removed, and the members' authority is made anew: it has had all of OVN's databases\n",
			kind)
	}
	if p.Unguarded != "" {
		fmt.Fprintf(out, "its kubelet may register it anew: %s\n", p.Unguarded)
	}
	if p.ControlPlane {
		fmt.Fprintln(out,
			"it is of Kubernetes' control plane: whoever has etcd's files, or the keys of the cluster's CA, is not shut out by this")
	}
	if p.OwnOVN {
		fmt.Fprintf(out, "OVN's databases are your own: delete its chassis there (ovn-sbctl chassis-del %s), and its certificate's authority\n",
			p.Node)
	}
	listUpTo(out, "Secrets that it could read: change what is in them", p.Secrets)
	listUpTo(out, "bootstrap tokens, by one of which a machine becomes a node of any name: delete those that it may know", p.Tokens)
	if p.TokensUnknown != nil {
		fmt.Fprintf(out, "bootstrap tokens of the cluster are not known: %v\n", p.TokensUnknown)
	}
}

func listUpTo(out io.Writer, what string, names []string) {
	if len(names) == 0 {
		return
	}
	shown := names[:min(len(names), shownOfPlan)]
	fmt.Fprintf(out, "%s:\n  %s\n", what, strings.Join(shown, "\n  "))
	if more := len(names) - len(shown); more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}
