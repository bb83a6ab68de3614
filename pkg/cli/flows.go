package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// ErrPartial is the error of a question that was answered in part; what is missing has been said.
var ErrPartial = errors.New("not all is told")

// flowsSince is the age of the oldest flow that is told of where nobody says another, and kept how long flows are kept.
const flowsSince = 10 * time.Minute

type flowsOptions struct {
	asked
	namespace, pod string
	since          time.Duration
	follow, drops  bool
}

const flowsLong = `
A Tenant's admin sees the tenant's Networks. Whoever may view a namespace sees what policies decided at
its pods. ClusterRole atoll-inspector sees all. Of the other end you learn the address; you learn the
name only where you may see whose it is.

Nodes sample what policies decide, and keep an hour of it, if the AtollConfig has flows.sampling: On.
Pods that no policy selects have no flows. A connection counts when it begins.

Exit status: 0 all flows are listed, or there are none; 1 something is missing, and is named; 2 the
command could not ask, no node answered, or sampling is off.`

func flowsCommand() *cobra.Command {
	return newFlowsCommand(&cobra.Command{
		Use:   "flows [NETWORK]",
		Short: "List who talks to whom, and which policy decided",
		Long: `List who talked to whom: when last, in which Network, from whom to whom, on which port, whether it was
let through, by which policy, and how often. NETWORK chooses a Network, and -n the pods of a
namespace; without both, all that you may see.
` + flowsLong,
		Example: `  atoll flows red
  atoll flows red --since 1h -o wide
  atoll flows -n red --pod web-0 --follow`,
	}, false)
}

func dropsCommand() *cobra.Command {
	return newFlowsCommand(&cobra.Command{
		Use:   "drops [NETWORK]",
		Short: "List what policies stopped, and which policy",
		Long: `List what did not get through: as atoll flows, but only what was dropped or rejected.
` + flowsLong,
		Example: `  atoll drops red --since 1h -o wide
  atoll drops -n red --follow`,
	}, true)
}

func newFlowsCommand(cmd *cobra.Command, drops bool) *cobra.Command {
	o := flowsOptions{drops: drops}
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return runFlows(cmd.Context(), o, strings.Join(args, ""), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&o.output, "output", "o", formatTable, "table, wide, json or yaml; with --follow json is one object a line")
	f.DurationVar(&o.timeout, "timeout", askTimeout, "how long it may take; not with --follow")
	f.StringVarP(&o.namespace, "namespace", "n", "", "what was decided at pods of this namespace; with NETWORK: of those in it")
	f.StringVar(&o.pod, "pod", "", "only flows that begin or end at this pod: NAME with -n, or NAMESPACE/NAME")
	f.DurationVar(&o.since, "since", 0, "age of the oldest, at most 1h (default 10m; with --follow: from now on)")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what comes, until it is stopped (Ctrl-C)")
	completed(cmd, 1, &o.kubeconfig, networkNames)
	completedFlag(cmd, "namespace", &o.kubeconfig, namespaceNames)
	return cmd
}

// question is what is asked for.
func (o *flowsOptions) question(network string) (scope client.FlowScope, q flows.Question, err error) {
	scope = client.FlowScope{Network: network, Namespace: o.namespace}
	q.FlowQuestion = model.FlowQuestion{Drops: o.drops, Since: o.since, Follow: o.follow}
	if formats := []string{formatTable, formatWide, formatJSON, formatYAML}; !slices.Contains(formats, o.output) {
		return scope, q, fmt.Errorf("--output: %q is none of %s", o.output, strings.Join(formats, ", "))
	}
	switch {
	case o.since < 0:
		return scope, q, fmt.Errorf("--since: %s is no age", o.since)
	case o.since == 0 && !o.follow:
		q.Since = flowsSince
	}
	if o.pod == "" {
		return scope, q, nil
	}
	name := o.pod
	if !strings.Contains(name, "/") && o.namespace != "" {
		name = o.namespace + "/" + name
	}
	if q.Pod, err = parsePodName(name); err != nil {
		return scope, q, fmt.Errorf("--pod: %w", err)
	}
	if network == "" && o.namespace == "" {
		scope.Namespace = q.Pod.Namespace
	}
	return scope, q, nil
}

// runFlows prints flows, and returns ErrPartial when some are missing.
func runFlows(ctx context.Context, o flowsOptions, network string, out, problems io.Writer) error {
	scope, q, err := o.question(network)
	if err != nil {
		return err
	}
	command := "flows"
	if o.drops {
		command = "drops"
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return err
	}
	if o.follow {
		return whyNotFlows(command, scope, followFlows(ctx, o, func(each func(api.Flow) error, missing func(api.SilentNode)) error {
			_, err := remote.Flows(ctx, scope, q, each, missing)
			return err
		}, out, problems))
	}
	asking, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	list := api.FlowList{Items: []api.Flow{}}
	list.APIVersion, list.Kind = api.GroupVersion().String(), "FlowList"
	list.Status, err = remote.Flows(asking, scope, q, func(f api.Flow) error {
		list.Items = append(list.Items, f)
		return nil
	}, func(api.SilentNode) {})
	if err != nil {
		return whyNotFlows(command, scope, err)
	}
	if err := flows.Unknown(list.Status, len(list.Items)); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return o.show(out, problems, command, flowsAnswer(list, q, time.Local))
}

// whyNotFlows says what to ask where all is too much.
func whyNotFlows(command string, scope client.FlowScope, err error) error {
	switch {
	case err == nil, errors.Is(err, ErrPartial):
		return err
	case scope == client.FlowScope{} && strings.Contains(err.Error(), "cannot list resource"), scope == client.FlowScope{} &&
		strings.Contains(err.Error(), "cannot watch resource"):
		return fmt.Errorf("%s: %w. Next: name a NETWORK of yours, or a namespace (-n)", command, err)
	}
	return whyNot(command, err)
}

// followFlows prints flows as they come, until ctx ends.
func followFlows(
	ctx context.Context, o flowsOptions, ask func(each func(api.Flow) error, missing func(api.SilentNode)) error, out, problems io.Writer,
) error {
	lines := &flowLines{wide: o.output == formatWide, zone: time.Local}
	lost := map[string]bool{}
	err := ask(func(f api.Flow) error {
		switch o.output {
		case formatJSON:
			return printLine(out, f)
		case formatYAML:
			text, err := yaml.Marshal(f)
			if err == nil {
				_, err = fmt.Fprintf(out, "---\n%s", text)
			}
			if err != nil {
				return fmt.Errorf("write flows: %w", err)
			}
			return nil
		}
		_, err := io.WriteString(out, lines.text(f))
		if err != nil {
			return fmt.Errorf("write flows: %w", err)
		}
		return nil
	}, func(n api.SilentNode) {
		lost[n.Node] = n.Why != ""
		said := fmt.Sprintf("node %s answers again", n.Node)
		if n.Why != "" {
			said = fmt.Sprintf("flows of node %s are missing from now on: %s", n.Node, n.Why)
		}
		_, _ = fmt.Fprintln(problems, "atoll:", snapshot.Printable(said)) // Nothing is missing of what was asked for.
	})
	if ctx.Err() == nil {
		return err
	}
	// Who stops it has seen what there was.
	for _, is := range lost {
		if is {
			return ErrPartial
		}
	}
	return nil
}

func flowsAnswer(list api.FlowList, q flows.Question, zone *time.Location) answered {
	return answered{
		value: list, note: flows.Missing(list.Status), table: func(text *strings.Builder, wide bool) { flowsTable(text, list, q, wide, zone) },
	}
}
