package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/process/build"
)

// versionCommand is --version for who looks for it among the commands, as kubectl and most of its plugins have it.
func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program; atoll status prints those in the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s version %s\n", cmd.Root().DisplayName(), build.Version())
			return err
		},
	}
}
