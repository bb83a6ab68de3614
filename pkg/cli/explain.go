package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// ErrStopped is the error of an explanation that worked and found that a packet does not arrive; why has been printed.
var ErrStopped = errors.New("the packet is stopped")

// formatWide is the table with the way back.
const formatWide = "wide"

type explainOptions struct {
	kubeconfig, nbAddress, sbAddress string
	network, protocol, output        string
	port                             uint16
	raw, send                        bool
	timeout                          time.Duration
}

func explainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain FROM TO",
		Short: "Follow a packet from one end to the other, and name the first thing that stops it",
		Long: `Follow the first packet of a connection, and the answer: name, load balancer, switch, router,
compatibility of Networks, policies at both ends, portholes, and what a Network may reach outside
itself. Name the first thing that stops the packet, and what to change. A Service is followed to
each of its endpoints.

FROM is a pod (NAMESPACE/NAME), node/NAME, an address, or outside. TO is one of these,
svc/NAMESPACE/NAME, or a name that the sending pod's resolver finds. An address means what it means
to the sender, unless --network names its Network.

The answer follows from the rows that OVN's northbound database has now. Where these differ from what
the cluster's objects ask for, it says so. The command writes nothing and sends nothing.

--send proves the answer: the agent of FROM's node sends a real, marked packet to each address, and
the agents of the nodes on the path report where they see it and its answer. FROM must be a pod, and
you need the right to create pods/ping in its namespace, which edit and admin have there.

A kubeconfig is enough. If you may ask about some namespaces only, you learn of others whether the
packet arrives, and nothing else. If the API inspect.atoll.dev does not answer, the command shows what
Kubernetes knows of the pods at the ends.

Exit status: 0 the packet arrives on every path that it may take; 1 it is stopped on one; 2 the
command could not tell; 3 with --send, a packet did not go as explained.`,
		Example: `  atoll explain red/web-0 red/db-0 --port 5432
  atoll explain red/web-0 db.red.svc --port 5432
  atoll explain blue/web-0 svc/red/db --port 5432 -o wide
  atoll explain node/n1 red/web-0 --port 8080
  atoll explain red/web-0 outside --port 443
  atoll explain red/web-0 red/db-0 --port 5432 --send
  atoll explain 10.0.0.2 red/db-0 --network red --protocol icmp`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExplain(cmd.Context(), o, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.nbAddress, "nb-address", "",
		"read this northbound database itself (servers separated by commas), and do not ask the API inspect.atoll.dev")
	f.StringVar(&o.sbAddress, "sb-address", "",
		"with --nb-address: servers of the southbound database; without, the state of ports is not checked")
	f.BoolVar(&o.raw, "raw", false, "show the rows underneath, too; by the API this takes create on explanations/raw, in the whole cluster")
	f.BoolVar(&o.send, "send", false, "prove it by a real packet, and show where it is seen")
	f.StringVar(&o.network, "network", "", "the Network of an address")
	f.Uint16Var(&o.port, "port", 0, "port that is dialled")
	f.StringVar(&o.protocol, "protocol", string(model.TCP), "tcp, udp, sctp or icmp")
	f.StringVarP(&o.output, "output", "o", formatTable, "table, wide, json or yaml")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long it may take")
	completed(cmd, 2, &o.kubeconfig, podNames)
	completedFlag(cmd, "network", &o.kubeconfig, networkNames)
	return cmd
}

// runExplain answers the question, prints the answer, and returns ErrStopped when the packet does not arrive.
func runExplain(ctx context.Context, o explainOptions, from, to string, out, problems io.Writer) error {
	q, err := parseExplain(o, from, to)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	ask := o.byAPI
	if o.nbAddress != "" {
		ask = o.byDatabase
	}
	answer, err := ask(ctx, q, from, to)
	if unexplained, ok := errors.AsType[*client.UnexplainedError](err); ok {
		for _, p := range unexplained.Seen {
			if err := printTable(problems, "explanation", func(text *strings.Builder) { podTable(text, p) }); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return whyNot("explain", err)
	}
	if err := printExplanation(out, answer, o.output); err != nil {
		return err
	}
	if err := sentError(answer, o.send); err != nil {
		return err
	}
	if !answer.Reached {
		return ErrStopped
	}
	return nil
}

// byAPI has somebody answer who has the databases.
func (o explainOptions) byAPI(ctx context.Context, _ question.Question, from, to string) (explain.Explanation, error) {
	if o.sbAddress != "" {
		return explain.Explanation{}, errors.New("--sb-address goes with --nb-address")
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return explain.Explanation{}, err
	}
	return remote.Explain(ctx, o.spec(from, to))
}

// byDatabase reads the databases itself.
func (o explainOptions) byDatabase(ctx context.Context, q question.Question, _, _ string) (explain.Explanation, error) {
	if o.send {
		return explain.Explanation{}, errors.New("--send: the API inspect.atoll.dev has packets sent: leave out --nb-address")
	}
	access := connect.Servers{Kubeconfig: o.kubeconfig, Northbound: addresses(o.nbAddress), Southbound: addresses(o.sbAddress)}
	world, err := explain.ReadWorld(ctx, access)
	if err != nil {
		return explain.Explanation{}, err
	}
	defer world.Close()
	if o.raw {
		return explain.Raw(world, q)
	}
	return explain.Explain(world, q)
}

func parseExplain(o explainOptions, from, to string) (question.Question, error) {
	q := question.Question{Protocol: model.Protocol(strings.ToLower(o.protocol)), Port: o.port, Network: o.network}
	if formats := []string{formatTable, formatWide, formatJSON, formatYAML}; !slices.Contains(formats, o.output) {
		return q, fmt.Errorf("--output: %q is none of %s", o.output, strings.Join(formats, ", "))
	}
	var err error
	if q.From, err = question.ParsePlace(from); err != nil {
		return q, err
	}
	if q.To, err = question.ParsePlace(to); err != nil {
		return q, err
	}
	if err := q.Check(); err != nil || !o.send {
		return q, err
	}
	_, err = explain.SenderOf(o.spec(from, to))
	return q, err
}

// spec is the question as the API has it.
func (o explainOptions) spec(from, to string) api.ExplanationSpec {
	return api.ExplanationSpec{
		From: from, To: to, Network: o.network, Protocol: strings.ToLower(o.protocol), Port: o.port, Raw: o.raw, Send: o.send,
	}
}

// printExplanation writes an explanation in a format: table, wide, json or yaml.
func printExplanation(out io.Writer, e explain.Explanation, format string) error {
	value := struct {
		explain.Explanation
		Verdict string `json:"verdict"`
	}{e, e.Verdict()}
	switch format {
	case formatJSON:
		return printJSON(out, "explanation", value)
	case formatYAML:
		return printYAML(out, "explanation", value)
	}
	return printTable(out, "explanation", func(text *strings.Builder) { explanationTable(text, e, format == formatWide) })
}

// The marks of steps.
const (
	markOK   = "ok"
	markStop = "STOP"
)

func explanationTable(text *strings.Builder, e explain.Explanation, wide bool) {
	table := tabwriter.NewWriter(text, 0, 0, 2, ' ', 0)
	line := func(h explain.Hop) {
		mark := markOK
		if !h.OK {
			mark = markStop
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", mark, h.Layer, cell(h.Network), cell(h.Node), snapshot.Printable(h.What))
	}
	fmt.Fprintln(table, "\tLAYER\tNETWORK\tNODE\tWHAT HAPPENS")
	for i, w := range e.Ways {
		if len(e.Ways) > 1 {
			fmt.Fprintf(table, "way %d of %d\t\t\t\t%s\n", i+1, len(e.Ways), w.Dialled)
		}
		for _, h := range w.There {
			line(h)
		}
		if wide && len(w.Back) > 0 {
			fmt.Fprintln(table, "back\t\t\t\t")
			for _, h := range w.Back {
				line(h)
			}
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	for i, d := range e.Drift {
		if i == 0 {
			fmt.Fprintf(text, "\nThe rows differ from what the objects ask for (atoll check says what lasts):\n")
		}
		if i == maxDrift {
			fmt.Fprintf(text, "  and %d more (-o json has all)\n", len(e.Drift)-maxDrift)
			break
		}
		fmt.Fprintf(text,
			"  %s\n",
			snapshot.Printable(
				strings.TrimSpace(fmt.Sprintf("%s: %s %s %s, want %s, have %s", d.Owner, d.Kind, d.Object, d.Column, cell(d.Want), cell(d.Have)))))
	}
	for i, row := range e.Raw {
		if i == 0 {
			fmt.Fprintln(text, "\nRows underneath:")
		}
		fmt.Fprintln(text, " ", snapshot.Printable(row))
	}
	fmt.Fprintf(text, "\n%s\n", snapshot.Printable(e.Verdict()))
	if line := e.Unsettled(); line != "" {
		fmt.Fprintln(text, snapshot.Printable(line))
	}
	sentTable(text, e)
	if wide {
		fmt.Fprintf(text, "Read: %s.\n", e.Sources)
	}
}

// maxDrift is how many differences the table has.
const maxDrift = 10
