package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/ovsdb"
	"github.com/atoll-net/atoll/pkg/trace"
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
		Short: "Say which policy's rule decides about a packet",
		Long: `Follows the first packet of a connection through the ACLs that the northbound database has: those about what
its source may send, after load balancing, and those about what its destination may receive.

FROM and TO are pods (NAMESPACE/NAME) or addresses, at least one of them a pod; TO may be a Service (svc/NAMESPACE/NAME).
It writes nothing, and sends nothing.

It ends with status 0 when the packet passes, 1 when it is dropped, 2 when it could not be followed.`,
		Example: `  atoll policy trace red/web-0 red/db-0 --port 5432
  atoll policy trace red/web-0 svc/red/db --port 5432
  atoll policy trace red/web-0 1.1.1.1 --port 53 --protocol udp
  atoll policy trace 192.0.2.7 red/web-0 --port 80`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runTrace(cmd.Context(), o, args[0], args[1], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.nbAddress, "nb-address", defaultNB, "servers of the northbound database, separated by commas")
	f.Uint16Var(&o.port, "port", 0, "port that the packet goes to")
	f.StringVar(&o.protocol, "protocol", string(model.TCP), "tcp, udp, sctp or icmp")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long it may take")
	return cmd
}

// runTrace follows the packet, prints what becomes of it, and returns ErrDropped when it does not pass.
func runTrace(ctx context.Context, o traceOptions, from, to string, out io.Writer) error {
	ask, err := parseQuestion(o, from, to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	heard := &lastWarning{}
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: strings.Split(o.nbAddress, ","), Log: logTo(heard)})
	if err != nil {
		return fmt.Errorf("trace: %w", heard.explain(err))
	}
	defer session.Close()
	t := tracer{
		rows:    trace.New(session.Rows),
		cluster: func() (model.Changes, error) { return clusterObjects(ctx, o.kubeconfig, heard) },
	}
	result, err := t.trace(ask)
	if err != nil {
		return fmt.Errorf("trace: %w", heard.explain(err))
	}
	if err := result.Print(out, o.output); err != nil {
		return err
	}
	if result.dropped() > 0 {
		return ErrDropped
	}
	return nil
}

func logTo(heard *lastWarning) *slog.Logger { return slog.New(heard) }

// question is what a trace is asked for.
type question struct {
	from, to end
	protocol model.Protocol
	port     uint16
}

// end is one end of a connection: one of its fields is set.
type end struct {
	pod     model.PodKey
	service model.ServiceKey
	address netip.Addr
}

func (e end) String() string {
	switch {
	case e.address.IsValid():
		return e.address.String()
	case e.service != (model.ServiceKey{}):
		return "svc/" + e.service.String()
	}
	return e.pod.String()
}

func parseQuestion(o traceOptions, from, to string) (question, error) {
	q := question{protocol: model.Protocol(strings.ToLower(o.protocol)), port: o.port}
	if err := checkOutput(o.output); err != nil {
		return q, err
	}
	switch {
	case !slices.Contains([]model.Protocol{model.TCP, model.UDP, model.SCTP, trace.ICMP}, q.protocol):
		return q, fmt.Errorf("--protocol: %q is none of tcp, udp, sctp and icmp", o.protocol)
	case q.protocol == trace.ICMP && q.port != 0:
		return q, errors.New("--port: icmp has no ports")
	case q.protocol != trace.ICMP && q.port == 0:
		return q, fmt.Errorf("--port: name the port that the %s packet goes to", q.protocol)
	}
	var err error
	if q.from, err = parseEnd(from); err != nil {
		return q, err
	}
	if q.to, err = parseEnd(to); err != nil {
		return q, err
	}
	switch {
	case q.from.service != (model.ServiceKey{}):
		return q, fmt.Errorf("%s: a Service begins no connections", from)
	case q.from.address.IsValid() && q.to.pod == (model.PodKey{}):
		return q, fmt.Errorf("from %s to %s: one of them must be a pod, NAMESPACE/NAME, by which the Network is known", from, to)
	case q.from == q.to:
		return q, fmt.Errorf("%s: what a pod sends to itself never leaves it", from)
	}
	return q, nil
}

func parseEnd(text string) (end, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		if a.Is4In6() || a.Zone() != "" {
			return end{}, fmt.Errorf("%s: write an IPv4 address as IPv4, and one of IPv6 without a zone", text)
		}
		return end{address: a}, nil
	}
	words := strings.Split(text, "/")
	switch {
	case slices.Contains(words, ""):
	case len(words) == 2:
		return end{pod: model.PodKey{Namespace: words[0], Name: words[1]}}, nil
	case len(words) == 3 && slices.Contains([]string{"svc", "service"}, words[0]):
		return end{service: model.ServiceKey{Namespace: words[1], Name: words[2]}}, nil
	case len(words) == 3 && slices.Contains([]string{"po", "pod"}, words[0]):
		return end{pod: model.PodKey{Namespace: words[1], Name: words[2]}}, nil
	}
	return end{}, fmt.Errorf("%q is neither NAMESPACE/POD, nor svc/NAMESPACE/NAME, nor an address", text)
}
