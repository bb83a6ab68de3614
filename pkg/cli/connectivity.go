package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/connectivity"
	"github.com/atoll-net/atoll/pkg/process/progress"
)

// connectivityTimeout is long: an image may have to be pulled.
const connectivityTimeout = 5 * time.Minute

// ErrPaths is the error of a connectivity test that worked and found paths that are not as they should be, which have been printed.
var ErrPaths = errors.New("paths are not as expected")

type connectivityOptions struct {
	kubeconfig, output, cidr string
	connectivity.Options
}

func connectivityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connectivity",
		Short: "Test with real pods what Networks reach, and what they do not",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(connectivityTestCommand(), connectivityCleanCommand())
	return cmd
}

func connectivityTestCommand() *cobra.Command {
	var o connectivityOptions
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Make two Networks with the same addresses, and try every path",
		Long: `Make two Networks with the same addresses (atoll-connectivity-red and atoll-connectivity-blue), four
namespaces and seven small pods, on two nodes if there are two. Try every path: pods, Services,
names, the Kubernetes API, nodes, faces, node ports, policies, and what must stay apart. Then remove
all of it. What an earlier test left is removed first, so run one test at a time.

A path is open when exactly the right pod answers, and shut when nobody answers within four seconds.
The test asks pods by exec through the API server, which needs none of their networks. The pods run
atoll-probe from the image of the agents, have no rights, and meet the Pod Security level restricted.

You need the rights to make and delete Networks, namespaces, pods, Services and NetworkPolicies, and
to exec in pods.

Exit status: 0 every path that was tried is as expected; 1 a path is not, or a node has no network;
2 the command could not test, or could not remove what it made.`,
		Example: `  atoll connectivity test
  atoll connectivity test --external www.example.com:443
  atoll connectivity test --keep -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runConnectivity(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.External, "external", "",
		"HOST:PORT outside of the cluster that takes TCP connections; without it the way out is not tried")
	f.StringVar(&o.cidr, "cidr", connectivity.DefaultCIDR.String(), "the range that both Networks have")
	f.StringVar(&o.Image, "image", "", "image with atoll-probe (default: the one that the agents run)")
	f.BoolVar(&o.Keep, "keep", false, "leave Networks, namespaces and pods; atoll connectivity clean removes them")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.DurationVar(&o.Timeout, "timeout", connectivityTimeout, "how long it may take, without the removal")
	return cmd
}

func connectivityCleanCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what a connectivity test left",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := connectivity.Connect(kubeconfig)
			if err != nil {
				return err
			}
			return connectivity.Clean(cmd.Context(), cluster, progress.New(cmd.ErrOrStderr(), 1))
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	return cmd
}

func runConnectivity(ctx context.Context, o connectivityOptions, out, progressTo io.Writer) (err error) {
	if !slices.Contains([]string{formatTable, formatJSON}, o.output) {
		return fmt.Errorf("--output: %q is neither table nor json", o.output)
	}
	if o.CIDR, err = netip.ParsePrefix(o.cidr); err != nil {
		return fmt.Errorf("--cidr: %q is no range such as 10.231.0.0/24", o.cidr)
	}
	if err := o.Check(); err != nil {
		return err
	}
	cluster, err := connectivity.Connect(o.kubeconfig)
	if err != nil {
		return err
	}
	report, err := connectivity.Run(ctx, cluster, o.Options, progress.New(progressTo, o.StepCount()))
	if len(report.Results) > 0 {
		if printErr := printConnectivity(out, report, o.output); printErr != nil {
			return printErr
		}
	}
	if err != nil {
		return whyNot("connectivity test", err)
	}
	if report.Count(connectivity.Failed) > 0 {
		return ErrPaths
	}
	return nil
}

// printConnectivity writes what a test found in a format: table or json.
func printConnectivity(out io.Writer, r connectivity.Report, format string) error {
	if format == formatJSON {
		return printJSON(out, "report", struct {
			connectivity.Report
			Summary string `json:"summary"`
		}{r, r.Summary()})
	}
	return printTable(out, "report", func(text *strings.Builder) { connectivityTable(text, r) })
}

func connectivityTable(text *strings.Builder, r connectivity.Report) {
	lines := [][]string{{"RESULT", "FROM", "PATH", "EXPECTED", "SEEN", "TIME"}}
	for _, one := range r.Results {
		mark := map[connectivity.Verdict]string{connectivity.OK: "ok", connectivity.Failed: "FAIL", connectivity.NotTried: "-"}[one.Verdict]
		took := fmt.Sprintf("%.1f ms", one.Seconds*1000)
		if one.Seconds >= 1 {
			took = fmt.Sprintf("%.1f s", one.Seconds)
		}
		if one.Verdict == connectivity.NotTried {
			took = nothing
		}
		lines = append(lines, []string{mark, one.From, one.Path, one.Expected, one.Seen, took})
	}
	columns(text, lines...)
	fmt.Fprintln(text)
	for _, one := range r.Results {
		if one.Verdict != connectivity.Failed {
			continue
		}
		fmt.Fprintf(text, "FAIL %s, from %s: expected: %s; seen: %s.", one.Path, one.From, one.Expected, cell(one.Seen))
		if one.Next != "" {
			fmt.Fprintf(text, " Next: %s", one.Next)
		}
		fmt.Fprintln(text)
	}
	fmt.Fprintln(text, r.Summary())
	switch failed := r.Count(connectivity.Failed); {
	case r.Kept:
		fmt.Fprintln(text, "Networks, namespaces and pods are kept. To remove them: atoll connectivity clean")
	case failed > 0:
		fmt.Fprintln(text, "The pods are gone: for the commands above, test again with --keep.")
	}
}
