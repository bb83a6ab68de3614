package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/nb"
)

const (
	agentNamespace = "atoll-system"
	agentLabel     = "app.kubernetes.io/name=atoll-agent"
	agentPort      = 9411
	// askedAtOnce is how many agents are asked at a time, and agentTime how long each may take.
	askedAtOnce = 16
	agentTime   = 15 * time.Second
	// maxVerdictBytes bounds one agent's answer.
	maxVerdictBytes = 64 << 20
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
	nodes, unanswered, err := askAgents(ctx, o)
	if err != nil {
		return fmt.Errorf("verdicts: %w", err)
	}
	result := Verdicts{Rows: verdictRows(nodes, o), Nodes: len(nodes)}
	if result.isolates() {
		heard := &lastWarning{}
		if objects, err := clusterObjects(ctx, o.kubeconfig, heard); err == nil {
			result.explain(objects)
		} else {
			result.Unknown = heard.explain(err).Error()
		}
	}
	if err := result.Print(out, o.output); err != nil {
		return err
	}
	if unanswered != nil {
		return fmt.Errorf("verdicts: %w", unanswered)
	}
	return nil
}

// askAgents asks the agents; unanswered says which of them have not answered, and why.
func askAgents(ctx context.Context, o verdictsOptions) (nodes []model.NodeVerdicts, unanswered, err error) {
	ask := make([]func(context.Context) (model.NodeVerdicts, error), 0, len(o.agents))
	for _, url := range o.agents {
		ask = append(ask, func(ctx context.Context) (model.NodeVerdicts, error) { return askAgent(ctx, url) })
	}
	if len(o.agents) == 0 {
		cfg, err := kube.UserConfig(o.kubeconfig, userAgent)
		if err != nil {
			return nil, nil, err
		}
		daemons, err := kube.Daemons(ctx, cfg, agentNamespace, agentLabel)
		if err != nil {
			return nil, nil, err
		}
		if len(daemons) == 0 {
			return nil, nil, fmt.Errorf("there is no pod with %s in namespace %s; name the agents with --agent", agentLabel, agentNamespace)
		}
		for _, d := range daemons {
			ask = append(ask, func(ctx context.Context) (model.NodeVerdicts, error) {
				address, stop, err := kube.Forward(ctx, cfg, d, agentPort)
				if err != nil {
					return model.NodeVerdicts{}, fmt.Errorf("agent of node %s: %w", d.Node, err)
				}
				defer stop()
				return askAgent(ctx, "http://"+address)
			})
		}
	}
	answers, failures := make([]model.NodeVerdicts, len(ask)), make([]error, len(ask))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, f := range ask {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, agentTime)
			defer cancel()
			answers[i], failures[i] = f(ctx)
			return nil
		})
	}
	_ = group.Wait() // each has an error of its own
	for i, a := range answers {
		if failures[i] == nil {
			nodes = append(nodes, a)
		}
	}
	return nodes, errors.Join(failures...), nil
}

func askAgent(ctx context.Context, url string) (model.NodeVerdicts, error) {
	var out model.NodeVerdicts
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/verdicts", nil)
	if err != nil {
		return out, fmt.Errorf("--agent %s: %w", url, err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, fmt.Errorf("ask agent: %w", err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxVerdictBytes))
	switch {
	case err != nil:
		return out, fmt.Errorf("ask agent at %s: %w", url, err)
	case reply.StatusCode != http.StatusOK:
		return out, fmt.Errorf("agent at %s: %s: %s", url, reply.Status, printable(strings.TrimSpace(string(body[:min(len(body), 1024)]))))
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("agent at %s: read answer: %w", url, err)
	}
	return out, nil
}

// verdictRows are the counts that were asked for, in order.
func verdictRows(nodes []model.NodeVerdicts, o verdictsOptions) []VerdictRow {
	var out []VerdictRow
	for _, n := range nodes {
		for _, v := range n.Verdicts {
			_, name, _ := strings.Cut(v.Policy, "/")
			if o.network != "" && v.Network != o.network || o.policy != "" && o.policy != name && o.policy != v.Policy ||
				o.dropsOnly && (v.Verdict != verdictWord(false) || v.Packets == 0) {
				continue
			}
			out = append(out, VerdictRow{Node: n.Node, VerdictCount: v})
		}
	}
	slices.SortFunc(out, func(a, b VerdictRow) int {
		return cmp.Or(
			cmp.Compare(a.Network, b.Network), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Direction, b.Direction),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Verdict, b.Verdict),
		)
	})
	return out
}

// isolates reports whether isolation has dropped anything of a pod.
func (v Verdicts) isolates() bool {
	return slices.ContainsFunc(v.Rows, func(r VerdictRow) bool { return isIsolation(r.VerdictCount) && len(r.Pods) > 0 })
}

func isIsolation(v model.VerdictCount) bool {
	return v.Policy == nb.Isolation || v.Rule == nb.RuleIsolation
}
