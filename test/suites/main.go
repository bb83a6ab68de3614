// Command suites runs the project's test suites one after the other, shows what happens, and sums up: one line per
// suite, and in the last line nothing but "N passed, N failed". It fails if anything failed.
//
//	suites NAME...             runs the suites of that name (suites.go)
//	suites NAME,NAME+NAME...   runs those with a comma between them beside each other: for suites that wait more than
//	                           they work. Each line says which suite it is from. A suite after a plus begins when the
//	                           one before it has ended
//	suites -all NAME...        runs them without leaving anything out, and draws what is random anew: make test-all
//	suites -exec COMMAND ARG.. runs a command with the environment that the integration tests get
//
// A test that skips itself counts as failed: what cannot be tested on a machine must say so. A test that fails is run
// again alone, once, after all others. If it passes then, it is unsteady: it counts as passed, the summary names it, and
// make test-all repeats it. More than two unsteady tests in a run count as failed.
//
// What the tests need of other projects (Kubernetes, etcd, OVN) is built and fetched into the sandbox's cache, beside the
// suites that do not need it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command := flag.Bool("exec", false, "run the command that follows, with the tests' environment")
	fuzzTime := flag.Duration("fuzztime", 5*time.Second, "how long each fuzz test runs")
	all := flag.Bool("all", false, "leave nothing out, and draw what is random anew")
	flag.Parse()
	r := newRunner(ctx, os.Stdout, *all)
	r.fuzzTime = *fuzzTime
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
		environment, err := r.parts()
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = append(os.Environ(), environment...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return interruptible(cmd).Run()
	}
	var chosen [][]lane
	for _, names := range args {
		group, err := lanesOf(names)
		if err != nil {
			return err
		}
		chosen = append(chosen, group)
	}
	if err := steadyTimes(ctx, "."); err != nil {
		// Tests run anyway, without Go's test cache.
		fmt.Fprintln(r.out, "suites:", err)
	}
	fmt.Fprintln(r.out, strings.Join(r.settings, " "))
	// Parts are built beside the suites that do not need them.
	if slices.ContainsFunc(slices.Concat(slices.Concat(chosen...)...), func(s suite) bool { return s.needs == needsParts }) {
		go func() { _, _ = r.parts() }() // whoever needs them waits for them, and gets the error
	}
	var results []result
	for _, group := range chosen {
		results = append(results, r.beside(ctx, group)...)
		if ctx.Err() != nil {
			break
		}
	}
	r.unsteady.remember(r.out, runAgain(ctx, r.out, results))
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
