// Atoll-dns answers the DNS questions of its node's pods in Networks of type vpc.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/dns/names"
	"github.com/atoll-net/atoll/pkg/dns/names/call"
	"github.com/atoll-net/atoll/pkg/dns/names/sockets"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/process/build"
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
	cmd := &cobra.Command{
		Use:           "atoll-dns",
		Version:       build.Version(),
		Short:         "Answers for names in the Networks of this node",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			api, err := follow.Connect(kubeconfig, "atoll-dns")
			if err != nil {
				return err
			}
			return names.Run(cmd.Context(), config, api, log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file with the API server's address and credentials (default: those of the pod)")
	flags.StringVar(&config.ResolvConf, "resolv-conf", "/etc/resolv.conf",
		"file with the node's resolvers, which are asked for names outside of the cluster")
	flags.StringVar(&config.MetricsAddress, "metrics-address", "127.0.0.1:9412", "address for /metrics and /healthz; empty: none")
	flags.StringVar(&config.ProbeSocket, "probe-socket", "", "socket of this program alone, for atoll-dns ready")
	flags.StringVar(&config.Opener, "portholes-socket", "",
		"where atoll-dns portholes opens sockets in portholes for this program, which needs no rights then; empty: it opens them itself")
	flags.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.StringVar(&config.Socket, "socket", call.DefaultSocket, "socket on which the agent's requests are served")
	cmd.AddCommand(readyCommand(), portholesCommand())
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

// portholesCommand is the part of the program that has rights on the node.
func portholesCommand() *cobra.Command {
	socket, level := "", slog.LevelInfo
	cmd := &cobra.Command{
		Use:   "portholes",
		Short: "Opens sockets in portholes for an atoll-dns that has no rights",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if socket == "" {
				return errors.New("--socket is needed")
			}
			return sockets.Serve(cmd.Context(), socket, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
		},
	}
	cmd.Flags().StringVar(&socket, "socket", "", "the other's --portholes-socket")
	cmd.Flags().TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	return cmd
}
