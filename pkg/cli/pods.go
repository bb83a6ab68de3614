package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

func podsCommand() *cobra.Command {
	var (
		o         asked
		namespace string
		all       bool
	)
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "List the pods of a namespace that are in a Network, with their addresses and faces",
		Example: `  atoll pods -n red
  atoll pods -A -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case all:
				namespace = ""
			case namespace == "":
				var err error
				if namespace, err = connect.UserNamespace(o.kubeconfig); err != nil {
					return err
				}
			}
			return runPods(cmd.Context(), o, namespace, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "whose pods (default: that of the kubeconfig's context)")
	completedFlag(cmd, "namespace", &o.kubeconfig, namespaceNames)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "those of all namespaces")
	return cmd
}

func runPods(ctx context.Context, o asked, namespace string, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	all, note, err := remote.Pods(ctx, namespace)
	if err != nil {
		return whyNot("pods", err)
	}
	return o.show(out, problems, "pods", podsAnswer(all, note))
}

func podsAnswer(all []api.Pod, note string) answered {
	answer := answered{
		value: api.PodList{TypeMeta: listOf("PodList"), Items: all}, note: note,
		table: func(text *strings.Builder, wide bool) { podsTable(text, all, wide) },
	}
	for _, p := range all {
		answer.names = append(answer.names, "pod/"+p.Namespace+"/"+p.Name)
	}
	return answer
}

func podsTable(text *strings.Builder, all []api.Pod, wide bool) {
	if len(all) == 0 {
		fmt.Fprintln(text, "No pod there is in a Network.")
		return
	}
	head := []string{"POD", "NETWORK", "ADDRESS", "FACE", "NODE"}
	if wide {
		head = append(head, "SUBNET", "MAC")
	}
	lines := [][]string{head}
	for _, p := range all {
		s := p.Status
		line := []string{p.Namespace + "/" + p.Name, s.Network, strings.Join(s.Addresses, " "), strings.Join(s.Faces, " "), s.Node}
		if wide {
			line = append(line, s.Subnet, s.MAC)
		}
		lines = append(lines, line)
	}
	columns(text, lines...)
}

func podCommand() *cobra.Command {
	var o asked
	cmd := &cobra.Command{
		Use:   "pod NAMESPACE/NAME",
		Short: "Show one pod in every layer, and what is missing and why",
		Long: `Show everything that a pod's network consists of, in the order in which it is made: the pod, its
Network, its address, its face, its rows in OVN's databases, its node. Then name the policies that
select the pod, and the Services that have it as an endpoint. What is missing is marked, with the
reason and what to do; a layer that could not be read has a question mark.

Exit status: 0 nothing is missing; 1 something is missing; 2 the command could not tell.`,
		Example: `  atoll pod red/web-0`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPod(cmd.Context(), o, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	completed(cmd, 1, &o.kubeconfig, podNames)
	return cmd
}

// parsePodName reads a pod's name as people write it.
func parsePodName(text string) (model.PodKey, error) {
	namespace, name, both := strings.Cut(text, "/")
	if !both || namespace == "" || name == "" {
		return model.PodKey{}, fmt.Errorf("pod %q: write NAMESPACE/NAME", text)
	}
	return model.PodKey{Namespace: namespace, Name: name}, nil
}

func runPod(ctx context.Context, o asked, name string, out, problems io.Writer) error {
	key, err := parsePodName(name)
	if err != nil {
		return err
	}
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	p, note, err := remote.Pod(ctx, key)
	if err != nil {
		return whyNot("pod", err)
	}
	err = o.show(out, problems, "pod", podAnswer(p, note))
	if err != nil && !errors.Is(err, ErrPartial) {
		return err
	}
	if slices.ContainsFunc(p.Status.Layers, func(l api.Layer) bool { return l.State == api.LayerMissing }) {
		return ErrUnhealthy
	}
	return err
}

func podAnswer(p api.Pod, note string) answered {
	return answered{
		value: p, names: []string{"pod/" + p.Namespace + "/" + p.Name}, note: note,
		table: func(text *strings.Builder, _ bool) { podTable(text, p) },
	}
}

func podTable(text *strings.Builder, p api.Pod) {
	marks := map[api.LayerState]string{api.LayerOK: markOK, api.LayerMissing: "MISSING", api.LayerUnknown: "?", api.LayerNone: ""}
	lines := [][]string{{"", "LAYER", "WHAT"}}
	for _, l := range p.Status.Layers {
		lines = append(lines, []string{marks[l.State], l.Name, l.What})
	}
	rows(text, lines)
	fmt.Fprintf(text, "\n%s/%s: %s\n", p.Namespace, p.Name, snapshot.Printable(p.Status.Verdict))
}

func listOf(kind string) meta.TypeMeta {
	return meta.TypeMeta{APIVersion: api.GroupVersion().String(), Kind: kind}
}
