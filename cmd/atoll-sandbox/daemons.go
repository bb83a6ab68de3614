package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox"
)

func statusCommand(opts *sandbox.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show every daemon of every place",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := sandbox.Open(opts.State)
			if err != nil {
				return err
			}
			if err := printStatus(cmd.Context(), s, cmd.OutOrStdout()); err != nil {
				return err
			}
			printHints(cmd, opts, s)
			return nil
		},
	}
}

// printStatus writes a table of all daemons. A place that does not answer is a line of it and an error at the end.
func printStatus(ctx context.Context, s *sandbox.Sandbox, out io.Writer) error {
	var broken []string
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PLACE\tDAEMON\tSTATE\tPID\tRESTARTS\tSINCE")
	for _, name := range s.Places() {
		daemons, err := s.Daemons(ctx, name)
		if err != nil {
			fmt.Fprintf(table, "%s\t-\tdown\t-\t-\t-\n", name)
			broken = append(broken, name)
			continue
		}
		for _, d := range daemons {
			state, pid, since := "ready", fmt.Sprint(d.PID), progress.Round(time.Since(d.Since))
			switch {
			case d.Held:
				state, pid, since = "stopped", "-", "-"
			case d.PID == 0:
				state, pid, since = "down: "+d.Problem, "-", "-"
			case !d.Ready:
				state = "not ready: " + d.Problem
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", name, d.Name, state, pid, d.Restarts, since)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if len(broken) > 0 {
		return fmt.Errorf("look at sandbox: no answer from %s; atoll-sandbox up, with the same flags as before, starts a node again and makes "+
			"anew what has lost its control plane",
			strings.Join(broken, ", "))
	}
	return nil
}

// daemonCommand is a command with the arguments PLACE and DAEMON.
func daemonCommand(
	opts *sandbox.Options, name, short string, run func(s *sandbox.Sandbox, ctx context.Context, place, daemon string) error,
) *cobra.Command {
	return &cobra.Command{
		Use:   name + " PLACE DAEMON",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := sandbox.Open(opts.State)
			if err != nil {
				return err
			}
			return run(s, cmd.Context(), args[0], args[1])
		},
	}
}

func killCommand(opts *sandbox.Options) *cobra.Command {
	name := "KILL"
	cmd := daemonCommand(opts, "kill", "Send a signal to a daemon; if it ends, it is started again",
		func(s *sandbox.Sandbox, ctx context.Context, place, daemon string) error {
			number, err := parseSignal(name)
			if err != nil {
				return err
			}
			return s.Signal(ctx, place, daemon, number)
		})
	cmd.Flags().StringVar(&name, "signal", name, "signal to send, by name")
	return cmd
}

func parseSignal(name string) (syscall.Signal, error) {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if number := unix.SignalNum("SIG" + name); number != 0 {
		return number, nil
	}
	return 0, fmt.Errorf("parse signal: there is no %q", name)
}

func logsCommand(opts *sandbox.Options) *cobra.Command {
	return daemonCommand(opts, "logs", "Print what a daemon wrote",
		func(s *sandbox.Sandbox, _ context.Context, place, daemon string) error {
			file, err := os.Open(s.LogPath(place, daemon))
			if err != nil {
				return fmt.Errorf("open log: %w", err)
			}
			defer file.Close()
			if _, err := io.Copy(os.Stdout, file); err != nil {
				return fmt.Errorf("print log: %w", err)
			}
			return nil
		})
}
