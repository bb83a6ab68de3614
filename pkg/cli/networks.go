package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/inspect/topology"
)

func networksCommand() *cobra.Command {
	var o asked
	cmd := &cobra.Command{
		Use:   "networks",
		Short: "List the Networks that you may get, with their ranges and free addresses",
		Example: `  atoll networks
  atoll networks -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runNetworks(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	return cmd
}

func runNetworks(ctx context.Context, o asked, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	all, note, err := remote.Networks(ctx)
	if err != nil {
		return whyNot("networks", err)
	}
	return o.show(out, problems, "Networks", networksAnswer(all, note))
}

func networksAnswer(all []api.Network, note string) answered {
	answer := answered{
		value: api.NetworkList{TypeMeta: listOf("NetworkList"), Items: all}, note: note,
		table: func(text *strings.Builder, wide bool) { networksTable(text, all, wide) },
	}
	for _, n := range all {
		answer.names = append(answer.names, "network/"+n.Name)
	}
	return answer
}

func networksTable(text *strings.Builder, all []api.Network, wide bool) {
	if len(all) == 0 {
		fmt.Fprintln(text, "There is no Network that you may get.")
		return
	}
	head := []string{"NAME", "TYPE", "TENANT", "PHASE", "REASON", "PODS", "FREE", "RANGES"}
	if wide {
		head = append(head, "SERVICES", "ISOLATION", "PEERS")
	}
	lines := [][]string{head}
	for _, n := range all {
		s := n.Status
		line := []string{n.Name, s.Type, s.Tenant, s.Phase, s.Reason, fmt.Sprint(s.Pods), freeOf(s.Ranges), cidrs(s.Ranges)}
		if wide {
			var peers []string
			for _, p := range s.Peers {
				peers = append(peers, topology.Arrow(p)+p.Network)
			}
			line = append(line, cidrs(s.ServiceRanges), s.Isolation, strings.Join(peers, " "))
		}
		lines = append(lines, line)
	}
	columns(text, lines...)
}

// freeOf is what is left of the fullest range.
func freeOf(ranges []api.Range) string {
	if len(ranges) == 0 {
		return ""
	}
	least := ranges[0].Free
	for _, r := range ranges {
		least = min(least, r.Free)
	}
	return fmt.Sprint(least)
}

func cidrs(ranges []api.Range) string {
	var out []string
	for _, r := range ranges {
		out = append(out, r.CIDR)
	}
	return strings.Join(out, " ")
}

func networkCommand() *cobra.Command {
	var o asked
	cmd := &cobra.Command{
		Use:   "network NAME",
		Short: "Show what a Network consists of: ranges, peers, nodes, Services, policies, and rows in OVN",
		Example: `  atoll network red
  atoll network red -o yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runNetwork(cmd.Context(), o, args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.flags(cmd)
	completed(cmd, 1, &o.kubeconfig, networkNames)
	return cmd
}

func runNetwork(ctx context.Context, o asked, name string, out, problems io.Writer) error {
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	n, note, err := remote.Network(ctx, name)
	if err != nil {
		return whyNot("network", err)
	}
	return o.show(out, problems, "Network", networkAnswer(n, note))
}

func networkAnswer(n api.Network, note string) answered {
	return answered{
		value: n, names: []string{"network/" + n.Name}, note: note,
		table: func(text *strings.Builder, wide bool) { networkTable(text, n, wide) },
	}
}

// maxNames is how many names a line has; wide has all.
const maxNames = 8

func networkTable(text *strings.Builder, n api.Network, wide bool) {
	s := n.Status
	state := s.Phase
	if s.Reason != "" && s.Reason != s.Phase {
		state += ", " + s.Reason
	}
	lines := [][]string{{"Network", n.Name}, {"Type", s.Type}, {"Tenant", s.Tenant}, {"Phase", state}}
	if s.Message != "" {
		lines = append(lines, []string{"", s.Message})
	}
	lines = append(lines, []string{"Isolation", s.Isolation}, []string{"Pods", fmt.Sprint(s.Pods)})
	d := s.Detail
	if d == nil {
		d = &api.NetworkDetail{}
	}
	for _, list := range []struct {
		head  string
		names []string
	}{{"Namespaces", d.Namespaces}, {"Policies", d.Policies}, {"Gateways", d.Gateways}} {
		lines = append(lines, []string{list.head, some(list.names, wide)})
	}
	rows(text, lines)
	ranges := [][]string{{"RANGE", "OF", "GATEWAY", "USED", "FREE"}}
	for _, r := range s.Ranges {
		ranges = append(ranges, []string{r.CIDR, "subnet " + r.Subnet, r.Gateway, fmt.Sprint(r.Used), fmt.Sprint(r.Free)})
	}
	for _, r := range s.ServiceRanges {
		ranges = append(ranges, []string{r.CIDR, "Services", "", fmt.Sprint(r.Used), fmt.Sprint(r.Free)})
	}
	table(text, ranges)
	peers := [][]string{{"PEER", "DIRECTION", "MODE", "STATE", "WHY"}}
	for _, p := range s.Peers {
		peers = append(peers, []string{p.Network, p.Direction, p.Mode, p.State, p.Message})
	}
	table(text, peers)
	nodes := [][]string{{"NODE", "PODS"}}
	for _, on := range d.Nodes {
		nodes = append(nodes, []string{on.Node, fmt.Sprint(on.Pods)})
	}
	table(text, nodes)
	services := [][]string{{"SERVICE", "ADDRESSES"}}
	for _, service := range d.Services {
		services = append(services, []string{service.Name, strings.Join(service.Addresses, " ")})
	}
	table(text, services)
	found := [][]string{{"ROW", "THERE", "PORTS"}}
	for _, r := range d.Rows {
		found = append(found, []string{r.Table + " " + r.Name, word(r.There), fmt.Sprint(r.Ports)})
	}
	table(text, found)
	if d.Problem != "" {
		fmt.Fprintf(text, "\nOVN's rows are not known: %s\n", snapshot.Printable(d.Problem))
	}
}

// table is a section, unless it has no lines but its head.
func table(text *strings.Builder, lines [][]string) {
	if len(lines) > 1 {
		text.WriteByte('\n')
		rows(text, lines)
	}
}

// rows writes lines below one another whose last cells may be long.
func rows(text *strings.Builder, lines [][]string) {
	out := tabwriter.NewWriter(text, 0, 0, 3, ' ', 0)
	for _, line := range lines {
		for i, c := range line {
			if c = snapshot.Printable(c); c == "" && i > 0 {
				c = nothing
			}
			line[i] = c
		}
		fmt.Fprintln(out, strings.Join(line, "\t"))
	}
	_ = out.Flush() // a strings.Builder takes everything
}

// some are names in a line: all if wide, else the first.
func some(names []string, wide bool) string {
	if wide || len(names) <= maxNames {
		return strings.Join(names, " ")
	}
	return fmt.Sprintf("%s and %s", strings.Join(names[:maxNames], " "), model.Count(len(names)-maxNames, "more"))
}
