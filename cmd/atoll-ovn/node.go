package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/atoll-net/atoll/pkg/chassis"
	"github.com/atoll-net/atoll/pkg/follow"
)

// nodeCommands are the parts of a node.
func nodeCommands() []*cobra.Command {
	return []*cobra.Command{switchDatabaseCommand(), switchCommand(), controllerCommand()}
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
	return cmd
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
	flags.StringVar(&s.Underlay, "underlay", "", "with --datapath=userspace: the interface by which tunnels leave; its addresses move to the bridge br-phys")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return s.Run(cmd.Context(), log()) }
	return cmd
}

func datapathFlag(flags *pflag.FlagSet, datapath *chassis.Datapath) {
	flags.TextVar(datapath, "datapath", chassis.Kernel, "kernel or userspace")
}

func controllerCommand() *cobra.Command {
	c := chassis.Controller{}
	kubeconfig, tunnel, plaintext := "", "", false
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
	flags.StringVar(&c.Certificates, "certificates", "", "directory with tls.crt, tls.key and ca.crt of the node")
	flags.StringVar(&c.Namespace, "namespace", "atoll-system", "namespace of the ConfigMap "+chassis.RecordName+", which names the databases' servers")
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
		if c.Tunnel, err = netip.ParseAddr(tunnel); err != nil {
			return fmt.Errorf("read --tunnel-address: %w", err)
		}
		api, err := follow.Connect(kubeconfig, "atoll-ovn")
		if err != nil {
			return err
		}
		c.Kube = api.Kube
		return c.Run(cmd.Context(), log())
	}
	return cmd
}
