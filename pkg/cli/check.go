package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/inspect/check"
)

// The formats of a report.
const (
	formatTable = "table"
	formatJSON  = "json"
)

type checkOptions struct {
	kubeconfig string
	nbAddress  string
	sbAddress  string
	ovsAddress string
	node       string
	output     string
	repair     bool
	timeout    time.Duration
	settle     time.Duration
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare what OVN and the nodes have with what the cluster's objects ask for",
		Long: `Compile every Network and pod afresh, with the controller's own code, and compare the result with
OVN's databases: rows, columns, references, annotations, statuses, and whether each pod's port is
up on its node. Also ask every node's agent whether the node has the ports, portholes, rules and
routes that it should have. The command writes nothing, and does not disturb a running controller.

With --repair, agents repair their nodes. The databases are the controller's, which repairs them by
itself.

A kubeconfig with ClusterRole atoll-check is enough; --repair also needs atoll-repair. With
--nb-address no agent is asked.

Exit status: 0 no difference; 1 there are differences, or ports that are not up; 2 the command could
not check, or not every node.`,
		Example: `  atoll check
  atoll check --repair
  atoll check --nb-address unix:/var/run/ovn/ovnnb_db.sock --sb-address unix:/var/run/ovn/ovnsb_db.sock
  atoll check --node n1 --ovs-db unix:/var/run/openvswitch/db.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCheck(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.nbAddress, "nb-address", "", nbAddressHelp)
	f.StringVar(&o.sbAddress, "sb-address", "",
		"servers of the southbound database; with --nb-address alone, the state of ports is not checked")
	f.StringVar(&o.node, "node", "", "check the interfaces of the pods of this node, in the database of --ovs-db")
	f.StringVar(&o.ovsAddress, "ovs-db", "unix:/var/run/openvswitch/db.sock", "the node's Open vSwitch database")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.BoolVar(&o.repair, "repair", false, "have the agents of nodes put right what differs there")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long the check may take")
	f.DurationVar(&o.settle, "settle", 5*time.Second, "how long a difference must last to count")
	return cmd
}

// runCheck looks, prints what it found, and returns ErrDifferences if that is anything.
func runCheck(ctx context.Context, o checkOptions, out io.Writer) error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	if o.settle >= o.timeout {
		return errors.New("--settle must be shorter than --timeout")
	}
	if o.repair && o.nbAddress != "" {
		return errors.New("--repair: the nodes' agents are asked by way of the API server, and not with --nb-address")
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	query := check.Query{
		Kubeconfig: o.kubeconfig, Northbound: addresses(o.nbAddress), Southbound: addresses(o.sbAddress), Node: o.node, Switch: o.ovsAddress,
		Settle: o.settle,
		Nodes:  o.nbAddress == "", Repair: o.repair,
	}
	report, err := check.Run(ctx, query)
	if err != nil {
		return fmt.Errorf("check: %w", err)
	}
	if err := printReport(out, report, o.output); err != nil {
		return err
	}
	switch {
	case len(report.Differences) > 0:
		return ErrDifferences
	case !report.Whole():
		return errors.New("check: not every node was looked at")
	}
	return nil
}
