package cli

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// ErrDropped is the error of a trace that worked and found that a packet is dropped; why has been printed.
var ErrDropped = errors.New("the packet is dropped")

const defaultTimeout = time.Minute

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Which policy drops or admits a packet, and what a policy would change",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(tryCommand(), traceCommand(), verdictsCommand())
	return cmd
}

// checkOutput says what is wrong with the name of a format.
func checkOutput(format string) error {
	if !slices.Contains([]string{formatTable, formatJSON}, format) {
		return fmt.Errorf("--output: %q is neither %s nor %s", format, formatTable, formatJSON)
	}
	return nil
}
