package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
	"github.com/atoll-net/atoll/pkg/ovn/trace"
)

// ErrLost is the error of a ping that worked, and of whose packets some were not answered, which has been printed.
var ErrLost = errors.New("packets were not answered")

// pingQuestion is how long one question may take: what takes longer is asked in parts, each of which is allowed anew.
const pingQuestion = 20 * time.Second

// The bounds of what one ping may send.
const (
	maxPings = 10000
	// pingSlack is how much longer than its packets a question may take.
	pingSlack = 30 * time.Second
)

type pingOptions struct {
	kubeconfig, output string
	count, size        int
	interval, timeout  time.Duration
	port               uint16
	udp                bool
}

func pingCommand() *cobra.Command {
	var o pingOptions
	cmd := &cobra.Command{
		Use:   "ping FROM TO",
		Short: "Send packets from a pod, and show which are answered",
		Long: `Send real packets out of the network namespace of the pod FROM, as the pod itself would, and show
which are answered, how soon, and why not. Nothing has to be in the pod's image, and nothing runs in
the pod: the agent of its node sends. Packets are ICMP echo requests; with --port TCP connections,
closed at once; with --port and --udp datagrams, for which any datagram that comes back is an answer.

FROM is a pod (NAMESPACE/NAME). TO is another pod, svc/NAMESPACE/NAME, node/NAME, an address, or a
name of the cluster's DNS. Each address by which the pod would dial it is pinged, at the same time:
own addresses within a Network, faces from another.

A kubeconfig is enough. You need the right to create pods/ping in the namespace of FROM, which edit
and admin have there.

Exit status: 0 every packet is answered; 1 one is not; 2 the command could not ask.`,
		Example: `  atoll ping red/web-0 red/db-0
  atoll ping red/web-0 red/db-0 --port 8080
  atoll ping red/web-0 svc/red/web --port 80 --count 10 --interval 200ms
  atoll ping red/web-0 10.0.0.9 --size 1400`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPing(cmd.Context(), o, args[0], args[1], cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.IntVarP(&o.count, "count", "c", 4, "how many packets go to each address")
	f.IntVarP(&o.size, "size", "s", 56, "bytes of payload of each, 16 to 8000; a connection has none")
	f.DurationVarP(&o.interval, "interval", "i", time.Second,
		"from one packet to the next, 100ms or more; the next waits until the one before is answered or lost")
	f.DurationVar(&o.timeout, "timeout", time.Second, "how long an answer is waited for")
	f.Uint16Var(&o.port, "port", 0, "make connections to this port instead of sending echo requests")
	f.BoolVar(&o.udp, "udp", false, "with --port: send datagrams there")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	return cmd
}

// spec is what is asked for.
func (o pingOptions) spec(to string) (api.PodPingSpec, error) {
	s := api.PodPingSpec{
		To: to, Protocol: string(trace.ICMP), Port: o.port, Size: o.size, Interval: meta.Duration{Duration: o.interval},
		Timeout: meta.Duration{Duration: o.timeout},
	}
	switch {
	case o.port != 0 && o.udp:
		s.Protocol = string(model.UDP)
	case o.port != 0:
		s.Protocol = string(model.TCP)
	case o.udp:
		return s, errors.New("--udp: name the --port that datagrams go to")
	}
	switch {
	case o.output != formatTable && o.output != formatJSON:
		return s, fmt.Errorf("--output: %q is none of %s, %s", o.output, formatTable, formatJSON)
	case o.count < 1 || o.count > maxPings:
		return s, fmt.Errorf("--count: %d is not between 1 and %d", o.count, maxPings)
	case max(o.interval, o.timeout) > pingQuestion:
		return s, fmt.Errorf("--interval and --timeout may be %s at most", pingQuestion)
	case o.interval <= 0 || o.timeout <= 0:
		return s, errors.New("--interval and --timeout must be more than 0s")
	}
	return s, nil
}

// pinged is the outcome as programs read it.
type pinged struct {
	From     string             `json:"from"`
	To       string             `json:"to"`
	Protocol string             `json:"protocol"`
	Port     uint16             `json:"port,omitempty"`
	Replies  []api.PodPingReply `json:"replies"`
	// Lost is how many of Replies are not answered.
	Lost int `json:"lost"`
	// Next is what to do about these.
	Next string `json:"next,omitempty"`
}

// runPing sends and prints, and returns ErrLost when a packet is not answered.
func runPing(ctx context.Context, o pingOptions, from, to string, out io.Writer) error {
	sender, err := parsePodName(from)
	if err != nil {
		return err
	}
	spec, err := o.spec(to)
	if err != nil {
		return err
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return err
	}
	p := &pinged{From: from, To: to, Protocol: spec.Protocol, Port: spec.Port, Replies: []api.PodPingReply{}}
	var failed error
	see := func(r api.PodPingReply) {
		p.Replies = append(p.Replies, r)
		if o.output == formatTable {
			if _, err := io.WriteString(out, pingLine(len(p.Replies) == 1, r)); err != nil {
				failed = fmt.Errorf("write replies: %w", err)
			}
		}
	}
	err = o.parts(ctx, spec, func(ctx context.Context, part api.PodPingSpec) error {
		return cmp.Or(remote.Ping(ctx, sender, part, see), failed)
	})
	// Who stops it wants to know what was so far.
	if err != nil && (ctx.Err() == nil || len(p.Replies) == 0) {
		return whyNot("ping", err)
	}
	p.conclude()
	if err := p.print(out, o.output); err != nil {
		return err
	}
	if p.Lost > 0 {
		return ErrLost
	}
	return nil
}

// parts asks for as many packets at once as a question may take.
func (o pingOptions) parts(ctx context.Context, spec api.PodPingSpec, ask func(context.Context, api.PodPingSpec) error) error {
	most := min(max(int(pingQuestion/max(o.interval, o.timeout)), 1), 100)
	for spec.First = 1; spec.First <= o.count; spec.First += spec.Count {
		spec.Count = min(most, o.count-spec.First+1)
		if spec.First > 1 {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(o.interval):
			}
		}
		asking, cancel := context.WithTimeout(ctx, pingQuestion+pingSlack)
		err := ask(asking, spec)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// conclude counts.
func (p *pinged) conclude() {
	for _, r := range p.Replies {
		if !r.Answered {
			p.Lost++
		}
	}
	if p.Lost == 0 {
		return
	}
	p.Next = fmt.Sprintf("atoll explain %s %s", p.From, p.To)
	if p.Port != 0 {
		p.Next += fmt.Sprintf(" --port %d", p.Port)
	}
	if p.Protocol != string(model.TCP) {
		p.Next += " --protocol " + p.Protocol
	}
}

func pingLine(first bool, r api.PodPingReply) string {
	line := ""
	if first {
		line = fmt.Sprintf("%-5s %-24s %s\n", "#", "ADDRESS", "ANSWER")
	}
	what := milliseconds(r.Took.Duration) + " ms"
	if !r.Answered {
		what = "LOST: " + r.Why
	}
	return line + fmt.Sprintf("%-5d %-24s %s\n", r.Number, snapshot.Printable(r.Address), snapshot.Printable(what))
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f", float64(d)/float64(time.Millisecond))
}

// print writes the outcome; the table's replies have been written already.
func (p *pinged) print(out io.Writer, format string) error {
	if format == formatJSON {
		return printJSON(out, "replies", p)
	}
	return printTable(out, "replies", func(text *strings.Builder) {
		fmt.Fprintln(text)
		for _, line := range p.summary() {
			fmt.Fprintln(text, snapshot.Printable(line))
		}
		if p.Next != "" {
			fmt.Fprintf(text, "Next: %s\n", snapshot.Printable(p.Next))
		}
	})
}

// summary is a line for each address, sorted.
func (p *pinged) summary() (out []string) {
	took, sent := map[string][]time.Duration{}, map[string]int{}
	for _, r := range p.Replies {
		if sent[r.Address]++; r.Answered {
			took[r.Address] = append(took[r.Address], r.Took.Duration)
		}
	}
	for address, n := range sent {
		line := fmt.Sprintf("%s to %s: %s sent, %d answered, %d%% lost", p.From, address, model.Count(n, "packet"), len(took[address]),
			(n-len(took[address]))*100/n)
		if all := took[address]; len(all) > 0 {
			var sum time.Duration
			for _, d := range all {
				sum += d
			}
			line += fmt.Sprintf("; min/avg/max %s/%s/%s ms", milliseconds(slices.Min(all)), milliseconds(sum/time.Duration(len(all))),
				milliseconds(slices.Max(all)))
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
