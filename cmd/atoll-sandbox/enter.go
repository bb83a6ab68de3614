package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/place"
)

// ownFlags is what the help of a tool's command says about our flags.
const ownFlags = `Flags of atoll-sandbox come before the command; --state also right after it. All else goes to the tool as it is,
--help too.`

// kubectlCommand hands over to kubectl, which sees the machine's files and the control plane's network.
func kubectlCommand(opts *sandbox.Options) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl [--state DIR] ARGS...",
		Short:              "Run the sandbox's kubectl as its administrator",
		Long:               "Run the sandbox's kubectl as its administrator.\n\n" + ownFlags,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(opts, args, func(*sandbox.Sandbox) []string { return []string{"kubectl"} })
		},
	}
}

func ovnCommand(opts *sandbox.Options, tool string) *cobra.Command {
	return &cobra.Command{
		Use:                tool + " [--state DIR] ARGS...",
		Short:              "Run " + tool + " on the sandbox's database",
		Long:               "Run " + tool + " on the sandbox's database.\n\n" + ownFlags,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			return become(opts, args, func(*sandbox.Sandbox) []string { return ovnTool(tool) })
		},
	}
}

// ovnTool is a call of one of OVN's tools in the pod of a member of the databases. A member that does not lead answers as well.
func ovnTool(tool string) []string {
	container := "nb"
	if tool == "ovn-sbctl" {
		container = "sb"
	}
	return []string{"kubectl", "exec", "-i", "-n", "atoll-system", "ds/atoll-ovn-central", "-c", container, "--", tool}
}

// become replaces this process by one of the sandbox's command line tools, in the control plane's network. Of
// our own flags only --state may come after the command, and first: the others are names of the tools' own flags, too.
func become(opts *sandbox.Options, args []string, tool func(*sandbox.Sandbox) []string) error {
	args, err := takeState(opts, args)
	if err != nil {
		return err
	}
	s, err := sandbox.Open(opts.State)
	if err != nil {
		return err
	}
	argv := append(tool(s), args...)
	program, err := findIn(filepath.SplitList(s.Path()), argv[0])
	if err != nil {
		return err
	}
	return place.Become(s.Namespace(sandbox.Central), program, argv, append(os.Environ(), s.KubectlEnvironment()...))
}

// takeState reads a leading --state, which cobra does not parse where a tool's own flags follow.
func takeState(opts *sandbox.Options, args []string) ([]string, error) {
	const flag = "--state"
	switch {
	case len(args) > 0 && len(args[0]) > len(flag) && args[0][:len(flag)+1] == flag+"=":
		opts.State = args[0][len(flag)+1:]
		return args[1:], nil
	case len(args) > 1 && args[0] == flag:
		opts.State = args[1]
		return args[2:], nil
	case len(args) == 1 && args[0] == flag:
		return nil, fmt.Errorf("parse flags: %s needs a directory", flag)
	}
	return args, nil
}

func findIn(dirs []string, name string) (string, error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find program %s: not among the sandbox's parts", name)
}

func nodeCommand(opts *sandbox.Options) *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Work on a node"}
	cmd.AddCommand(&cobra.Command{
		Use:   "exec NODE -- COMMAND...",
		Short: "Run a command in all namespaces of a node",
		Args:  cobra.MinimumNArgs(2),
		RunE:  func(cmd *cobra.Command, args []string) error { return enter(cmd, opts, args[0], args[1:]) },
	})
	cmd.AddCommand(
		powerCommand(opts, "stop", "Take a node's power away: only what is on its disk stays", (*sandbox.Sandbox).StopNode),
		powerCommand(opts, "start", "Start a node that was stopped", (*sandbox.Sandbox).StartNode),
		powerCommand(opts, "reboot", "Stop a node and start it again", (*sandbox.Sandbox).RebootNode),
	)
	return cmd
}

func powerCommand(opts *sandbox.Options, name, short string, run func(*sandbox.Sandbox, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " NODE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sandbox.Open(opts.State)
			if err != nil {
				return err
			}
			return run(s, cmd.Context(), args[0])
		},
	}
}

// placeCommand is about one place that is no node. what is how a person calls all that is there, where the place itself.
func placeCommand(opts *sandbox.Options, name, what, where string) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: "Work on " + what}
	cmd.AddCommand(&cobra.Command{
		Use:   "exec -- COMMAND...",
		Short: "Run a command in all namespaces of " + where,
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return enter(cmd, opts, name, args) },
	})
	return cmd
}

func enter(cmd *cobra.Command, opts *sandbox.Options, name string, argv []string) error {
	s, err := sandbox.Open(opts.State)
	if err != nil {
		return err
	}
	run, err := s.Command(cmd.Context(), name, argv...)
	if err != nil {
		return err
	}
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = run.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return statusError(exit.ExitCode())
	}
	return err
}
