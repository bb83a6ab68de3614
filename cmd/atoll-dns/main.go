// Atoll-dns answers the DNS questions of its node's pods in Networks of type vpc.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/atoll-net/atoll/pkg/names"
	"github.com/atoll-net/atoll/pkg/names/call"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "atoll-dns:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	config := names.Config{}
	kubeconfig, level := "", slog.LevelInfo
	var servers []string
	cmd := &cobra.Command{
		Use:           "atoll-dns",
		Short:         "Answers for names in the Networks of this node",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(servers) == 0 {
				return errors.New("name the addresses of the cluster's DNS with --cluster-dns")
			}
			for _, text := range servers {
				address, err := netip.ParseAddr(text)
				if err != nil {
					return fmt.Errorf("--cluster-dns: %w", err)
				}
				config.Servers = append(config.Servers, address)
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			server, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("find the API server: %w", err)
			}
			server.UserAgent = "atoll-dns"
			api, err := clients(server)
			if err != nil {
				return fmt.Errorf("make API client: %w", err)
			}
			return names.Run(cmd.Context(), config, api, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: those of the pod)")
	flags.StringSliceVar(&servers, "cluster-dns", nil, "addresses of the cluster's DNS, as kubelet gives them to pods")
	flags.StringVar(&config.Domain, "cluster-domain", "cluster.local", "the cluster's DNS domain")
	flags.StringVar(&config.ResolvConf, "resolv-conf", "/etc/resolv.conf", "file with the node's resolvers, which are asked for names outside of the cluster")
	flags.StringVar(&config.MetricsAddress, "metrics-address", "127.0.0.1:9412", "address for /metrics and /healthz; empty: none")
	flags.StringVar(&config.ProbeSocket, "probe-socket", "", "socket of this program alone, for atoll-dns ready")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&config.Socket, "socket", call.DefaultSocket, "socket on which the agent's requests are served")
	cmd.AddCommand(readyCommand())
	return cmd
}

// readyCommand is for probes: by an address of the node one would not know which of two programs answers, while one replaces the other.
func readyCommand() *cobra.Command {
	socket := ""
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Succeeds when the program behind a socket serves names",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return call.NewClient(socket).Ready(cmd.Context()) },
	}
	cmd.Flags().StringVar(&socket, "socket", call.DefaultSocket, "the program's --socket or --probe-socket")
	return cmd
}

// clients are the ways to the API server.
func clients(server *rest.Config) (names.Clients, error) {
	var api names.Clients
	var err error
	if api.Metadata, err = metadata.NewForConfig(server); err != nil {
		return api, err
	}
	if api.Networks, err = dynamic.NewForConfig(server); err != nil {
		return api, err
	}
	api.Kube, err = kubernetes.NewForConfig(server)
	return api, err
}
