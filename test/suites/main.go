// Command suites runs the project's test suites one after the other, shows what happens, and sums up: one line per
// suite, and in the last line nothing but "N passed, N failed". It fails if anything failed.
//
//	suites NAME...             runs the suites of that name: verify, lint, unit, fuzz, integration, e2e, conformance,
//	                           alone, kernel
//	suites NAME,NAME...        runs those with a comma between them beside each other: for suites that wait more than
//	                           they work. Each line says which suite it is from
//	suites -exec COMMAND ARG.. runs a command with the environment that the integration tests get
//
// A test that skips itself counts as failed: what cannot be tested on a machine must say so. What the tests need of
// other projects (Kubernetes, etcd, OVN) is built and fetched first, into the sandbox's cache.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := flag.Bool("exec", false, "run the command that follows, with the tests' environment")
	fuzzTime := flag.Duration("fuzztime", 5*time.Second, "how long each fuzz test runs")
	flag.Parse()
	r := &runner{out: os.Stdout, fuzzTime: *fuzzTime}
	if err := r.main(ctx, *command, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		stop()
		os.Exit(1)
	}
}

var errFailed = errors.New("not all passed")

func (r *runner) main(ctx context.Context, command bool, args []string) error {
	if len(args) == 0 {
		return errors.New("name a suite or a command")
	}
	if command {
		if err := r.gather(ctx); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), r.environment...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return interruptible(cmd).Run()
	}
	var chosen [][]suite
	for _, names := range args {
		var group []suite
		for name := range strings.SplitSeq(names, ",") {
			s, err := suiteNamed(name)
			if err != nil {
				return err
			}
			group = append(group, s)
		}
		chosen = append(chosen, group)
	}
	var results []result
	for _, group := range chosen {
		results = append(results, r.beside(ctx, group)...)
		if ctx.Err() != nil {
			break
		}
	}
	if !summarise(r.out, results) {
		return errFailed
	}
	return context.Cause(ctx)
}

// interruptible has the end of the command's context interrupt it and, if it does not end, kill it.
func interruptible(cmd *exec.Cmd) *exec.Cmd {
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 3 * time.Minute
	return cmd
}
