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

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/ovsdb"
)

// The formats of a report.
const (
	formatTable = "table"
	formatJSON  = "json"
)

type checkOptions struct {
	kubeconfig     string
	nbAddress      string
	sbAddress      string
	ovsAddress     string
	node           string
	defaultNetwork string
	defaultSubnet  string
	faces          []string
	services       []string
	gateways       []string
	dnsService     string
	infrastructure []string
	connections    uint32
	output         string
	timeout        time.Duration
	settle         time.Duration
}

func checkCommand() *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Compare what OVN has with what the cluster's objects ask for",
		Long: `Compiles every Network and pod afresh and names what the northbound database has otherwise, object by object:
rows, columns, references, annotations and statuses. It writes nothing.

It ends with status 0 when there is no difference, 1 when there are some, 2 when it could not check.`,
		Example: `  atoll check
  atoll check --sb-address unix:/var/run/ovn/ovnsb_db.sock
  atoll check --node n1 --ovs-db unix:/var/run/openvswitch/db.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return check(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringVar(&o.nbAddress, "nb-address", "unix:/var/run/ovn/ovnnb_db.sock", "servers of the northbound database, separated by commas")
	f.StringVar(&o.sbAddress, "sb-address", "", "servers of the southbound database: check that each pod's port is up on its node")
	f.StringVar(&o.node, "node", "", "check the interfaces of the pods of this node, in the database of --ovs-db")
	f.StringVar(&o.ovsAddress, "ovs-db", "unix:/var/run/openvswitch/db.sock", "the node's Open vSwitch database")
	f.StringVar(&o.defaultNetwork, "default-network", "default", "as the controller has it: Network of pods that choose none")
	f.StringVar(&o.defaultSubnet, "default-subnet", "10.128.0.0/14", "as the controller has it: CIDR of a Network that lists no subnet")
	f.StringSliceVar(&o.faces, "face-ranges", controller.DefaultFaces(), "as the controller has it: ranges that nodes get their pods' faces from")
	f.StringSliceVar(&o.services, "service-cidrs", nil, "as the controller has it: ranges of the cluster's Services")
	f.StringSliceVar(&o.gateways, "gateway-ranges", controller.DefaultGateways(), "as the controller has it: ranges that Gateways get their addresses from")
	f.StringVar(&o.dnsService, "dns-service", controller.DefaultDNS().String(), "as the controller has it: the Service whose addresses kubelets tell pods to ask for names")
	f.StringSliceVar(&o.infrastructure, "infra-namespaces", controller.DefaultInfrastructure(), "as the controller has it: namespaces whose pods in the default Network reach the pods of all Networks")
	f.Uint32Var(&o.connections, "max-pod-connections", controller.DefaultConnections, "as the controller has it: how many connections a pod may have at a time inside its Network")
	f.StringVarP(&o.output, "output", "o", formatTable, "table or json")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long the check may take")
	f.DurationVar(&o.settle, "settle", 5*time.Second, "how long a difference must last to count")
	return cmd
}

// check looks, prints what it found, and returns ErrDifferences if that is anything.
func check(ctx context.Context, o checkOptions, out io.Writer) error {
	subnet, err := netip.ParsePrefix(o.defaultSubnet)
	switch {
	case err != nil:
		return fmt.Errorf("--default-subnet: %w", err)
	case !slices.Contains([]string{formatTable, formatJSON}, o.output):
		return fmt.Errorf("--output: %q is neither %s nor %s", o.output, formatTable, formatJSON)
	case o.settle >= o.timeout:
		return errors.New("--settle must be shorter than --timeout")
	}
	faces, err := controller.ParseFaces(o.faces)
	if err != nil {
		return fmt.Errorf("--face-ranges: %w", err)
	}
	services, err := controller.ParseRanges(o.services)
	if err != nil {
		return fmt.Errorf("--service-cidrs: %w", err)
	}
	gateways, err := controller.ParseGateways(o.gateways)
	if err != nil {
		return fmt.Errorf("--gateway-ranges: %w", err)
	}
	dns, err := controller.ParseService(o.dnsService)
	if err != nil {
		return fmt.Errorf("--dns-service: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	heard := &lastWarning{}
	report, err := observe(ctx, o, controller.Defaults{
		Network: o.defaultNetwork, Subnet: subnet, Faces: faces, Services: services, Gateways: gateways, DNS: dns, Infrastructure: o.infrastructure, Connections: o.connections,
	}, slog.New(heard))
	if err != nil {
		return fmt.Errorf("check: %w", heard.explain(err))
	}
	if err := report.Print(out, o.output); err != nil {
		return err
	}
	if len(report.Differences) > 0 {
		return ErrDifferences
	}
	return nil
}

// observe connects to everything and looks until what differs has settled. What it opened is closed when it
// returns.
func observe(ctx context.Context, o checkOptions, defaults controller.Defaults, log *slog.Logger) (Report, error) {
	feed, stop, err := openCluster(ctx, o.kubeconfig, log)
	if err != nil {
		return Report{}, err
	}
	defer stop()
	session, err := ovsdb.Open(ctx, ovsdb.Config{Addresses: strings.Split(o.nbAddress, ","), Log: log})
	if err != nil {
		return Report{}, err
	}
	defer session.Close()
	s := &sources{defaults: defaults, cluster: feed, objects: newObjects(), northbound: viewOf(session), node: o.node}
	if o.sbAddress != "" {
		southbound, err := ovsdb.OpenSouthbound(ctx, ovsdb.Config{Addresses: strings.Split(o.sbAddress, ","), Log: log})
		if err != nil {
			return Report{}, err
		}
		defer southbound.Close()
		s.bindings = southbound.Bindings
	}
	if o.node != "" {
		ovs, err := openSwitch(ctx, o.ovsAddress, log)
		if err != nil {
			return Report{}, err
		}
		defer ovs.Close()
		s.interfaces = ovs.List
	}
	if err := awaitObjects(ctx, feed); err != nil {
		return Report{}, err
	}
	return settle(ctx, o.settle, s.look)
}
