// Command atoll-inspect answers questions about the cluster: the API inspect.atoll.dev. It reads Kubernetes and writes nothing
// there, so that it answers when no controller runs.
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

	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/process/build"
)

type options struct {
	kubeconfig     string
	node           string
	address        string
	nbAddresses    string
	sbAddresses    string
	nbRecord       bool
	certificates   string
	metricsAddress string
	scrapeAddress  string
	qps            float32
	burst          int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "atoll-inspect:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	level := slog.LevelInfo
	cmd := &cobra.Command{
		Use:           "atoll-inspect",
		Version:       build.Version(),
		Short:         "Answers questions about the cluster: the API inspect.atoll.dev",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return run(cmd.Context(), o, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as the pod that we run in)")
	f.StringVar(&o.node, "node-name", os.Getenv("NODE_NAME"), "name of this node, of which the certificates are")
	f.StringVar(&o.address, "inspect-address", "",
		"where the API is served to the API server: an address of this machine, with a port or without (9413)")
	f.StringVar(&o.nbAddresses, "nb-address", "unix:/var/run/ovn/ovnnb_db.sock", "servers of the northbound database, separated by commas")
	f.StringVar(&o.sbAddresses, "sb-address", "unix:/var/run/ovn/ovnsb_db.sock", "servers of the southbound database, separated by commas")
	f.BoolVar(&o.nbRecord, "nb-record", false,
		"in place of --nb-address and --sb-address: the servers that ConfigMap "+central.RecordName+" names, by TLS")
	f.StringVar(&o.certificates, "certificate-dir", "/run/atoll-inspect", "where this program's certificates are kept")
	f.StringVar(&o.metricsAddress, "metrics-address", "127.0.0.1:9421", "where /metrics, /healthz and /readyz are served (empty: nowhere)")
	f.StringVar(&o.scrapeAddress, "scrape-address", "",
		"where /metrics alone is served to others, over TLS and to whoever may get /metrics by RBAC: an address of this machine, with a port "+
			"or without (9421) (empty: nowhere)")
	f.Float32Var(&o.qps, "kube-api-qps", 500, "requests per second to the API server at most")
	f.IntVar(&o.burst, "kube-api-burst", 1000, "requests to the API server that may come at once")
	f.TextVar(&level, "log-level", slog.LevelInfo, "debug, info, warn or error")
	return cmd
}

// check says what is wrong with the options.
func (o options) check() error {
	switch {
	case o.node == "":
		return errors.New("name this node with --node-name or NODE_NAME")
	case o.address == "":
		return errors.New("say with --inspect-address where the API server finds this program")
	}
	return nil
}
