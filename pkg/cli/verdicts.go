package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/verdicts"
)

type verdictsOptions struct {
	kubeconfig string
	agents     []string
	network    string
	policy     string
	dropsOnly  bool
	output     string
	timeout    time.Duration
}

func verdictsCommand() *cobra.Command {
	var o verdictsOptions
	cmd := &cobra.Command{
		Use:   "verdicts",
		Short: "Count the packets that each policy's rules admitted and dropped",
		Long: `Ask the agents of all nodes how many packets each rule's flows have matched. The command forwards a
port to each agent's pod, or asks the agents that --agent names.

A connection counts with each packet that its beginner sends; answers do not count. "isolation" is
what no policy allows a pod that a policy selects: those policies are named for each pod that lost
packets.

Exit status: 0 all agents answered; 1 some did not, and are named; 2 none did.`,
		Example: `  atoll policy verdicts
  atoll policy verdicts --network red --drops
  atoll policy verdicts --policy red/db-from-web
  atoll policy verdicts --agent http://127.0.0.1:9411`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runVerdicts(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringSliceVar(&o.agents, "agent", nil, "ask these agents, at their --metrics-address, and no others")
	f.StringVar(&o.network, "network", "", "only of this Network")
	f.StringVar(&o.policy, "policy", "", "only of this policy: NAMESPACE/NAME, or NAME of one of the cluster")
	f.BoolVar(&o.dropsOnly, "drops", false, "only what was dropped")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long it may take")
	return cmd
}

// runVerdicts asks all agents, and prints what they have counted. It returns ErrPartial where some have not answered: it has named these.
func runVerdicts(ctx context.Context, o verdictsOptions, out, problems io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	agents, err := agentURLs(o.agents)
	if err != nil {
		return fmt.Errorf("verdicts: %w", err)
	}
	result, err := verdicts.Count(ctx, verdicts.Query{
		Kubeconfig: o.kubeconfig, Agents: agents, Network: o.network, Policy: o.policy, DropsOnly: o.dropsOnly,
	})
	switch {
	case errors.Is(err, verdicts.ErrNoAgents):
		return fmt.Errorf("verdicts: %w; name the agents with --agent. Next: kubectl -n atoll-system get daemonset atoll-agent", err)
	case err != nil:
		return fmt.Errorf("verdicts: %w", err)
	}
	if result.Nodes == 0 && result.Unanswered != nil {
		return fmt.Errorf("verdicts: nothing is known: %w. Next: %s", result.Unanswered, flows.LookAtAgents)
	}
	if err := printVerdicts(out, result, o.output); err != nil {
		return err
	}
	if result.Unanswered == nil {
		return nil
	}
	missing := strings.ReplaceAll(result.Unanswered.Error(), "\n", "; ")
	_, err = fmt.Fprintf(problems, "atoll: not all is told. Missing are the counts of some agents: %s. Next: %s\n", missing,
		flows.LookAtAgents)
	if err != nil {
		return fmt.Errorf("write verdicts: %w", err)
	}
	return ErrPartial
}

// agentURLs reads the values of --agent: a URL, or HOST:PORT.
func agentURLs(values []string) ([]string, error) {
	var out []string
	for _, v := range values {
		if !strings.Contains(v, "://") {
			v = "http://" + v
		}
		if _, err := url.Parse(v); err != nil {
			return nil, fmt.Errorf("--agent %s: %w", v, err)
		}
		out = append(out, v)
	}
	return out, nil
}
