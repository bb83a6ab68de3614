package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/trial"
)

// ErrChanges is the error of a trial that worked and found that something would change; what has been printed.
var ErrChanges = errors.New("something would change")

type tryOptions struct {
	asked
	files, gone []string
	namespace   string
	since       time.Duration
}

func tryCommand() *cobra.Command {
	var o tryOptions
	cmd := &cobra.Command{
		Use:   "try",
		Short: "Show what a policy would change, without applying it",
		Long: `List the pairs of pods, and of pods and other ends, that would go from allowed to denied or the other
way, on which ports, and what decides before and after. Nothing is applied: the API server checks the
policies in a dry run, with your rights, and the rows that the controller would make are compared
with those that it makes now.

A file has NetworkPolicies and ClusterNetworkPolicies, in one or several documents. A policy that
exists is compared as it would be. --delete names policies that would be gone.

Pods that no policy tells apart are one line. A packet to a Service is judged by its endpoint.
Policies do not decide whether a Network has a way out, nor whether a pod listens: ask atoll explain.

A kubeconfig is enough. If you may create policies in a namespace, you may try them there; pods of
namespaces that you may not ask about are not compared. If the API inspect.atoll.dev does not answer,
the command compares by itself, from what you may list, and says so.

Where the cluster samples flows, a second table lists which flows of the last hour the policies would
have stopped or newly allowed, as far as you may see them.

Exit status: 0 nothing would change; 1 something would; 2 the command could not tell.`,
		Example: `  atoll policy try -f policy.yaml
  atoll policy try -f policy.yaml -n red -o wide
  atoll policy try --delete db-from-web -n red
  kubectl get networkpolicy -n red db-from-web -o yaml | sed s/5432/5433/ | atoll policy try -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runTry(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&o.output, "output", "o", formatTable, "table, wide, json or yaml")
	f.DurationVar(&o.timeout, "timeout", 2*time.Minute, "how long it may take")
	f.DurationVar(&o.since, "since", time.Hour, "age of the oldest flows that are looked at, at most 1h; 0s: none")
	f.StringArrayVarP(&o.files, "filename", "f", nil, "file with policies; - is standard input")
	f.StringArrayVar(&o.gone, "delete", nil, "policy that would be gone")
	f.StringVarP(&o.namespace, "namespace", "n", "", "namespace of policies that name none (default: that of the kubeconfig's context)")
	return cmd
}

// runTry prints what would change, and returns ErrChanges when something would.
func runTry(ctx context.Context, o tryOptions, in io.Reader, out, problems io.Writer) error {
	if formats := []string{formatTable, formatWide, formatJSON, formatYAML}; !slices.Contains(formats, o.output) {
		return fmt.Errorf("--output: %q is none of %s", o.output, strings.Join(formats, ", "))
	}
	if len(o.files)+len(o.gone) == 0 {
		return errors.New("name a file with policies (-f FILE), or a policy that would be gone (--delete NAME)")
	}
	if o.since < 0 {
		return fmt.Errorf("--since: %s is no age", o.since)
	}
	if o.namespace == "" {
		var err error
		if o.namespace, err = connect.UserNamespace(o.kubeconfig); err != nil {
			return err
		}
	}
	policies, err := o.policies(in)
	if err != nil {
		return err
	}
	var gone []model.PolicyKey
	for _, text := range o.gone {
		key, err := goneKey(text, o.namespace)
		if err != nil {
			return err
		}
		gone = append(gone, key)
	}
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	spec, err := remote.DryRun(ctx, policies, gone)
	if err != nil {
		return whyNot("policy try", err)
	}
	if o.since > 0 {
		spec.Since = &meta.Duration{Duration: o.since}
	}
	status, note, err := remote.Try(ctx, spec)
	if err != nil {
		return whyNot("policy try", err)
	}
	if err := o.print(out, problems, "what would change", triedAnswer(spec, status, note)); err != nil {
		return err
	}
	if status.Changes {
		return ErrChanges
	}
	if status.Cut != "" {
		return fmt.Errorf("policy try: nothing was found that would change, and not all was compared: %s", status.Cut)
	}
	return nil
}

// policies are those of all files.
func (o tryOptions) policies(in io.Reader) (out []unstructured.Unstructured, err error) {
	for _, name := range o.files {
		file := in
		if name != "-" {
			opened, err := os.Open(name)
			if err != nil {
				return nil, fmt.Errorf("read policies: %w", err)
			}
			defer opened.Close()
			file = opened
		}
		some, err := trial.ReadPolicies(file, o.namespace)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("%s: there is no policy in it", name)
		}
		out = append(out, some...)
	}
	return out, nil
}

// goneKey reads whom --delete names.
func goneKey(text, namespace string) (model.PolicyKey, error) {
	key := model.PolicyKey{Kind: model.NetworkPolicy, Namespace: namespace, Name: text}
	first, rest, is := strings.Cut(text, "/")
	switch {
	case is && strings.EqualFold(first, string(model.ClusterNetworkPolicy)):
		key = model.PolicyKey{Kind: model.ClusterNetworkPolicy, Name: rest}
	case is:
		key.Namespace, key.Name = first, rest
	}
	if key.Name == "" || strings.Contains(key.Name, "/") || is && key.Kind == model.NetworkPolicy && key.Namespace == "" {
		return key, fmt.Errorf("--delete: %q is none of NAME, NAMESPACE/NAME and ClusterNetworkPolicy/NAME", text)
	}
	return key, nil
}

func triedAnswer(spec api.PolicyTrialSpec, status api.PolicyTrialStatus, note string) answered {
	value := api.PolicyTrial{Spec: spec, Status: status}
	value.APIVersion, value.Kind = api.GroupVersion().String(), "PolicyTrial"
	return answered{value: value, note: note, table: func(text *strings.Builder, wide bool) { trialTable(text, status, wide) }}
}

// Bounds of the table: maxRows lines, and maxEnds names in a cell.
const (
	maxRows = 60
	maxEnds = 3
)

func trialTable(text *strings.Builder, s api.PolicyTrialStatus, wide bool) {
	rows, names := maxRows, maxEnds
	head := []string{"FROM", "TO", "PORT", "BEFORE", "AFTER", "BY"}
	if wide {
		rows, names, head = len(s.Paths), 1<<10, []string{"FROM", "TO", "PORT", "BEFORE", "BY", "AFTER", "BY"}
	}
	lines := [][]string{head}
	for i, p := range s.Paths {
		if i == rows {
			break
		}
		ports := p.Ports
		if p.Family != "" {
			ports += " (" + p.Family + ")"
		}
		if p.Face {
			ports += " (by face)"
		}
		by := func(v api.TrialVerdict) string { return strings.Join(v.Deciders, "; ") }
		line := []string{endNames(p.From, names), endNames(p.To, names), ports, allowWord(p.Before)}
		if wide {
			line = append(line, by(p.Before))
		}
		decides := by(p.After)
		if decides == "" {
			decides = "no policy"
		}
		lines = append(lines, append(line, allowWord(p.After), decides))
	}
	if len(s.Paths) > 0 {
		for _, line := range lines {
			for i := range line {
				line[i] = snapshot.Printable(line[i])
			}
		}
		columns(text, lines...)
		if more := len(s.Paths) - rows; more > 0 {
			fmt.Fprintf(text, "and %d more lines (-o wide, -o json)\n", more)
		}
		fmt.Fprintln(text)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(text, "Not understood, and allows nothing: %s\n", snapshot.Printable(p))
	}
	fmt.Fprintf(text, "%s.\n", snapshot.Printable(s.Verdict))
	if s.Cut != "" {
		fmt.Fprintf(text, "Not all was compared: %s.\n", snapshot.Printable(s.Cut))
	}
	if wide && s.Sources != "" {
		fmt.Fprintf(text, "Read: %s.\n", s.Sources)
	}
	if s.Flows != nil {
		trialFlows(text, *s.Flows, wide)
	}
}

func allowWord(v api.TrialVerdict) string {
	if v.Allowed {
		return "allow"
	}
	return "deny"
}

func endNames(ends []api.TrialEnd, most int) string {
	var out []string
	for i, e := range ends {
		if i == most {
			return strings.Join(out, ", ") + fmt.Sprintf(", %d more", len(ends)-most)
		}
		out = append(out, e.Name)
	}
	return strings.Join(out, ", ")
}
