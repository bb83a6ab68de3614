package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/daemons/chassis"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// nodeCommands are the parts of a node.
func nodeCommands() []*cobra.Command {
	return []*cobra.Command{switchDatabaseCommand(), switchCommand(), controllerCommand(), cleanCommand()}
}

func runDirectories(flags *pflag.FlagSet, dirs *chassis.Directories) {
	// By the variables of Open vSwitch's and OVN's own programs, a container's first process, its probes and whoever enters it find the same.
	flags.StringVar(&dirs.Switch, "run-dir", cmp.Or(os.Getenv("OVS_RUNDIR"), "/var/run/openvswitch"),
		"directory of Open vSwitch's sockets, by the name that the agent's --ovs-db calls it ($OVS_RUNDIR)")
	flags.StringVar(&dirs.OVN, "ovn-run-dir", cmp.Or(os.Getenv("OVN_RUNDIR"), "/var/run/ovn"), "directory of OVN's sockets ($OVN_RUNDIR)")
}

func nodeLog(flags *pflag.FlagSet) func() *slog.Logger {
	level := new(slog.Level)
	flags.TextVar(level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	return func() *slog.Logger {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: *level}))
	}
}

func switchDatabaseCommand() *cobra.Command {
	d := chassis.Database{}
	cmd := &cobra.Command{
		Use:   chassis.PartDatabase,
		Short: "Serves the node's Open vSwitch database (ovsdb-server)",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	runDirectories(flags, &d.Directories)
	log := nodeLog(flags)
	flags.StringVar(&d.File, "database", "/etc/openvswitch/conf.db", "the database's file; it is made when there is none, and never deleted")
	flags.StringVar(&d.Schema, "schema", "/usr/share/openvswitch/vswitch.ovsschema", "the schema's file")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return d.Run(cmd.Context(), log()) }
	return withHealth(cmd, always(chassis.PartDatabase), func() *probes { return &probes{dirs: d.Directories} })
}

func switchCommand() *cobra.Command {
	s := chassis.Switch{}
	cmd := &cobra.Command{
		Use:   chassis.PartSwitch,
		Short: "Forwards the node's packets (ovs-vswitchd)",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	runDirectories(flags, &s.Directories)
	log := nodeLog(flags)
	datapathFlag(flags, &s.Datapath)
	flags.StringVar(&s.Underlay, "underlay", "",
		"with --datapath=userspace: the interface by which tunnels leave; its addresses move to the bridge br-phys")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return s.Run(cmd.Context(), log()) }
	return withHealth(cmd, always(chassis.PartSwitch), func() *probes { return &probes{dirs: s.Directories} })
}

func datapathFlag(flags *pflag.FlagSet, datapath *chassis.Datapath) {
	flags.TextVar(datapath, "datapath", chassis.Kernel, "kernel or userspace")
}

func controllerCommand() *cobra.Command {
	c := chassis.Controller{}
	kubeconfig, tunnel, network, plaintext := "", "", "", false
	cmd := &cobra.Command{
		Use:   chassis.PartController,
		Short: "Makes the node a chassis of OVN (ovn-controller)",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	runDirectories(flags, &c.Directories)
	log := nodeLog(flags)
	datapathFlag(flags, &c.Datapath)
	flags.StringVar(&c.Node, "node-name", "", "the node's name in Kubernetes, which the chassis has, too")
	flags.StringVar(&tunnel, "tunnel-address", "", "the node's address for tunnels")
	flags.StringVar(&network, "tunnel-network", "",
		"in place of --tunnel-address: the network that carries tunnels, in which the node has one address")
	flags.StringVar(&c.Certificates, "certificates", "", "directory with tls.crt, tls.key and ca.crt of the node")
	flags.StringVar(&c.Namespace, "namespace", "atoll-system",
		"namespace of the ConfigMap "+chassis.RecordName+", which names the databases' servers")
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: those of the pod)")
	flags.BoolVar(&plaintext, "plaintext-for-tests", false, "take servers of the southbound database that have no TLS")
	if err := flags.MarkHidden("plaintext-for-tests"); err != nil {
		panic(err)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		c.Plaintext = chassis.Plaintext(plaintext)
		if c.Node == "" {
			return fmt.Errorf("read --node-name: it is empty")
		}
		if network != "" {
			if c.Tunnel, err = addressIn(cmd.Context(), log(), network); err != nil {
				return err
			}
		} else if c.Tunnel, err = netip.ParseAddr(tunnel); err != nil {
			return fmt.Errorf("read --tunnel-address: %w", err)
		}
		api, err := follow.Connect(kubeconfig, "atoll-ovn")
		if err != nil {
			return err
		}
		c.Kube = api.Kube
		run := func(ctx context.Context) error { return c.Run(ctx, log()) }
		if plaintext {
			return run(cmd.Context())
		}
		return withCertificate(cmd.Context(), certs.KeeperConfig{
			Client: api.Kube, Log: log(), Signer: certs.SignerNode, Node: c.Node, Dir: c.Certificates,
		}, run)
	}
	return withHealth(cmd, always(chassis.PartController), func() *probes { return &probes{dirs: c.Directories} })
}

// addressIn waits until an interface of the node has an address in a network, and returns it. On the userspace datapath that
// interface may be the switch's own, which comes with it.
func addressIn(ctx context.Context, log *slog.Logger, network string) (netip.Addr, error) {
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read --tunnel-network: %w", err)
	}
	var said time.Time
	for {
		addresses, err := net.InterfaceAddrs()
		if err != nil {
			return netip.Addr{}, fmt.Errorf("read the node's addresses: %w", err)
		}
		for _, a := range addresses {
			if own, err := netip.ParsePrefix(a.String()); err == nil && prefix.Contains(own.Addr()) {
				return own.Addr(), nil
			}
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			log.Info("waiting for an address of the node in the network that carries tunnels", "network", prefix)
		}
		select {
		case <-ctx.Done():
			return netip.Addr{}, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// cleanCommand is what atoll uninstall runs on each node.
func cleanCommand() *cobra.Command {
	c := chassis.Cleaning{}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Removes OVN and Open vSwitch from this node, with their databases; none of their daemons may run",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	runDirectories(flags, &c.Directories)
	log := nodeLog(flags)
	flags.StringVar(&c.File, "database", "/var/lib/atoll/openvswitch/conf.db", "the local database's file")
	flags.StringSliceVar(&c.Remove, "remove", []string{"/run/atoll-ovn", "/var/lib/atoll"}, "directories that go, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := central.RemoveGuards(); err != nil {
			return err
		}
		return c.Run(cmd.Context(), log())
	}
	return cmd
}
