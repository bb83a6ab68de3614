// Atoll-probe runs in the pods of atoll connectivity test: it says who it is, and tries what it is told.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
	"github.com/atoll-net/atoll/pkg/process/build"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "atoll-probe:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "atoll-probe",
		Version:       build.Version(),
		Short:         "What the pods of atoll connectivity test run",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(&cobra.Command{
		Use:   "serve",
		Short: "Say who this pod is, by HTTP and UDP",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			who := probe.Identity{Namespace: os.Getenv("POD_NAMESPACE"), Name: os.Getenv("POD_NAME"), UID: os.Getenv("POD_UID")}
			return probe.Serve(cmd.Context(), who, "", probe.Port, nil)
		},
	}, &cobra.Command{
		Use:   "ask QUESTIONS",
		Short: "Try what a JSON list of questions says, and print a JSON list of answers",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var questions []probe.Question
			if err := json.Unmarshal([]byte(args[0]), &questions); err != nil {
				return fmt.Errorf("read questions: %w", err)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(probe.Ask(cmd.Context(), questions))
		},
	})
	return root
}
