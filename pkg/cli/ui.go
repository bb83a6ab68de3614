package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/cli/ui"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/connect"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

type uiOptions struct {
	kubeconfig, address, nbAddress, sbAddress string
	namespaces                                []string
	timeout                                   time.Duration
}

func uiCommand() *cobra.Command {
	var o uiOptions
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show Networks, pods and explanations in a browser, on this machine alone",
		Long: `Serve a page with a map of Networks, the flows of the last hour, a search for names and addresses,
and the form of atoll explain. It shows what the other commands print, with the rights of your
kubeconfig. It writes nothing to the cluster.

If you may get no Network but may view namespaces (role view, edit or admin), the page shows the
flows of their pods: of namespaces that you may list, and of those that -n names.

The command listens on the loopback interface only, and prints an address with a token. The address
opens the page once, within a minute, in one browser, for 8 hours. After that, go to the address
without the token, and the command prints another. Whoever opens it, on this machine, sees what you
may see; another user of the machine with your browser's cookie does not. End it with Ctrl-C.`,
		Example: `  atoll ui
  atoll ui -n red -n red-db
  atoll ui --address 127.0.0.1:8080`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runUI(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server (default: as kubectl does)")
	f.StringArrayVarP(&o.namespaces, "namespace", "n", nil,
		"a namespace that may be yours to view; as often as there are some (default: that of the kubeconfig's context)")
	f.StringVar(&o.address, "address", "127.0.0.1:0", "where to listen: an address of the loopback interface, and a port; 0 is a free one")
	f.StringVar(&o.nbAddress, "nb-address", "", "to explain, read this northbound database itself, as atoll explain does")
	f.StringVar(&o.sbAddress, "sb-address", "", "with --nb-address: servers of the southbound database")
	f.DurationVar(&o.timeout, "timeout", askTimeout, "how long an answer may take")
	return cmd
}

// runUI serves the page until ctx ends, which is how it is meant to end.
func runUI(ctx context.Context, o uiOptions, out io.Writer) error {
	if o.sbAddress != "" && o.nbAddress == "" {
		return errors.New("--sb-address goes with --nb-address")
	}
	remote, err := client.NewRemote(o.kubeconfig)
	if err != nil {
		return err
	}
	var source ui.Source = remote
	if o.nbAddress != "" {
		source = databaseSource{remote, explainOptions{kubeconfig: o.kubeconfig, nbAddress: o.nbAddress, sbAddress: o.sbAddress}}
	}
	if len(o.namespaces) == 0 {
		own, err := connect.UserNamespace(o.kubeconfig)
		if err != nil {
			return fmt.Errorf("ui: %w", err)
		}
		o.namespaces = []string{own}
	}
	listener, err := ui.Listen(o.address)
	if err != nil {
		return fmt.Errorf("ui: %w", err)
	}
	page, err := ui.New(listener, ui.Config{
		Source: source, Namespaces: o.namespaces, Timeout: o.timeout,
		Offer: func(address string) { _, _ = fmt.Fprintf(out, "Open %s\n", address) },
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if _, err := fmt.Fprintf(out, "Open %s\nCtrl-C ends it.\n", page.Address()); err != nil {
		return errors.Join(fmt.Errorf("write the address: %w", err), listener.Close())
	}
	return page.Run(ctx)
}

// databaseSource explains by the databases themselves, as `atoll explain --nb-address` does.
type databaseSource struct {
	*client.Remote
	options explainOptions
}

// Explain implements ui.Source.
func (d databaseSource) Explain(ctx context.Context, spec api.ExplanationSpec) (explain.Explanation, error) {
	q, err := question.ParseQuestion(spec)
	if err != nil {
		return explain.Explanation{}, err
	}
	return d.options.byDatabase(ctx, q, spec.From, spec.To)
}
