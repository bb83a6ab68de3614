// Gateway runs upstream's conformance tests of Gateway API (the profiles GATEWAY-TCP and GATEWAY-UDP, less what needs HTTP)
// against a sandbox of its own, and ends with how each test ended.
//
//	make conformance-gateway                       as root, in a tree that is built
//	go run ./test/conformance/gateway -run=TCPRoute
//
// The tests themselves are in the module suite/. They run on a node, which gets a route to the Gateways of the default
// Network: that is where their Gateways are.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/test/gatewayapi"
	"github.com/atoll-net/atoll/test/sandbox"
)

const (
	upWithin   = 40 * time.Minute
	downWithin = 2 * time.Minute
	testWithin = 40 * time.Minute
	// client is the node that dials.
	client = "n1"
)

type options struct {
	sandbox sandbox.Options
	// run names the one test to run; empty means all.
	run     string
	reports string
	keep    bool
	out     io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{out: os.Stdout}
	flag.StringVar(&o.sandbox.Name, "name", "atollgw", "the sandbox's name")
	flag.StringVar(&o.sandbox.State, "state", "/var/lib/atoll-sandbox-gateway", "the sandbox's state directory")
	flag.StringVar(&o.sandbox.Bin, "bin", "bin", "directory of Atoll's programs")
	flag.StringVar(&o.run, "run", "", "the one test to run, by upstream's short name")
	flag.StringVar(&o.reports, "reports", "bin/conformance/gateway", "directory for the report and the log")
	flag.BoolVar(&o.keep, "keep", false, "leave the sandbox running")
	flag.Parse()
	err := o.absolute()
	if err == nil {
		err = o.test(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance of Gateway API:", err)
		stop()
		os.Exit(1)
	}
}

// absolute makes the paths mean the same in a place of the sandbox.
func (o *options) absolute() error {
	var err error
	if o.sandbox.Source, err = filepath.Abs("."); err != nil {
		return fmt.Errorf("find source tree: %w", err)
	}
	for _, path := range []*string{&o.sandbox.Bin, &o.reports} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find directory: %w", err)
		}
	}
	o.sandbox.Overlay = sandbox.OverlaySingle
	o.sandbox.Program = filepath.Join(o.sandbox.Bin, "atoll-sandbox")
	return os.MkdirAll(o.reports, 0o755)
}

// test builds what is needed, brings up a sandbox, and runs the tests in it.
func (o options) test(ctx context.Context) (err error) {
	built, err := o.build(ctx)
	if err != nil {
		return err
	}
	up, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	box, err := sandbox.Up(up, o.sandbox, o.out)
	defer func() {
		if o.keep {
			return
		}
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downWithin)
		defer cancel()
		if downErr := sandbox.Down(down, o.sandbox, o.out); err == nil {
			err = downErr
		}
	}()
	if err != nil {
		return err
	}
	c := cluster{options: o, box: box}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return c.load(ctx, built) }, c.install, c.route,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return c.suite(ctx, built.tests)
}

// cluster is a sandbox that the tests run in.
type cluster struct {
	options
	box *sandbox.Sandbox
}

// kubectl runs kubectl as the administrator.
func (c cluster) kubectl(ctx context.Context, args ...string) ([]byte, error) {
	return c.box.Exec(ctx, sandbox.Central, append([]string{"kubectl"}, args...)...)
}

// install gives the cluster Gateway API and our class.
func (c cluster) install(ctx context.Context) error {
	dir, err := gatewayapi.Definitions(ctx)
	if err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-f", dir); err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"); err != nil {
		return err
	}
	if _, err := c.kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(c.sandbox.Source, "dist", "gateway")); err != nil {
		return err
	}
	// The suite asks the class what it serves.
	_, err = c.kubectl(ctx, "wait", "--for=condition=Accepted", "--timeout=60s", "gatewayclass", "atoll")
	return err
}

// route leads what the node sends to Gateways into the default Network, where the node has an interface.
func (c cluster) route(ctx context.Context) error {
	text, err := c.kubectl(ctx, "get", "node", client, "-o", "json")
	if err != nil {
		return err
	}
	var node struct {
		Metadata struct{ Annotations map[string]string }
	}
	var given model.NodeNetwork
	if err := json.Unmarshal(text, &node); err != nil {
		return fmt.Errorf("read node %s: %w", client, err)
	}
	if err := json.Unmarshal([]byte(node.Metadata.Annotations[model.AnnotationNode]), &given); err != nil {
		return fmt.Errorf("read what node %s was given: %w", client, err)
	}
	settings, err := config.Parse(config.Defaults())
	if err != nil {
		return err
	}
	for _, to := range settings.Gateways {
		for _, gateway := range given.Gateways {
			if gateway.Is4() != to.Addr().Is4() {
				continue
			}
			if _, err := c.box.Exec(ctx, client, "ip", "route", "replace", to.String(),
				"via", gateway.String(), "dev", model.NodeInterface); err != nil {
				return err
			}
		}
	}
	return nil
}

var errFailed = errors.New("not every test passed")

// suite runs the tests on the node. All that they print goes to a log; how each ended is printed.
func (c cluster) suite(ctx context.Context, program string) error {
	path := filepath.Join(c.reports, "gateway.log")
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	args := []string{
		program, "-test.v", "-test.timeout=" + testWithin.String(), "-report=" + filepath.Join(c.reports, "report.yaml"),
		"-kubeconfig=" + c.box.Kubeconfig(),
	}
	if c.run != "" {
		args = append(args, "-run-test="+c.run)
	}
	cmd, err := c.box.Command(ctx, client, args...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, &ends{out: c.out}), log
	fmt.Fprintf(c.out, "\n== conformance tests of Gateway API; all that they say is in %s\n", path)
	err = cmd.Run()
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &failed):
		return errFailed
	case err != nil:
		return fmt.Errorf("run the tests: %w", err)
	}
	return nil
}

// ends passes on the lines that say how a test ended; those of its parts only if they failed.
type ends struct {
	out  io.Writer
	rest []byte
}

// Write implements io.Writer.
func (e *ends) Write(p []byte) (int, error) {
	e.rest = append(e.rest, p...)
	for {
		line, rest, whole := bytes.Cut(e.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		e.rest = rest
		text := string(line)
		end := strings.TrimLeft(text, " ")
		depth := len(text) - len(end)
		if strings.HasPrefix(end, "--- ") && (depth <= 4 || strings.HasPrefix(end, "--- FAIL")) {
			fmt.Fprintln(e.out, text)
		}
	}
}
