package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/node/nodeapi"
)

const ofctl = "ovs-ofctl"

// ofctlOptions are the flags of atoll ofctl.
type ofctlOptions struct {
	nodeOptions
	output string
	// all: a pod names its node, and nothing is left out.
	all bool
}

func ofctlCommand() *cobra.Command {
	var o ofctlOptions
	cmd := &cobra.Command{
		Use:   "ofctl (--node NODE | --pod POD [--all]) [--write] [-o FORMAT] [--kubeconfig FILE] COMMAND BRIDGE ARGS...",
		Short: "Run ovs-ofctl on a bridge of a node, by way of the API server",
		Long: `Run ovs-ofctl, which must be installed on this machine, on a bridge of a node's Open vSwitch; br-int
is OVN's. The API server and the node's atoll-agent connect it: a kubeconfig is enough. The connection
only reads flows, ports, groups, meters and tables.

` + nodeRights + ` ovn-controller does not put back what others write into its bridge.

With --pod, dump-flows, dump-ports and dump-ports-desc print what concerns the pod, and standard error
says what was kept. --all prints all of the bridge, as --node does, and as all other commands do.

"-o table", wide or json prints dump-flows and dump-ports as a table, or for programs. A table cuts
long cells.

The flags of this command come first. From the first argument on that is none of them, all are for
ovs-ofctl. Exit status: that of ovs-ofctl; 2 if it could not be run.`,
		Example: `  atoll ofctl --node n1 dump-flows br-int table=0
  atoll ofctl --pod red/web-0 -o wide dump-flows br-int
  atoll ofctl --node n1 show br-int`,
		// Most flags are not ours.
		DisableFlagParsing: true,
	}
	o.flags(cmd.Flags())
	cmd.Flags().Lookup("pod").Usage = "the node that this pod is on, NAMESPACE/NAME, and what there concerns it"
	cmd.Flags().BoolVar(&o.all, "all", false, "with --pod: all of the bridge")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "of dump-flows and dump-ports: table, wide or json (default: what ovs-ofctl prints)")
	o.completeOwn(cmd)
	cmd.RunE = o.run("ofctl", func(cmd *cobra.Command, rest []string) error {
		return o.do(cmd.Context(), rest, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	return cmd
}

// do runs the program on a socket that has the bridge's name.
func (o ofctlOptions) do(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) error {
	path, err := lookPath(ofctl)
	if err != nil {
		return err
	}
	command, bridge := bridgeOf(args)
	if !nodeapi.IsBridgeName(bridge) {
		return fmt.Errorf("%q is no bridge of the node: write COMMAND BRIDGE, such as dump-flows br-int", bridge)
	}
	if err := o.checkOutput(command); err != nil {
		return err
	}
	place, err := o.place(ctx)
	if err != nil {
		return err
	}
	q := o.query(place, api.NodeOpenFlow, bridge)
	tunnel, err := connect.OpenTunnel(ctx, q)
	if err != nil {
		return err
	}
	defer tunnel.Close()
	refusals := &watched{to: problems, word: []byte("OFPBRC_EPERM")}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, refusals
	// It looks for BRIDGE.mgmt there.
	cmd.Env = append(withoutOVN(os.Environ()), "OVS_RUNDIR="+tunnel.Dir())
	var text bytes.Buffer
	if o.output != "" {
		cmd.Stdout = &text
	}
	kept, err := o.keptOf(ctx, q, place, cmd)
	if err != nil {
		return err
	}
	if err := runThrough(cmd, tunnel, problems); err != nil {
		if refusals.seen && !o.write {
			fmt.Fprintln(problems, "atoll: this connection only reads. Ask for one that writes (--write)")
		}
		return err
	}
	if kept != nil {
		if err := kept.flush(); err != nil {
			return fmt.Errorf("write %s: %w", command, err)
		}
		fmt.Fprintln(problems, "atoll:", kept.said())
	}
	if o.output == "" {
		return nil
	}
	if command == dumpPorts {
		return printPortCounts(text.Bytes(), bridge, o.output, out)
	}
	return printFlowTable(&text, o.output, out)
}

// The commands that there are tables of.
const (
	dumpFlows = "dump-flows"
	dumpPorts = "dump-ports"
)

func (o ofctlOptions) checkOutput(command string) error {
	switch {
	case o.output == "":
		return nil
	case !slices.Contains([]string{formatTable, formatWide, formatJSON}, o.output):
		return fmt.Errorf("--output: %q is none of %s, %s, %s", o.output, formatTable, formatWide, formatJSON)
	case command != dumpFlows && command != dumpPorts:
		return errors.New("--output is for " + dumpFlows + " and " + dumpPorts + " alone")
	}
	return nil
}

// ofctlValued are the options of ovs-ofctl(8) whose value is the next argument.
var ofctlValued = []string{
	"-O", "--protocols", "-F", "--flow-format", "-P", "--packet-in-format", "-t", "--timeout", "-p", "--private-key", "-c", "--certificate",
	"-C", "--ca-cert",
	"--bootstrap-ca-cert", "--ssl-protocols", "--ssl-ciphers", "--unixctl",
}

// bridgeOf are the first two of the program's arguments that are no options: its command, and the bridge.
func bridgeOf(args []string) (command, bridge string) {
	var words []string
	for i := 0; i < len(args) && len(words) < 2; i++ {
		switch {
		case slices.Contains(ofctlValued, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			words = append(words, args[i])
		}
	}
	words = append(words, "", "")
	return words[0], words[1]
}

// protocolsOf are the program's options about versions of OpenFlow.
func protocolsOf(args []string) (out []string) {
	for i, a := range args {
		switch name, _, joined := strings.Cut(a, "="); {
		case (a == "-O" || name == "--protocols" && !joined) && i+1 < len(args):
			out = append(out, a, args[i+1])
		case joined && name == "--protocols", strings.HasPrefix(a, "-O") && len(a) > len("-O"):
			out = append(out, a)
		}
	}
	return out
}

// watched is what is written to, and whether there was a word in it.
type watched struct {
	to   io.Writer
	word []byte
	// last is the end of what was written before, in which the word may have begun.
	last []byte
	seen bool
}

// Write implements io.Writer.
func (w *watched) Write(p []byte) (int, error) {
	all := slices.Concat(w.last, p)
	w.seen = w.seen || bytes.Contains(all, w.word)
	w.last = bytes.Clone(all[max(0, len(all)-len(w.word)+1):])
	return w.to.Write(p)
}
