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
	"github.com/atoll-net/atoll/pkg/inspect/matrix"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// ErrUnexpected is the error of a matrix that worked and found paths on which packets do not do what is expected, which have been printed.
var ErrUnexpected = errors.New("packets do not do what is expected")

// Times of a matrix.
const (
	// matrixTimeout is how long all of it may take by itself: 1,560 paths, four at once, none answered.
	matrixTimeout = 10 * time.Minute
	// matrixWait is how long the answer to a packet is waited for, matrixSettle how long before a path is tried again that is not as expected.
	matrixWait   = time.Second
	matrixSettle = time.Second
)

type matrixOptions struct {
	asked
	tenant, protocol string
	port             uint16
	podsPer          int
}

func matrixCommand() *cobra.Command {
	var o matrixOptions
	cmd := &cobra.Command{
		Use:   "matrix [NETWORK [NETWORK]]",
		Short: "Send packets between all pods of Networks, and compare with what is expected",
		Long: `Send real packets from each pod to each other pod: of one Network, of two, or of all Networks of a
tenant. Compare what happens with what atoll explain expects of the same path. Packets are sent as by
atoll ping: nothing has to be in the pods' images.

At most --pods-per pods of each Network take part: one of each namespace on each node, then more of
each; 40 in all. The command says how many it left out. A path that is not as expected is tried twice
more before it is reported. A path that could not be tried has a note with the reason.

A kubeconfig is enough. You need the right to create pods/ping in the pods' namespaces, which edit
and admin have there.

Exit status: 0 every path is as expected; 1 one is not; 2 not all paths could be tried.`,
		Example: `  atoll matrix red
  atoll matrix red blue
  atoll matrix red --port 8080 -o wide
  atoll matrix --tenant acme --pods-per 1`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMatrix(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&o.output, "output", "o", formatTable, "table, wide, json or yaml")
	f.DurationVar(&o.timeout, "timeout", matrixTimeout, "how long all of it may take")
	f.StringVar(&o.tenant, "tenant", "", "the Networks of this tenant")
	f.Uint16Var(&o.port, "port", 0, "make connections to this port instead of sending echo requests")
	f.StringVar(&o.protocol, "protocol", "", "icmp, tcp or udp (default: tcp with --port, else icmp)")
	f.IntVar(&o.podsPer, "pods-per", 4, "how many pods of each Network at most")
	completed(cmd, 2, &o.kubeconfig, networkNames)
	completedFlag(cmd, "tenant", &o.kubeconfig, tenantNames)
	return cmd
}

// spec is what is asked for.
func (o matrixOptions) spec(networks []string) (matrix.Spec, error) {
	s := matrix.Spec{
		Networks: networks, Tenant: o.tenant, Protocol: model.Protocol(strings.ToLower(o.protocol)), Port: o.port, PodsPer: o.podsPer,
		Timeout: matrixWait, Settle: matrixSettle,
	}
	if s.Protocol == "" {
		s.Protocol = trace.ICMP
		if s.Port != 0 {
			s.Protocol = model.TCP
		}
	}
	if formats := []string{formatTable, formatWide, formatJSON, formatYAML}; !slices.Contains(formats, o.output) {
		return s, fmt.Errorf("--output: %q is none of %s", o.output, strings.Join(formats, ", "))
	}
	return s, s.Check()
}

// runMatrix sends and prints, and returns ErrUnexpected when a path is not as expected.
func runMatrix(ctx context.Context, o matrixOptions, networks []string, out, problems io.Writer) error {
	spec, err := o.spec(networks)
	if err != nil {
		return err
	}
	remote, err := o.remote()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	m, err := matrix.Of(ctx, remote, spec, progressOf(problems))
	if err != nil {
		return whyNot("matrix", err)
	}
	if err := o.print(out, problems, "matrix", matrixAnswer(m)); err != nil {
		return err
	}
	switch {
	case m.Differing > 0:
		return ErrUnexpected
	case m.Untried > 0:
		return fmt.Errorf("matrix: nothing was found that is not as expected, and %s of %d could not be tried", model.Count(m.Untried, "path"),
			len(m.Paths))
	}
	return nil
}

// progressOf shows on a terminal how far it is, and elsewhere nothing.
func progressOf(out io.Writer) func(tried, all int) {
	if !isTerminal(out) {
		return func(int, int) {}
	}
	return func(tried, all int) {
		text := fmt.Sprintf("\r\x1b[2K%d of %s", tried, model.Count(all, "path"))
		if tried == all {
			text = "\r\x1b[2K"
		}
		_, _ = io.WriteString(out, text) // Nobody needs it.
	}
}
