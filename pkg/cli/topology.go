package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

// The formats of pictures: formatDot is for Graphviz, formatMermaid for pages that draw Mermaid.
const (
	formatDot     = "dot"
	formatMermaid = "mermaid"
)

type topologyOptions struct {
	asked
	all bool
}

func topologyCommand() *cobra.Command {
	o := topologyOptions{asked: asked{drawn: []string{formatDot, formatMermaid}}}
	cmd := &cobra.Command{
		Use:   "topology [NAME]",
		Short: "Draw Networks: subnets, routers, switches, Gateways, peers, and pods by node",
		Long: fmt.Sprintf(`Draw a Network, or all Networks that you may get: as a tree in the terminal, or as text from which
Graphviz or Mermaid make a picture. atoll ui shows the same as a map, and saves it as a picture.

If there are more than %d Networks, each is one line with its peers. Those without peers are counted
per tenant; so are many that have the same peers. --all shows each. Between peers, -> means that this
Network's pods reach the other's; <- the other way; ? that it is not so yet.`, topology.FoldFrom),
		Example: `  atoll topology
  atoll topology red
  atoll topology -o mermaid
  atoll topology -o dot | dot -Tsvg > networks.svg`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTopology(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	completed(cmd, 1, &o.kubeconfig, networkNames)
	cmd.Flags().BoolVar(&o.all, "all", false, "show each Network, however many there are")
	return cmd
}

func runTopology(ctx context.Context, o topologyOptions, args []string, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if len(args) == 0 {
		all, note, err := remote.Topologies(ctx)
		if err != nil {
			return whyNot("topology", err)
		}
		return o.show(out, problems, "topology", topologiesAnswer(all, note, o.all, paint(colored(out))))
	}
	one, note, err := remote.Topology(ctx, args[0])
	if err != nil {
		return whyNot("topology", err)
	}
	answer := topologiesAnswer([]api.Topology{one}, note, true, paint(colored(out)))
	answer.value = one
	return o.show(out, problems, "topology", answer)
}

// colored reports whether out shows colours: it is a terminal, and its user has not switched colours off (https://no-color.org).
func colored(out io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && isTerminal(out)
}

func isTerminal(out io.Writer) bool {
	file, is := out.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

func topologiesAnswer(all []api.Topology, note string, unfolded bool, colors paint) answered {
	folded := len(all) > topology.FoldFrom && !unfolded
	answer := answered{
		value: api.TopologyList{TypeMeta: listOf("TopologyList"), Items: all}, note: note,
		table: func(text *strings.Builder, wide bool) { topologyTree(text, all, folded, wide, colors) },
		drawn: map[string]func() string{
			formatDot:     func() string { return topologyGraph(all, folded).Dot() },
			formatMermaid: func() string { return topologyGraph(all, folded).Mermaid() },
		},
	}
	for _, t := range all {
		answer.names = append(answer.names, "topology/"+t.Name)
	}
	return answer
}
