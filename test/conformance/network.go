package main

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// network is where the pods of the tests live.
type network string

const (
	// defaultNetwork is the Network default: the namespaces of the tests have no label.
	defaultNetwork network = "default"
	// vpcNetwork is a Network of its own addresses: the namespaces get its label when they are made.
	vpcNetwork network = "vpc"
	// joinedNetworks are three of them that mode Routed joins: the namespaces are spread over them.
	joinedNetworks network = "joined"
	// flatNetworks are the default one and a flat one beside it: the namespaces are spread over both.
	flatNetworks network = "flat"
)

func networkNamed(name string) (network, error) {
	switch n := network(name); n {
	case defaultNetwork, vpcNetwork, joinedNetworks, flatNetworks:
		return n, nil
	}
	return "", fmt.Errorf("find network %q: there are %s, %s, %s and %s", name, defaultNetwork, vpcNetwork, joinedNetworks, flatNetworks)
}

// The objects that make the tests' namespaces infrastructure, those that put them into Networks, and a namespace such as
// the tests make.
var (
	//go:embed infrastructure.yaml
	infrastructureManifest []byte
	//go:embed vpc/network.yaml
	vpcManifest []byte
	//go:embed vpc/policy.yaml
	policyManifest []byte
	//go:embed joined/networks.yaml
	joinedManifest []byte
	//go:embed joined/policy.yaml
	spreadManifest []byte
	//go:embed flat/network.yaml
	flatManifest []byte
	//go:embed flat/policy.yaml
	halfManifest []byte
	//go:embed vpc/probe.yaml
	probeManifest []byte
)

const placeLimit = 2 * time.Minute

// places are what puts the tests' namespaces into Networks.
type places struct {
	networks, policy []byte
	// names are those of the Networks. The last one is that of a namespace without a number.
	names []string
}

func placesOf(n network) places {
	switch n {
	case joinedNetworks:
		return places{joinedManifest, spreadManifest, []string{"conformance-a", "conformance-b", "conformance-c"}}
	case flatNetworks:
		return places{flatManifest, halfManifest, []string{"conformance-flat"}}
	}
	return places{vpcManifest, policyManifest, []string{"conformance"}}
}

// place decides where namespaces that the tests make from now on belong.
func (c *cluster) place(ctx context.Context, n network) error {
	if _, err := c.kubectl(ctx, infrastructureManifest, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	if n == defaultNetwork {
		return c.unplace(ctx)
	}
	to := placesOf(n)
	if _, err := c.kubectl(ctx, to.networks, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	for _, name := range to.names {
		if _, err := c.kubectl(ctx, nil, "wait", "--for=condition=Ready", "--timeout="+placeLimit.String(), "network/"+name); err != nil {
			return err
		}
		if n != joinedNetworks {
			continue
		}
		if _, err := c.kubectl(ctx, nil, "wait", "--for=jsonpath={.status.joined}="+strconv.Itoa(len(to.names)),
			"--timeout="+placeLimit.String(), "network/"+name); err != nil {
			return err
		}
	}
	if _, err := c.kubectl(ctx, to.policy, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	return c.waitPlaced(ctx, to.names[len(to.names)-1])
}

// unplace undoes place. Namespaces that exist stay where they are.
func (c *cluster) unplace(ctx context.Context) error {
	if _, err := c.kubectl(ctx, policyManifest, "delete", "--ignore-not-found", "-f", "-"); err != nil {
		return err
	}
	return c.waitPlaced(ctx, "")
}

// waitPlaced waits until a new namespace of the tests would be infrastructure and get this Network: the API server takes up a
// change of its policies after a moment.
func (c *cluster) waitPlaced(ctx context.Context, network string) error {
	got, want := "", strings.TrimSpace("true "+network)
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, placeLimit, true, func(ctx context.Context) (bool, error) {
		printed, err := c.kubectl(ctx, probeManifest, "create", "--dry-run=server",
			"-o", `jsonpath={.metadata.labels.atoll\.dev/infrastructure} {.metadata.labels.atoll\.dev/network}`, "-f", "-")
		got = strings.TrimSpace(printed)
		return got == want, err
	})
	if err != nil {
		return fmt.Errorf("wait until namespaces of the tests are infrastructure, and what Network they belong to: want %q, got %q: %w", want,
			got, err)
	}
	return nil
}
