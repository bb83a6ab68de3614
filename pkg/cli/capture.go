package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/node/capture"
)

// ErrMissing is the error of a capture that worked, and lacks packets, which has been said.
var ErrMissing = errors.New("packets are missing")

const (
	// maxPods is how many pods are captured at once.
	maxPods = 8
	// captureSlack is how much longer than it says a part may take.
	captureSlack = 15 * time.Second
	// standard is the name of the standard output.
	standard = "-"
)

type captureOptions struct {
	kubeconfig, file, iface, direction string
	hosts, nets, protocols             []string
	ports                              []uint
	snap, count                        int
	bytes                              int64
	duration                           time.Duration
}

func captureCommand() *cobra.Command {
	var o captureOptions
	cmd := &cobra.Command{
		Use:   "capture POD...",
		Short: "Write the packets of pods to a file, or to Wireshark",
		Long: `Copy the packets that cross an interface of one or several pods (NAMESPACE/NAME, up to 8), and write
them as pcapng: one file, with one interface for each pod, in order of time. Nothing has to be in the
pods' images, and nothing runs in the pods: the agents of their nodes capture, and the filter runs in
the nodes' kernels.

A capture shows everything that the pods send and receive. You need the right to create pods/capture
in the namespace of each pod, which admin has there, and view and edit do not have.

The capture ends with Ctrl-C, --duration, --count or --bytes, or with its pod. The file is whole then.
It says how many packets matched the filter, and how many of these the kernel had to drop.

Exit status: 0 all packets are in the file; 1 some are not; 2 the command could not capture.`,
		Example: `  atoll capture red/web-0 -w web.pcapng
  atoll capture red/web-0 red/db-0 --port 5432 --duration 30s -w both.pcapng
  atoll capture red/web-0 --protocol icmp --direction in -w - | wireshark -k -i -`,
		Args: cobra.RangeArgs(1, maxPods),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runCapture(cmd.Context(), o, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVarP(&o.file, "write", "w", "", "the file to write, which nobody else may read; - is the standard output")
	f.StringVarP(&o.iface, "interface", "i", "eth0", "the interface in the pods, such as lo")
	f.StringVar(&o.direction, "direction", string(capture.Both), "in, out or both, as seen from the pods")
	f.StringSliceVar(&o.hosts, "host", nil, "packets from or to this address")
	f.StringSliceVar(&o.nets, "net", nil, "packets from or to this range, as 10.0.0.0/24")
	f.UintSliceVar(&o.ports, "port", nil, "packets from or to this port of TCP, UDP or SCTP")
	f.StringSliceVar(&o.protocols, "protocol", nil, "packets of tcp, udp, sctp, icmp (of IPv6, too) or arp")
	f.IntVarP(&o.snap, "snaplen", "s", capture.MaxSnapLength, "bytes kept of each packet, 64 to 65535")
	f.IntVarP(&o.count, "count", "c", 0, "end after so many packets, of all pods together (default: none)")
	f.Int64Var(&o.bytes, "bytes", 100<<20, "end after so many bytes of packets, of all pods together, 1 GiB at most")
	f.DurationVar(&o.duration, "duration", 0, "end after this time, 1h at most (default: on Ctrl-C, and after 1h)")
	completed(cmd, maxPods, &o.kubeconfig, podNames)
	return cmd
}

// spec is what is asked for of each pod.
func (o captureOptions) spec() (api.PodCaptureSpec, error) {
	s := api.PodCaptureSpec{
		ID: uuid.NewString(), Interface: o.iface, Direction: o.direction, SnapLength: o.snap, Count: o.count, Bytes: o.bytes,
		Protocols: o.protocols,
	}
	for _, text := range o.hosts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return s, fmt.Errorf("--host: %q is no address", text)
		}
		s.Prefixes = append(s.Prefixes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()).String())
	}
	for _, text := range o.nets {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return s, fmt.Errorf("--net: %q is no range, such as 10.0.0.0/24", text)
		}
		s.Prefixes = append(s.Prefixes, p.Masked().String())
	}
	for _, p := range o.ports {
		if p == 0 || p > 65535 {
			return s, fmt.Errorf("--port: %d is none", p)
		}
		s.Ports = append(s.Ports, uint16(p))
	}
	spec, err := capture.SpecOf(s)
	if err == nil {
		err = spec.Check()
	}
	if err != nil {
		return s, fmt.Errorf("--%w", err)
	}
	if o.duration < 0 || o.duration > capture.MaxTime {
		return s, fmt.Errorf("--duration: %s is not between 0s and %s", o.duration, capture.MaxTime)
	}
	return s, nil
}

// runCapture captures until there is enough, and returns ErrMissing when packets are missing.
func runCapture(ctx context.Context, o captureOptions, pods []string, out, problems io.Writer) error {
	var keys []model.PodKey
	seen := map[model.PodKey]bool{}
	for _, text := range pods {
		key, err := parsePodName(text)
		if err != nil {
			return err
		}
		if seen[key] {
			return fmt.Errorf("pod %s is named twice", key)
		}
		seen[key] = true
		keys = append(keys, key)
	}
	spec, err := o.spec()
	if err != nil {
		return err
	}
	if o.file == "" {
		return errors.New("say where packets go: -w FILE, or -w - | wireshark -k -i -")
	}
	if file, ok := out.(*os.File); o.file == standard && ok && term.IsTerminal(int(file.Fd())) {
		return errors.New("pcapng is not for a terminal: write a file (-w FILE), or -w - | wireshark -k -i -")
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context, pod model.PodKey, spec api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
		return remote.Capture(ctx, pod, spec, each)
	}
	r := &recording{
		options: o, spec: spec, pods: keys, ask: ask, open: func() (io.WriteCloser, error) { return o.create(out) }, problems: problems,
	}
	return r.run(ctx)
}

// create opens what is written to.
func (o captureOptions) create(out io.Writer) (io.WriteCloser, error) {
	if o.file == standard {
		return unclosed{out}, nil
	}
	file, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write packets: %w", err)
	}
	// One that was there already may have been for others, too. What is no file has no such mode.
	if about, err := file.Stat(); err == nil && about.Mode().IsRegular() {
		if err := file.Chmod(0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("write packets: %w", err), file.Close())
		}
	}
	return file, nil
}

// unclosed is left open.
type unclosed struct{ io.Writer }

// Close implements io.Closer.
func (unclosed) Close() error { return nil }

// parts asks for one part after the other, until there is no more.
func (r *recording) parts(ctx context.Context, pod model.PodKey, each func(api.PodCaptureLine) error) error {
	spec, began := r.spec, time.Now()
	for more := true; more; spec.Part++ {
		spec.Time = meta.Duration{Duration: capture.MaxPart}
		if left := r.options.duration - time.Since(began); r.options.duration > 0 && left <= capture.MaxPart {
			spec.Time, spec.Last = meta.Duration{Duration: max(left, time.Millisecond)}, true
		}
		more = false
		asking, cancel := context.WithTimeout(ctx, spec.Time.Duration+captureSlack)
		err := r.ask(asking, pod, spec, func(line api.PodCaptureLine) error {
			more = line.End != nil && line.End.More
			return each(line)
		})
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// capturedLine says what there was of a pod.
func capturedLine(pod, iface string, written int, c api.PodCaptureCounts) string {
	return fmt.Sprintf("%s %s: %s written; %d fitted the filter, %d of these dropped by the kernel", pod, iface,
		model.Count(written, "packet"), c.Received, c.Dropped)
}
