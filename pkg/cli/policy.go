package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/match"
	"github.com/atoll-net/atoll/pkg/model"
)

// ErrDropped is the error of a trace that worked and found that a packet is dropped; why has been printed.
var ErrDropped = errors.New("the packet is dropped")

const (
	defaultTimeout = time.Minute
	defaultNB      = "unix:/var/run/ovn/ovnnb_db.sock"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Which policy drops or admits a packet",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(traceCommand(), verdictsCommand())
	return cmd
}

// checkOutput says what is wrong with the name of a format.
func checkOutput(format string) error {
	if !slices.Contains([]string{formatTable, formatJSON}, format) {
		return fmt.Errorf("--output: %q is neither %s nor %s", format, formatTable, formatJSON)
	}
	return nil
}

// isolating are the policies that isolate a pod in a direction: one of them must allow what it is to send or receive.
func isolating(objects model.Changes, pod model.PodKey, direction model.Direction) []string {
	p := objects.Pods[pod]
	if p == nil {
		return nil
	}
	target := match.Target{Namespace: pod.Namespace, Labels: p.Labels}
	if ns := objects.Namespaces[pod.Namespace]; ns != nil {
		target.NamespaceLabels = ns.Labels
	}
	var out []string
	for key, policy := range objects.Policies {
		if policy.Isolates[direction] && policy.Subject.Matches(target) {
			out = append(out, key.String())
		}
	}
	slices.Sort(out)
	return out
}

// podOf is the pod that an owner names.
func podOf(owner string) (model.PodKey, bool) {
	rest, ours := strings.CutPrefix(owner, "Pod/")
	namespace, name, whole := strings.Cut(rest, "/")
	return model.PodKey{Namespace: namespace, Name: name}, ours && whole
}

// describeHint is how to look at a policy.
func describeHint(policy string) string {
	words := strings.Split(policy, "/")
	if len(words) == 3 {
		return fmt.Sprintf("kubectl describe %s -n %s %s", strings.ToLower(words[0]), words[1], words[2])
	}
	return fmt.Sprintf("kubectl describe %s", strings.Replace(strings.ToLower(policy), "/", " ", 1))
}

// clusterObjects reads all that the API server has.
func clusterObjects(ctx context.Context, kubeconfig string, heard *lastWarning) (model.Changes, error) {
	feed, stop, err := openCluster(ctx, kubeconfig, logTo(heard))
	if err != nil {
		return model.Changes{}, err
	}
	defer stop()
	if err := awaitObjects(ctx, feed); err != nil {
		return model.Changes{}, err
	}
	objects := newObjects()
	merge(objects, feed.Take())
	return objects, nil
}
