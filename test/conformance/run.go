package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/atoll-net/atoll/test/sandbox"
)

const (
	// suiteLimit ends a run in which something hangs beyond the limits of the specs themselves.
	suiteLimit = 3 * time.Hour
	// endWithin is how long an interrupted run may take to remove its namespaces.
	endWithin = 2 * time.Minute
)

// test runs the chosen specs with their pods in a Network.
func (c *cluster) test(ctx context.Context, n network) (v verdict, err error) {
	list, err := exceptionsOf(n)
	if err != nil {
		return verdict{}, err
	}
	if err := c.place(ctx, n); err != nil {
		return verdict{}, err
	}
	defer func() {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), placeLimit)
		defer cancel()
		if undoErr := c.unplace(undo); err == nil {
			err = undoErr
		}
	}()
	dir := filepath.Join(c.reports, string(n))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return verdict{}, fmt.Errorf("make directory of the reports: %w", err)
	}
	began := time.Now()
	if c.list == clusterPolicyList {
		v, err = c.judgeClusterPolicies(ctx, n, dir, list.ofClusterPolicies(true))
	} else {
		v, err = c.judgeSpecs(ctx, n, dir, list.ofClusterPolicies(false))
	}
	if err != nil {
		return verdict{}, err
	}
	v.took = time.Since(began)
	v.pauses, err = c.pauses(began)
	return v, err
}

// judgeSpecs runs the specs of a list of the e2e tests.
func (c *cluster) judgeSpecs(ctx context.Context, n network, dir string, list exceptions) (verdict, error) {
	chosen := c.chosen
	if c.list == "short" {
		// What fails as said takes minutes to do so, and says nothing new.
		chosen = slices.DeleteFunc(slices.Clone(chosen), func(name string) bool { _, ok := list.reason(name); return ok })
	}
	fmt.Fprintf(c.out, "\n== %d specs, %d at a time, pods in the %s Network; reports in %s\n", len(chosen), c.procs, n, dir)
	outcomes, err := c.ginkgo(ctx, dir, chosen, newWatcher(c.out, chosen, list))
	if err != nil {
		return verdict{}, err
	}
	return judge(n, chosen, c.all, outcomes, list), nil
}

// ginkgo runs the specs on several processes in the control plane's place, as upstream's own scripts run them on a host
// that reaches the API, and reads the report.
func (c *cluster) ginkgo(ctx context.Context, dir string, chosen []string, live io.Writer) ([]outcome, error) {
	log, err := os.Create(filepath.Join(dir, "e2e.log"))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	const report = "report.json"
	cmd, err := c.box.Command(ctx, sandbox.Central,
		filepath.Join(c.tests.Programs, "ginkgo"), "run", "-v", "--no-color", "--silence-skips",
		"--procs="+strconv.Itoa(c.procs), "--timeout="+suiteLimit.String(), "--grace-period="+endWithin.String(),
		"--output-dir="+dir, "--json-report="+report, "--focus="+focusOn(chosen),
		filepath.Join(c.tests.Programs, "e2e.test"), "--",
		"--provider=skeleton", "--num-nodes="+strconv.Itoa(len(c.box.Nodes())), "--kubeconfig="+c.box.Kubeconfig(),
		"--report-dir="+dir, "--dump-logs-on-failure=false")
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, repositoryVariable)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(log, live), log
	// Interrupted, the tests remove what they made.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = endWithin
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var failed *exec.ExitError // some spec did, which the report tells
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("run the tests: %w", err)
	}
	outcomes, reportErr := readReport(filepath.Join(dir, report))
	if reportErr != nil {
		return nil, fmt.Errorf("run the tests (%s says more): %w", log.Name(), errors.Join(err, reportErr))
	}
	return outcomes, nil
}
