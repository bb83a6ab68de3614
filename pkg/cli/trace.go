package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/policytrace"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

type traceOptions struct {
	kubeconfig string
	nbAddress  string
	protocol   string
	port       uint16
	output     string
	timeout    time.Duration
}

func traceCommand() *cobra.Command {
	var o traceOptions
	cmd := &cobra.Command{
		Use:   "trace FROM TO",
		Short: "Show which policy's rule decides about a packet",
		Long: `Follow the first packet of a connection through the ACLs that the northbound database has now: first
those about what its source may send, after load balancing, then those about what its destination may
receive.

FROM and TO are pods (NAMESPACE/NAME) or addresses, at least one of them a pod. TO may be a Service
(svc/NAMESPACE/NAME). The command writes nothing and sends nothing.

A kubeconfig with ClusterRole atoll-check is enough.

Exit status: 0 the packet passes; 1 it is dropped on at least one path; 2 the command could not
follow it.`,
		Example: `  atoll policy trace red/web-0 red/db-0 --port 5432
  atoll policy trace red/web-0 svc/red/web --port 80
  atoll policy trace red/web-0 1.1.1.1 --port 53 --protocol udp
  atoll policy trace 192.0.2.7 red/web-0 --port 80
  atoll policy trace red/web-0 red/db-0 --protocol icmp`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTrace(cmd.Context(), o, args[0], args[1], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.nbAddress, "nb-address", "", nbAddressHelp)
	f.Uint16Var(&o.port, "port", 0, "port that the packet goes to")
	f.StringVar(&o.protocol, "protocol", string(model.TCP), "tcp, udp, sctp or icmp")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long it may take")
	return cmd
}

// runTrace follows the packet, prints what becomes of it, and returns ErrDropped when it does not pass.
func runTrace(ctx context.Context, o traceOptions, from, to string, out io.Writer) error {
	query, err := parseTrace(o, from, to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	result, err := policytrace.Follow(ctx, connect.Servers{Kubeconfig: o.kubeconfig, Northbound: addresses(o.nbAddress)}, query)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if err := printTrace(out, result, o.output); err != nil {
		return err
	}
	if result.Dropped() > 0 {
		return ErrDropped
	}
	return nil
}

func parseTrace(o traceOptions, from, to string) (policytrace.Query, error) {
	q := policytrace.Query{Protocol: model.Protocol(strings.ToLower(o.protocol)), Port: o.port}
	if err := checkOutput(o.output); err != nil {
		return q, err
	}
	switch {
	case !slices.Contains([]model.Protocol{model.TCP, model.UDP, model.SCTP, trace.ICMP}, q.Protocol):
		return q, fmt.Errorf("--protocol: %q is none of tcp, udp, sctp and icmp", o.protocol)
	case q.Protocol == trace.ICMP && q.Port != 0:
		return q, errors.New("--port: icmp has no ports")
	case q.Protocol != trace.ICMP && q.Port == 0:
		return q, fmt.Errorf("--port: name the port that the %s packet goes to", q.Protocol)
	}
	var err error
	if q.From, err = question.ParseEnd(from); err != nil {
		return q, err
	}
	if q.To, err = question.ParseEnd(to); err != nil {
		return q, err
	}
	return q, q.Check()
}
