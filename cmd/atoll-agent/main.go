// Atoll-agent gives the pods of its node their interfaces.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/agent"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/agent/nri"
	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/ovs/vswitch"
	"github.com/atoll-net/atoll/pkg/process/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "atoll-agent:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	config := agent.Config{}
	kubeconfig, level := "", slog.LevelInfo
	cmd := &cobra.Command{
		Use:           "atoll-agent",
		Version:       build.Version(),
		Short:         "Gives the pods of this node their interfaces",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Node == "" {
				return fmt.Errorf("name this node with --node-name or NODE_NAME")
			}
			if config.Bounds.Broadcasts == 0 || config.Bounds.Requests == 0 {
				return fmt.Errorf("--max-pod-broadcast-rate and --max-pod-request-rate must be 1 at least")
			}
			if config.ControllerRate != 0 && config.ControllerRate < vswitch.LeastThrottle {
				return fmt.Errorf("--max-controller-rate must be 0, or %d at least", vswitch.LeastThrottle)
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			api, err := follow.Connect(kubeconfig, "atoll-agent")
			if err != nil {
				return err
			}
			return agent.Run(cmd.Context(), config, api, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: those of the pod)")
	flags.StringVar(&config.Node, "node-name", os.Getenv("NODE_NAME"), "name of this node")
	flags.StringVar(&config.OVSDB, "ovs-db", "unix:/var/run/openvswitch/db.sock", "address of the local Open vSwitch database")
	flags.StringVar(&config.OVNRunDir, "ovn-run-dir", "/var/run/ovn",
		"OVN's run directory, where ovn-controller takes commands of whoever may use atoll appctl")
	flags.StringVar(&config.Southbound, "sb-address", "",
		"servers of the southbound database, separated by commas, by which the packets of policies are counted (default: ovn-controller's)")
	flags.StringVar(&config.Bridge, "bridge", "br-int", "bridge that OVN uses")
	flags.StringVar(&config.Socket, "socket", cni.DefaultSocket, "socket on which atoll-cni's requests are served")
	flags.StringVar(&config.ConfDir, "cni-conf-dir", "/etc/cni/net.d", "where the container runtime looks for network configurations")
	flags.StringVar(&config.BinDir, "cni-bin-dir", "/opt/cni/bin", "where the container runtime looks for plugins")
	flags.StringVar(&config.Plugin, "cni-plugin", "", "atoll-cni program to install into --cni-bin-dir (default: it is there already)")
	flags.StringVar(&config.NRISocket, "nri-socket", nri.DefaultSocket,
		"socket on which the container runtime takes NRI plugins; empty: containers see their pod's face, not its own address")
	flags.StringVar(&config.KubeletDir, "kubelet-dir", "/var/lib/kubelet",
		"kubelet's directory, as kubelet, container runtime and agent call it")
	flags.StringVar(&config.RunDir, "run-dir", "/run/atoll", "directory for files that containers see, as container runtime and agent call it")
	flags.StringVar(&config.LeaseNamespace, "lease-namespace", "atoll-system",
		"namespace of the Lease of the controller that leads (its --leader-elect-namespace)")
	flags.StringVar(&config.NamesSocket, "dns-socket", call.DefaultSocket,
		"socket of the node's atoll-dns, which answers for names in Networks")
	flags.Uint32Var(&config.Bounds.Broadcasts, "max-pod-broadcast-rate", 200,
		"how many frames to all or to groups an interface of a pod may send a second; more are dropped")
	flags.Uint32Var(&config.Bounds.Requests, "max-pod-request-rate", 500,
		"how many packets an interface of a pod may send a second that the node answers one by one: ARP, ICMP, neighbour discovery, or at the "+
			"end of their time to live; more are dropped")
	flags.Uint32Var(&config.Bounds.Packets, "max-pod-packet-rate", 0,
		"how many packets of any kind an interface of a pod may send a second; more are dropped (0: any number)")
	flags.IntVar(&config.ControllerRate, "max-controller-rate", 1000,
		"how many packets of all pods ovn-controller is asked about a second, ports taking turns; more are dropped (0: any number)")
	flags.IntVar(&config.MTU, "mtu", 0, "MTU of pods; 0: that of the tunnel's interface less what Geneve takes")
	flags.StringVar(&config.MetricsAddress, "metrics-address", "127.0.0.1:9411",
		"address for /metrics, /verdicts, /healthz and /readyz; empty: none")
	flags.StringVar(&config.InspectAddress, "inspect-address", "",
		"where atoll-inspect asks about this node and its pods, by certificates: an address of this node, with a port or "+
			"without (9414); empty: nowhere")
	flags.StringVar(&config.ScrapeAddress, "scrape-address", "",
		"where /metrics alone is served to others, over TLS and to whoever may get /metrics by RBAC: an address of this node, with a port or "+
			"without (9411); empty: nowhere")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	cmd.AddCommand(cleanCommand())
	return cmd
}

// cleanCommand is what atoll uninstall runs on each node.
func cleanCommand() *cobra.Command {
	config, wait := agent.Config{}, false
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Removes from this node all that the agent made there; no agent may run, and no pod on its network",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait {
				<-cmd.Context().Done()
				return nil
			}
			return agent.Clean(cmd.Context(), config, slog.New(slog.NewTextHandler(os.Stderr, nil)))
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&wait, "wait", false, "only wait to be told to end: the last container of a pod whose first ones have cleaned the node")
	flags.StringVar(&config.OVSDB, "ovs-db", "",
		"address of the local Open vSwitch database, from which the agent's ports are taken; empty: it is gone, or goes as a whole")
	flags.StringVar(&config.Bridge, "bridge", "br-int", "bridge that OVN uses")
	flags.StringVar(&config.ConfDir, "cni-conf-dir", "/etc/cni/net.d", "where the container runtime looks for network configurations")
	flags.StringVar(&config.BinDir, "cni-bin-dir", "/opt/cni/bin", "where the container runtime looks for plugins")
	flags.StringVar(&config.RunDir, "run-dir", "/run/atoll", "the agent's directory for sockets and files that containers see")
	return cmd
}
