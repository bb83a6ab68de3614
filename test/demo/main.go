// Demo shows on one machine what Atoll is for: it starts a sandbox, applies docs/examples/two-networks (two
// Networks that use the same addresses), waits until all is Ready, probes every pod from every pod, and asks a pod of
// each Network what it reaches besides: names, a Service, the Kubernetes API, the outside.
//
// It does what a user would do, with the commands that it prints; only the waiting, the matrix and the questions are
// its own. It fails unless every path and every answer is as expected. It can be run again while the sandbox runs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/reach"
)

const (
	// program and example are named from the root of the repository, where the demo is run.
	program = "bin/atoll-sandbox"
	example = "docs/examples/two-networks"
	// selector finds the pods of the example.
	selector = "example=two-networks"
)

// options are what the demo can be told.
type options struct {
	name, state string
	patience    time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.name, "name", sandbox.DefaultName, "the sandbox's name")
	flag.StringVar(&o.state, "state", sandbox.DefaultState, "the sandbox's directory")
	flag.DurationVar(&o.patience, "ready-within", 3*time.Minute, "how long the example may take to become Ready")
	flag.Parse()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo:", err)
		stop()
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	if _, err := os.Stat(example); err != nil {
		return fmt.Errorf("find the example, which is named from the root of the repository: %w", err)
	}
	began := time.Now()
	var took durations
	headline("A real cluster on this machine")
	var box *sandbox.Sandbox
	err := took.measure("sandbox", func() (err error) {
		box, err = sandbox.Up(ctx, sandbox.Options{Name: o.name, State: o.state}, os.Stdout)
		return err
	})
	if err != nil {
		return err
	}
	config, err := box.RESTConfig()
	if err != nil {
		return err
	}
	clients, err := ready.NewClients(config)
	if err != nil {
		return err
	}
	headline("Two Networks, red and blue, both with 10.0.0.0/24 and 10.0.1.0/24")
	if err := took.measure("apply until Ready", func() error { return o.apply(ctx, clients) }); err != nil {
		return err
	}
	if err := run(ctx, o.command("kubectl", "get", "pods", "-A", "-o", "wide")); err != nil {
		return err
	}
	headline("Who reaches whom: every pod probes every pod")
	var m *matrix.Matrix
	err = took.measure("matrix", func() error {
		m, err = probe(ctx, config, clients)
		return err
	})
	if err != nil {
		return err
	}
	if err := m.Print(os.Stdout); err != nil {
		return err
	}
	headline("What they reach besides: names, a Service, the Kubernetes API, the outside")
	var answers []reach.Row
	err = took.measure("questions", func() error {
		answers, err = ask(ctx, config, clients)
		return err
	})
	if err != nil {
		return err
	}
	if err := reach.Print(os.Stdout, reach.Example(), answers); err != nil {
		return err
	}
	fmt.Printf("%s; total %s\n", took, round(time.Since(began)))
	if !m.Verdict().OK() {
		return errors.New("the matrix is not as expected")
	}
	if reach.Failures(answers) > 0 {
		return errors.New("an answer is not as expected")
	}
	headline("Try next")
	o.next()
	return nil
}

// apply applies the example and waits until it works.
func (o options) apply(ctx context.Context, clients ready.Clients) error {
	if err := run(ctx, o.command("kubectl", "apply", "--server-side", "-f", example)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	return clients.Wait(ctx, []string{"red", "blue"}, []string{"red", "blue"}, newTicker(os.Stdout).report)
}

// probe runs the matrix of the example's pods.
func probe(ctx context.Context, config *rest.Config, clients ready.Clients) (*matrix.Matrix, error) {
	pods, err := matrix.List(ctx, clients.Kube, selector)
	if err != nil {
		return nil, err
	}
	exec, err := matrix.NewExec(config, clients.Kube)
	if err != nil {
		return nil, err
	}
	return matrix.Run(ctx, exec, pods)
}

// ask asks a pod of each Network what it reaches besides.
func ask(ctx context.Context, config *rest.Config, clients ready.Clients) ([]reach.Row, error) {
	exec, err := matrix.NewExec(config, clients.Kube)
	if err != nil {
		return nil, err
	}
	return reach.Ask(ctx, exec, clients.Kube, reach.Example(), reach.SandboxOutside())
}

// next prints commands to go on with; they work as printed.
func (o options) next() {
	down := []string{"make", "demo-down"}
	if o.state != sandbox.DefaultState {
		down = []string{program, "down", "--name=" + o.name, "--state=" + o.state}
	}
	commands := []struct {
		argv []string
		what string
	}{
		{o.command("kubectl", "get", "networks"), "the Networks, their state and their pods"},
		{o.command("ovn-nbctl", "show"), "their routers and switches in OVN"},
		{o.command("node", "exec", "n1", "--", "ovs-vsctl", "show"), "the node with two pods of one address"},
		{down, "remove all of it"},
	}
	width := 0
	for _, c := range commands {
		width = max(width, len(strings.Join(c.argv, " ")))
	}
	for _, c := range commands {
		fmt.Printf("  %-*s   # %s\n", width, strings.Join(c.argv, " "), c.what)
	}
}

func headline(text string) { fmt.Printf("\n== %s\n", text) }
