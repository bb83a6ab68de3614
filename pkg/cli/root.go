package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/runtime"

	"github.com/atoll-net/atoll/pkg/cli/install"
	"github.com/atoll-net/atoll/pkg/process/build"
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

// ExitStatus is the status that the program ends with: 0 when all is well, 1 when there are differences, a packet is dropped, or
// something is in the way of what was asked, 2 when a command could not do its work, 3 when a packet did not go as explained. A
// program of OVN's or Open vSwitch's that was run has its own.
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
	for _, found := range []error{
		ErrDifferences, ErrDropped, ErrLost, ErrMissing, ErrStopped, ErrUnhealthy, ErrPaths, ErrChanges, ErrUnexpected, ErrPartial,
		ErrContradicted,
	} {
		if errors.Is(err, found) {
			return true
		}
	}
	_, ran := errors.AsType[*programError](err)
	return ran
}

// Main runs the program with its process's arguments, until it is interrupted, and returns its exit status. called is the path by
// which it was called.
func Main(called string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// What client-go logs of errors that it returns as well is not for users.
	runtime.ErrorHandlers = nil
	root := Command(filepath.Base(called))
	err := root.ExecuteContext(ctx)
	if err != nil && !HasSaid(err) {
		fmt.Fprintln(os.Stderr, "atoll:", advice(root, err))
	}
	return ExitStatus(err)
}

// Command is the whole program. program is the name that it was called by.
func Command(program string) *cobra.Command {
	root := &cobra.Command{
		Use:     "atoll",
		Version: build.Version(),
		Short:   "Networks of a cluster's tenants: install, look, explain, mend",
		Long: `Networks of a cluster's tenants: install, look, explain, mend.
A kubeconfig is enough, and its rights decide what is told.

Where to begin:
  atoll status                            is Atoll well?
  atoll networks                          which Networks are there?
  atoll explain red/web-0 svc/red/db      does it get there, and if not, what stops it?`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if program == pluginName {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl atoll"}
	}
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Is it well:", []*cobra.Command{statusCommand(), checkCommand(), connectivityCommand(), bundleCommand()}},
		{
			"What is there:", []*cobra.Command{
				networksCommand(), networkCommand(), podsCommand(), podCommand(), ipamCommand(), topologyCommand(), uiCommand(),
			},
		},
		{"Who reaches whom, and why:", []*cobra.Command{explainCommand(), policyCommand(), flowsCommand(), dropsCommand()}},
		{"With real packets:", []*cobra.Command{pingCommand(), matrixCommand(), captureCommand()}},
		{
			"Install and remove:", []*cobra.Command{
				preflightCommand(), installCommand(), upgradeCommand(), uninstallCommand(), ovnCommand(), nodeCommand(), versionCommand(),
			},
		},
		{
			"Programs of OVN and Open vSwitch, by way of the API server:", []*cobra.Command{
				nbctlCommand(), sbctlCommand(), vsctlCommand(), ofctlCommand(), appctlCommand(),
			},
		},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
	root.InitDefaultCompletionCmd()
	explained(root)
	return root
}
