package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/cli/install"
	"github.com/atoll-net/atoll/pkg/process/progress"
)

// installTimeout is long: images are pulled, and three members of the databases join one after another.
const installTimeout = 10 * time.Minute

// installOptions are the flags of install, upgrade and preflight.
type installOptions struct {
	kubeconfig    string
	output        string
	dryRun        bool
	skipPreflight bool
	// sourceNamed is whether a flag names what to install.
	sourceNamed bool

	registry, tag         string
	services, pods, nodes []string
	dns                   []string
	install.Options
}

func installCommand() *cobra.Command {
	o := &installOptions{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install Atoll in a cluster",
		Long: `Apply Atoll's manifests in the right order, wait until programs and nodes are ready, and say what the
command waits for. Before it writes, it makes the checks of atoll preflight. It may be called again:
it changes what differs.

Exit status: 0 all is ready; 1 a check refuses, and nothing was written; 2 something failed or took
longer than --timeout.`,
		Example: `  atoll install --node-cidrs 192.0.2.0/24
  atoll install --overlay existing-ovn --dry-run
  atoll install -k my/kustomization
  atoll install -o yaml > atoll.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runInstall(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr(), installing)
		},
	}
	o.addFlags(cmd.Flags())
	o.addWriteFlags(cmd.Flags())
	return cmd
}

func upgradeCommand() *cobra.Command {
	o := &installOptions{}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade Atoll to this program's version",
		Long: `Do what atoll install does, and replace programs one after another: the members of OVN's databases
one by one, the controller, then the nodes' programs, a few nodes at a time. Each must be ready before
the next. What the cluster's AtollConfig has stays.

The command refuses if Atoll is not installed, and refuses steps that are not supported: to an older
version, and over more than one minor version.

Exit status: as atoll install.`,
		Example: `  atoll upgrade
  atoll upgrade -k my/kustomization`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.sourceNamed = cmd.Flags().Changed("overlay") || cmd.Flags().Changed("kustomize")
			return runInstall(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr(), upgrading)
		},
	}
	o.addFlags(cmd.Flags())
	o.addWriteFlags(cmd.Flags())
	overlay := cmd.Flags().Lookup("overlay")
	overlay.Usage += " (default: what is installed)"
	overlay.DefValue = "" // pflag would print the default of atoll install after it
	return cmd
}

// lastSource takes what is installed, if no flag names what to install.
func (o *installOptions) lastSource(ctx context.Context, cluster *install.Cluster) error {
	if o.sourceNamed {
		return nil
	}
	installed, err := cluster.Installed(ctx)
	if err != nil {
		return err
	}
	if installed == nil {
		return install.ErrNotInstalled
	}
	o.Source, err = install.LastSource(ctx, cluster)
	return err
}

// checkStep refuses a step from the installed version that is not supported.
func checkStep(ctx context.Context, cluster *install.Cluster, plan *install.Plan, progressTo io.Writer) error {
	installed, err := cluster.Installed(ctx)
	if err != nil {
		return err
	}
	if installed == nil {
		return install.ErrNotInstalled
	}
	told, err := install.Upgradable(installed.Version, plan.Version)
	if err != nil {
		return err
	}
	if !told {
		fmt.Fprintf(progressTo, "From %q to %q: whether that step is supported cannot be told by these versions.\n", installed.Version,
			plan.Version)
	}
	return nil
}

// addFlags adds what says what is installed.
func (o *installOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.Source.Overlay, "overlay", install.DefaultOverlay,
		"which of Atoll's overlays to install: "+strings.Join(install.Overlays(), ", "))
	f.StringVarP(&o.Source.Dir, "kustomize", "k", "", "directory with a kustomization of your own, in place of an overlay")
	f.StringVar(&o.registry, "image-registry", "", "where images are pulled from, in place of ghcr.io/atoll-net")
	f.StringVar(&o.tag, "image-tag", "", "tag of the images (default: this program's version, or what the kustomization of -k says)")
	f.StringSliceVar(&o.services, "service-cidrs", nil,
		"the API server's ranges of Services (default: those of the cluster's ServiceCIDR objects)")
	f.StringSliceVar(&o.pods, "pod-cidrs", nil,
		"ranges of the default Network, for pods whose namespaces have no other (default 10.244.0.0/16)")
	f.StringSliceVar(&o.nodes, "node-cidrs", nil,
		"all by which nodes and the control plane can be reached (default: ranges around the addresses of Nodes and API servers)")
	f.StringSliceVar(&o.dns, "dns-addresses", nil,
		"what kubelets give to pods as their DNS (default: addresses of Service kube-system/kube-dns)")
}

// addWriteFlags adds what says how it is written.
func (o *installOptions) addWriteFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.dryRun, "dry-run", false, "write nothing: have the server say what would change")
	f.StringVarP(&o.output, "output", "o", "", "yaml: print the manifests and write nothing")
	f.BoolVar(&o.Wait, "wait", true, "wait until programs and nodes are ready")
	f.DurationVar(&o.Timeout, "timeout", installTimeout, "how long to wait")
	f.BoolVar(&o.skipPreflight, "skip-preflight", false, "do not check beforehand whether the installation can go well")
}

// values reads the flags that people set.
func (o *installOptions) values() (v install.Values, err error) {
	v.Registry, v.Tag = o.registry, o.tag
	for _, f := range []struct {
		flag string
		from []string
		to   *[]netip.Prefix
	}{{"service-cidrs", o.services, &v.ServiceCIDRs}, {"pod-cidrs", o.pods, &v.PodCIDRs}, {"node-cidrs", o.nodes, &v.NodeCIDRs}} {
		for _, text := range f.from {
			p, err := netip.ParsePrefix(text)
			if err != nil || p != p.Masked() {
				return v, fmt.Errorf("--%s: %q is no range such as 192.0.2.0/24", f.flag, text)
			}
			*f.to = append(*f.to, p)
		}
	}
	for _, text := range o.dns {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return v, fmt.Errorf("--dns-addresses: %q is no address", text)
		}
		v.DNSAddresses = append(v.DNSAddresses, a)
	}
	return v, nil
}

// intent tells an installation from an upgrade.
type intent bool

const (
	installing intent = false
	upgrading  intent = true
)

func runInstall(ctx context.Context, o *installOptions, out, progressTo io.Writer, what intent) (err error) {
	if o.output != "" && o.output != formatYAML {
		return fmt.Errorf("-o %q: it prints yaml only", o.output)
	}
	if o.output != "" && o.dryRun {
		return errors.New("-o yaml and --dry-run exclude each other")
	}
	if o.Values, err = o.values(); err != nil {
		return err
	}
	cluster, err := install.Connect(o.kubeconfig)
	if o.output == formatYAML {
		// With all values set it needs no cluster.
		if err != nil {
			cluster = nil
		}
		return printManifests(ctx, cluster, o, out)
	}
	if err != nil {
		return err
	}
	how := install.AtOnce
	if what == upgrading {
		how = install.OneByOne
		if err := o.lastSource(ctx, cluster); err != nil {
			return err
		}
	}
	plan, err := install.Prepare(ctx, cluster, o.Options)
	if err != nil {
		return err
	}
	if what == upgrading {
		if err := checkStep(ctx, cluster, plan, progressTo); err != nil {
			return err
		}
	}
	if !o.skipPreflight {
		if err := preflightFirst(ctx, cluster, plan, progressTo, what); err != nil {
			return err
		}
	}
	if o.dryRun {
		outcomes, err := install.DryRun(ctx, cluster, plan)
		if err != nil {
			return err
		}
		return printOutcomes(out, outcomes)
	}
	steps := progress.New(progressTo, install.StepsOf(plan, o.Options))
	if _, err := install.Run(ctx, cluster, plan, o.Options, how, steps); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Atoll %s is installed, from %s, after %s.%s\n", plan.Version, o.Source, progress.Round(steps.Elapsed()),
		o.closing())
	return err
}

// closing says what to do next with what is installed and ready.
func (o *installOptions) closing() string {
	if !o.Wait {
		return " Next: atoll status --wait, then atoll connectivity test"
	}
	return " Next: atoll connectivity test"
}

func printManifests(ctx context.Context, cluster *install.Cluster, o *installOptions, out io.Writer) error {
	plan, err := install.Prepare(ctx, cluster, o.Options)
	if err != nil {
		return err
	}
	text, err := install.YAML(plan.Objects)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

func printOutcomes(out io.Writer, outcomes []install.Outcome) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "OBJECT\tWOULD BE\tWHY")
	for _, one := range outcomes {
		fmt.Fprintf(w, "%s\t%s\t%s\n", one.Object, one.What, one.Why)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s. Nothing was written.\n", install.Summary(outcomes))
	return err
}
