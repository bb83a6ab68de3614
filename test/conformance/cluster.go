package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/atoll-net/atoll/pkg/process/progress"
	"github.com/atoll-net/atoll/test/sandbox"
	"github.com/atoll-net/atoll/test/sandbox/parts"
)

// options say what to run, and where.
type options struct {
	out      io.Writer
	networks []network
	list     string
	focus    *regexp.Regexp
	procs    int
	reports  string
	keep     bool
	// sandbox names its source tree.
	sandbox sandbox.Options
}

const (
	// upWithin is long: a cold cache is filled first.
	upWithin   = 40 * time.Minute
	downWithin = 2 * time.Minute
)

// cluster is a sandbox with the images of the tests on its nodes.
type cluster struct {
	options
	box   *sandbox.Sandbox
	tests parts.E2E
	// all are the names of the binary's specs; chosen are those to run.
	all, chosen []string
	// found: it ran before, and goes on running.
	found bool
}

// start provides the tests and a sandbox for them. What it started it stops again when it fails.
func (o options) start(ctx context.Context) (*cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	c := &cluster{options: o}
	steps := progress.New(o.out, parts.E2ESteps+1)
	var err error
	if c.tests, err = parts.GatherE2E(ctx, parts.Need{Cache: sandbox.DefaultCache, Source: o.sandbox.Source}, steps); err != nil {
		return nil, err
	}
	var images string
	var references []string
	err = steps.Do("images of the tests' pods", func() (err error) {
		images, references, err = archive(ctx, c.tests, o.sandbox.Source, sandbox.DefaultCache)
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.list != clusterPolicyList {
		listed, err := upstream(ctx, c.tests, "--list-tests")
		if err != nil {
			return nil, err
		}
		c.all = parseList(listed)
		if c.chosen, err = choose(c.all, o.list, o.focus); err != nil {
			return nil, err
		}
	}
	c.found = o.runs(ctx)
	if c.box, err = sandbox.Up(ctx, o.sandbox, o.out); err == nil {
		err = c.load(ctx, images, references)
	}
	if err != nil {
		_ = c.stop() // what went wrong first says more
		return nil, err
	}
	return c, nil
}

// runs tells whether the sandbox is up already.
func (o options) runs(ctx context.Context) bool {
	box, err := sandbox.Open(o.sandbox.State)
	if err != nil {
		return false
	}
	_, err = box.Daemons(ctx, sandbox.Central)
	return err == nil
}

// stop takes the sandbox down, unless it is to stay.
func (c *cluster) stop() error {
	if c.found || c.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), downWithin)
	defer cancel()
	return sandbox.Down(ctx, c.sandbox, c.out)
}

// load puts the images on the nodes that do not have them.
func (c *cluster) load(ctx context.Context, archive string, references []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, node := range c.box.Nodes() {
		group.Go(func() error {
			ctr := func(args ...string) ([]byte, error) {
				return c.box.Exec(ctx, node, append([]string{"ctr", "-n", "k8s.io", "images"}, args...)...)
			}
			there, err := ctr("ls", "-q")
			if err != nil {
				return err
			}
			names := strings.Fields(string(there))
			if !slices.ContainsFunc(references, func(r string) bool { return !slices.Contains(names, r) }) {
				return nil
			}
			_, err = ctr("import", "--local", archive)
			return err
		})
	}
	return group.Wait()
}

// kubectl runs kubectl with something on its standard input, and returns what it printed.
func (c *cluster) kubectl(ctx context.Context, input []byte, args ...string) (string, error) {
	cmd, err := c.box.Command(ctx, sandbox.Central, append([]string{"kubectl"}, args...)...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
