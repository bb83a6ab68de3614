package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// nodeOptions are the flags of commands about a node's Open vSwitch and OVN.
type nodeOptions struct {
	kubeconfig, node, pod string
	write                 bool
}

func (o *nodeOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.node, "node", "", "the node")
	f.StringVar(&o.pod, "pod", "", "the node that this pod is on, NAMESPACE/NAME")
	f.BoolVar(&o.write, "write", false, "may write, too")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
}

// nodeRights says what it takes; it is part of each command's help.
const nodeRights = `Whoever reads a node sees what all tenants' pods on it do. ClusterRole atoll-node-reader has the right,
and no tenant's admin. With --write the connection writes, too, which takes ClusterRole
atoll-node-admin.`

// on says which socket of the node is meant.
func (o nodeOptions) on(ctx context.Context, socket, bridge string) (connect.TunnelQuery, error) {
	place, err := o.place(ctx)
	return o.query(place, socket, bridge), err
}

func (o nodeOptions) query(place client.PodPlace, socket, bridge string) connect.TunnelQuery {
	return connect.TunnelQuery{Kubeconfig: o.kubeconfig, Node: place.Node, Socket: socket, Bridge: bridge, Write: o.write}
}

// place is the node, with the pod by which it was named, if it was.
func (o nodeOptions) place(ctx context.Context) (client.PodPlace, error) {
	place := client.PodPlace{Node: o.node}
	if (o.node == "") == (o.pod == "") {
		return place, errors.New("name a node with --node, or a pod on it with --pod")
	}
	if o.pod == "" {
		return place, nil
	}
	key, err := parsePodName(o.pod)
	if err != nil {
		return place, fmt.Errorf("--pod: %w", err)
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return place, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return remote.PlaceOf(ctx, key)
}

// nodeNames are those of nodes.
func nodeNames(ctx context.Context, remote *client.Remote, _ string) []string {
	return remote.NodeNames(ctx)
}

// complete has nodes and pods completed where a shell asks for their flags' values.
func (o *nodeOptions) complete(cmd *cobra.Command) {
	completedFlag(cmd, "node", &o.kubeconfig, nodeNames)
	completedFlag(cmd, "pod", &o.kubeconfig, podNames)
}

// completeOwn does the same for a command whose flags cobra does not read.
func (o *nodeOptions) completeOwn(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		own, rest := splitFlags(args, cmd.Flags())
		asked := ""
		if len(rest) == 1 {
			asked = rest[0]
		}
		ask, known := map[string]names{"--node": nodeNames, "--pod": podNames}[asked]
		if err := cmd.Flags().Parse(own); err != nil || !known {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(cmd, &o.kubeconfig, ask, typed)
	}
}

// run has the command's own flags read, and calls run with the rest. What asks for help, or for nothing, is given help.
func (o *nodeOptions) run(name string, run func(cmd *cobra.Command, rest []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		own, rest := splitFlags(args, cmd.Flags())
		if err := cmd.Flags().Parse(own); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(rest) == 0 || slices.Contains([]string{"-h", "--help"}, rest[0]) {
			return cmd.Help()
		}
		if err := run(cmd, rest); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
}

// lookPath finds a program of Open vSwitch's.
func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf(
			"%s is not installed here, or not in PATH: install Open vSwitch's client programs (Debian, Ubuntu: "+
				"openvswitch-common; Fedora: openvswitch)", program)
	}
	return path, nil
}

// printableText is a text of several lines as it may go to a terminal.
func printableText(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(line, "\t")
		for j := range parts {
			parts[j] = snapshot.Printable(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
