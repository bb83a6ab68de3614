package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/pkg/build"
	"github.com/atoll-net/atoll/pkg/install"
)

// pluginName is what kubectl calls us when it is asked for `kubectl atoll`.
const pluginName = "kubectl-atoll"

// ErrDifferences is the error of a check that worked and found differences; they have been printed.
var ErrDifferences = errors.New("there are differences")

// The exit statuses of the program.
const (
	statusDone = iota
	statusDifferences
	statusFailed
)

// ExitStatus is the status that the program ends with: 0 when all is well, 1 when there are differences a packet is
// dropped, or something is in the way of what was asked, 2 when a command could not do its work.
func ExitStatus(err error) int {
	switch {
	case err == nil:
		return statusDone
	case errors.Is(err, ErrDifferences), errors.Is(err, ErrDropped), errors.Is(err, ErrStopped),
		errors.Is(err, install.ErrHanging), errors.Is(err, install.ErrRefused):
		return statusDifferences
	}
	return statusFailed
}

// Command is the whole program. program is the name that it was called by.
func Command(program string) *cobra.Command {
	root := &cobra.Command{
		Use:           "atoll",
		Version:       build.Version(),
		Short:         "For those who run Atoll",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if program == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl atoll"}
	}
	root.AddCommand(installCommand(), preflightCommand(), upgradeCommand(), uninstallCommand(), checkCommand(), policyCommand(), explainCommand(), ovnCommand())
	return root
}
