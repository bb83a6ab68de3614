// Demo shows on one machine what Atoll is for: it starts a cluster without a network, installs Atoll in it as README says,
// applies an example, waits until all is Ready, and asks.
//
//   - two-networks: two Networks that use the same addresses. Every pod probes every pod, and a pod of each Network is asked what it
//     reaches besides: names, a Service, the Kubernetes API, the outside.
//   - tenants: three tenants whose Networks have the same addresses, and reach each other where they want it. Every pod probes every
//     pod, Services and names, and the answers are compared with the tables of the example's page.
//
// It does what a user would do, with the commands that it prints; only the waiting and the questions are its own. It fails unless every
// path and every answer is as expected. It can be run again while the sandbox runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/test/sandbox"
)

// program is named from the root of the repository, where the demo is run.
const program = "bin/atoll-sandbox"

// options are what the demo can be told.
type options struct {
	name, state, example string
	patience             time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.name, "name", sandbox.DefaultName, "the sandbox's name")
	flag.StringVar(&o.state, "state", sandbox.DefaultState, "the sandbox's directory")
	flag.StringVar(&o.example, "example", "two-networks", "the example: two-networks or tenants")
	flag.DurationVar(&o.patience, "ready-within", 3*time.Minute, "how long the example may take to become Ready")
	flag.Parse()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		stop()
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	shown, known := examples()[o.example]
	if !known {
		return fmt.Errorf("find example %q: there are two-networks and tenants", o.example)
	}
	if _, err := os.Stat(shown.dir); err != nil {
		return fmt.Errorf("find the example, which is named from the root of the repository: %w", err)
	}
	began := time.Now()
	s := stage{options: o, example: shown}
	headline("A real cluster on this machine")
	if err := s.took.measure("sandbox", func() error { return s.up(ctx) }); err != nil {
		return err
	}
	headline("Atoll is installed in it: two commands")
	if err := s.took.measure("install", func() error { return s.install(ctx) }); err != nil {
		return err
	}
	headline(shown.about)
	if err := s.took.measure("apply until Ready", func() error { return s.apply(ctx) }); err != nil {
		return err
	}
	if err := run(ctx, o.command("kubectl", "get", "pods", "-A", "-o", "wide")); err != nil {
		return err
	}
	wrong := shown.ask(ctx, &s)
	fmt.Printf("%s; total %s\n", s.took, round(time.Since(began)))
	if wrong != nil {
		return wrong
	}
	headline("Try next")
	o.next(shown.next)
	return nil
}

// tip is a command to go on with, and what it shows.
type tip struct {
	args []string
	what string
}

// next prints commands to go on with; they work as printed.
func (o options) next(tips []tip) {
	down := []string{"make", "demo-down"}
	if o.state != sandbox.DefaultState {
		down = []string{program, "down", "--name=" + o.name, "--state=" + o.state}
	}
	type line struct{ command, what string }
	var lines []line
	width := 0
	for _, t := range tips {
		lines = append(lines, line{strings.Join(o.command(t.args...), " "), t.what})
	}
	lines = append(lines, line{strings.Join(down, " "), "remove all of it"})
	for _, l := range lines {
		width = max(width, len(l.command))
	}
	for _, l := range lines {
		fmt.Printf("  %-*s   # %s\n", width, l.command, l.what)
	}
}

func headline(text string) { fmt.Printf("\n== %s\n", text) }
