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

	"github.com/atoll-net/atoll/pkg/inspect"
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
		Short: "Say how many packets each policy's rules have admitted and dropped",
		Long: `Asks the agents of all nodes how many packets the flows of each rule have matched. The agents are asked by way of
the API server, which takes the right to forward ports of their pods; or those that --agent names.

A connection counts with each packet that its beginner sends; answers do not count. Isolation is what no policy allows a
pod that some policy isolates: those policies are named for each pod that it has dropped something of.

It ends with status 0 when all agents have answered, 2 when some have not.`,
		Example: `  atoll policy verdicts
  atoll policy verdicts --network red --drops
  atoll policy verdicts --policy red/db-from-web
  atoll policy verdicts --agent http://127.0.0.1:9411`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runVerdicts(cmd.Context(), o, cmd.OutOrStdout()) },
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

// runVerdicts asks all agents, prints what they have counted, and returns an error that names those that have not answered.
func runVerdicts(ctx context.Context, o verdictsOptions, out io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	agents, err := agentURLs(o.agents)
	if err != nil {
		return fmt.Errorf("verdicts: %w", err)
	}
	result, err := inspect.Count(ctx, inspect.VerdictsQuery{
		Kubeconfig: o.kubeconfig, Agents: agents, Network: o.network, Policy: o.policy, DropsOnly: o.dropsOnly,
	})
	switch {
	case errors.Is(err, inspect.ErrNoAgents):
		return fmt.Errorf("verdicts: %w; name the agents with --agent", err)
	case err != nil:
		return fmt.Errorf("verdicts: %w", err)
	}
	if err := printVerdicts(out, result, o.output); err != nil {
		return err
	}
	if result.Unanswered != nil {
		return fmt.Errorf("verdicts: %w", result.Unanswered)
	}
	return nil
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
