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

// ErrUnhealthy is the error of a status that worked and found that something is not well, which has been printed; so of a pod.
var ErrUnhealthy = errors.New("something is not well")

// The exit statuses of the program.
const (
	statusDone = iota
	statusDifferences
	statusFailed
	statusContradicted
)

// ExitStatus is the status that the program ends with: 0 when all is well, 1 when there are differences, a packet is
// dropped, or something is in the way of what was asked, 2 when a command could not do its work, 3 when a packet did not go as explained. A program of OVN's or Open vSwitch's that was run
// has its own.
func ExitStatus(err error) int {
	if program, ran := errors.AsType[*programError](err); ran {
		return program.status
	}
	switch {
	case err == nil:
		return statusDone
	case errors.Is(err, ErrContradicted):
		return statusContradicted
	case HasSaid(err), errors.Is(err, install.ErrHanging), errors.Is(err, install.ErrRefused):
		return statusDifferences
	}
	return statusFailed
}

// HasSaid reports whether an error is that of a command that worked, and has printed what it found.
func HasSaid(err error) bool {
	for _, found := range []error{ErrDifferences, ErrDropped, ErrLost, ErrMissing, ErrStopped, ErrUnhealthy, ErrPaths, ErrChanges, ErrUnexpected, ErrPartial, ErrContradicted} {
		if errors.Is(err, found) {
			return true
		}
	}
	_, ran := errors.AsType[*programError](err)
	return ran
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
	root.AddCommand(installCommand(), preflightCommand(), upgradeCommand(), uninstallCommand(), statusCommand(), networksCommand(), networkCommand(), ipamCommand(), topologyCommand(), podsCommand(), podCommand(),
		explainCommand(), uiCommand(), pingCommand(), captureCommand(), matrixCommand(), bundleCommand(), flowsCommand(), dropsCommand(), checkCommand(), connectivityCommand(), policyCommand(), ovnCommand(), nbctlCommand(), sbctlCommand(),
		vsctlCommand(), ofctlCommand(), appctlCommand())
	return root
}
