package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/images/image"
	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// built is what is built for the tests.
type built struct {
	// tests is the program with the tests in it.
	tests string
	// archives are images to load.
	archives []string
}

// build builds the tests, and the images that their manifests name, from the sources that upstream publishes with them:
// every version of the echo server is the one of the tests themselves.
func (o options) build(ctx context.Context) (built, error) {
	out := built{tests: filepath.Join(o.reports, "suite.test")}
	echo := filepath.Join(o.reports, "echo-basic")
	for _, args := range [][]string{
		{"test", "-c", "-o", out.tests, "."},
		{"build", "-o", echo, gatewayEcho},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = filepath.Join(o.sandbox.Source, "test", "conformance", "gateway", "suite")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if text, err := cmd.CombinedOutput(); err != nil {
			return built{}, fmt.Errorf("go %v: %w\n%s", args, err, text)
		}
	}
	gathered, err := parts.Gather(ctx, parts.Need{Cache: sandbox.DefaultCache, Source: o.sandbox.Source}, progress.New(o.out, parts.Steps))
	if err != nil {
		return built{}, err
	}
	const echoImage = "registry.k8s.io/gateway-api/echo-basic:"
	for i, wanted := range []image.Image{
		{Reference: echoImage + "v1.5.1", Program: echo, Name: "echo-basic"},
		{Reference: echoImage + "v1.6.0-dev.2", Program: echo, Name: "echo-basic"},
		{Reference: echoImage + "v1.6.0-dev.3", Program: echo, Name: "echo-basic"},
		{Reference: "registry.k8s.io/coredns/coredns:v1.12.2", Program: gathered.CoreDNS, Name: "coredns"},
	} {
		archive := filepath.Join(o.reports, fmt.Sprintf("image-%d.tar", i))
		if err := image.Write(archive, wanted); err != nil {
			return built{}, err
		}
		out.archives = append(out.archives, archive)
	}
	return out, nil
}

// gatewayEcho is the program that most of the tests' pods run.
const gatewayEcho = "sigs.k8s.io/gateway-api/conformance/echo-basic"

// load puts the images on the nodes.
func (c cluster) load(ctx context.Context, b built) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range c.box.Nodes() {
		group.Go(func() error {
			for _, archive := range b.archives {
				if _, err := c.box.Exec(ctx, node, "ctr", "-n", "k8s.io", "images", "import", "--local", archive); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
