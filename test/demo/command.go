package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/atoll-net/atoll/test/sandbox"
)

// command is a call of atoll-sandbox as a user types it.
func (o options) command(args ...string) []string {
	argv := []string{program}
	if o.state != sandbox.DefaultState {
		argv = append(argv, "--state="+o.state)
	}
	return append(argv, args...)
}

// run shows a command and runs it.
func run(ctx context.Context, argv []string) error {
	line := strings.Join(argv, " ")
	fmt.Printf("$ %s\n", line)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// It cleans up by itself when it is told to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s: %w", line, err)
	}
	return nil
}
