package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/test/demo/ready"
	"github.com/atoll-net/atoll/test/demo/tenants"
	"github.com/atoll-net/atoll/test/matrix"
	"github.com/atoll-net/atoll/test/reach"
	"github.com/atoll-net/atoll/test/sandbox"
)

// example is what the demo applies, and asks about.
type example struct {
	// dir is where it is, from the root of the repository, and about says what it is.
	dir, about string
	// networks and namespaces are those that have to become Ready.
	networks, namespaces []string
	// ask asks, and prints the answers; it fails when one is not as expected.
	ask  func(context.Context, *stage) error
	next []tip
}

func examples() map[string]example {
	return map[string]example{
		"two-networks": {
			dir:        "docs/examples/two-networks",
			about:      "Two Networks, red and blue, both with 10.0.0.0/24 and 10.0.1.0/24",
			networks:   []string{"red", "blue"},
			namespaces: []string{"red", "blue"},
			ask:        askNetworks,
			next: []tip{
				{[]string{"kubectl", "get", "networks"}, "the Networks, their state and their pods"},
				{[]string{"ovn-nbctl", "show"}, "their routers and switches in OVN"},
				{[]string{"node", "exec", "n1", "--", "ovs-vsctl", "show"}, "the node with two pods of one address"},
			},
		},
		"tenants": {
			dir:        tenants.Example,
			about:      "Tenants acme and umbrella with the same addresses, and platform, which both use",
			networks:   tenants.Networks(),
			namespaces: tenants.Namespaces(),
			ask:        askTenants,
			next: []tip{
				{[]string{"kubectl", "get", "tenants,networks"}, "the tenants and their Networks"},
				{[]string{"kubectl", "get", "network", "acme", "-o", "jsonpath={.status.compatibility}"}, "who reaches whom"},
			},
		},
	}
}

// stage is where an example is shown.
type stage struct {
	options
	example example
	config  *rest.Config
	clients ready.Clients
	exec    matrix.Exec
	took    durations
	// bare is whether Atoll has to be installed, as the administrator that kubeconfig names.
	bare       bool
	kubeconfig string
}

// overlay is what is installed, from the root of the repository.
const overlay = "dist/overlays/sandbox"

// up starts a cluster that has no network yet.
func (s *stage) up(ctx context.Context) error {
	box, err := sandbox.Up(ctx, sandbox.Options{Name: s.name, State: s.state, Bare: true}, os.Stdout)
	if err != nil {
		return err
	}
	s.bare, s.kubeconfig = box.Bare(), box.Kubeconfig()
	if s.config, err = box.RESTConfig(); err != nil {
		return err
	}
	if s.clients, err = ready.NewClients(s.config); err != nil {
		return err
	}
	s.exec, err = matrix.NewExec(s.config, s.clients.Kube)
	return err
}

// install does what README tells those to do who have a cluster without a network plugin. The kustomization has the sandbox's
// addresses, in place of flags.
func (s *stage) install(ctx context.Context) error {
	if !s.bare {
		fmt.Println("This sandbox was started without --bare, and has Atoll already.")
		return nil
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	for _, command := range []string{"preflight", "install"} {
		argv := s.command("central", "exec", "--", filepath.Join(root, "bin/atoll"), command, "-k", filepath.Join(root, overlay), "--kubeconfig",
			s.kubeconfig)
		if err := run(ctx, argv); err != nil {
			return err
		}
	}
	return nil
}

// apply applies the example and waits until it works.
func (s *stage) apply(ctx context.Context) error {
	if err := run(ctx, s.command("kubectl", "apply", "--server-side", "-f", s.example.dir)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	return s.clients.Wait(ctx, s.example.networks, s.example.namespaces, newTicker(os.Stdout).report)
}

// askNetworks shows who of two Networks reaches whom, and what else a pod of each reaches.
func askNetworks(ctx context.Context, s *stage) error {
	headline("Who reaches whom: every pod probes every pod")
	var m *matrix.Matrix
	err := s.took.measure("matrix", func() error {
		// The example's pods have its name as a label.
		pods, err := matrix.List(ctx, s.clients.Kube, "example=two-networks")
		if err == nil {
			m, err = matrix.Run(ctx, s.exec, pods)
		}
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
	err = s.took.measure("questions", func() (err error) {
		answers, err = reach.Ask(ctx, s.exec, s.clients.Kube, reach.Example(), reach.SandboxOutside())
		return err
	})
	if err != nil {
		return err
	}
	if err := reach.Print(os.Stdout, reach.Example(), answers); err != nil {
		return err
	}
	switch {
	case !m.Verdict().OK():
		return errors.New("the matrix is not as expected")
	case reach.Failures(answers) > 0:
		return errors.New("an answer is not as expected")
	}
	return nil
}

// askTenants shows who of the tenants reaches whom, and as whom, beside what the example's page says.
func askTenants(ctx context.Context, s *stage) error {
	page, err := os.ReadFile(tenants.Page)
	if err != nil {
		return fmt.Errorf("read page of the example: %w", err)
	}
	want, err := tenants.Want(string(page))
	if err != nil {
		return err
	}
	headline("Who reaches whom, and is seen as whom: every pod probes every pod, Services and names")
	var got []tenants.Table
	err = s.took.measure("questions", func() (err error) {
		got, err = tenants.Observe(ctx, s.exec, s.clients.Kube)
		return err
	})
	if err != nil {
		return err
	}
	total := 0
	for _, t := range got {
		if err := t.Print(os.Stdout); err != nil {
			return err
		}
		fmt.Println()
		total += t.Cells()
	}
	wrong := tenants.Compare(got, want)
	for _, text := range wrong {
		fmt.Println("  " + text)
	}
	fmt.Printf("%d of %d cells as in %s\n\n", total-len(wrong), total, tenants.Page)
	if len(wrong) > 0 {
		return errors.New("what was found is not what the page of the example says")
	}
	return nil
}
