package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/sandbox"
)

// clusterPolicyList is the list of upstream's conformance tests of ClusterNetworkPolicy. They are Go's own tests, in a module of
// their own: clusterpolicy.
const clusterPolicyList = "clusternetpol"

// clusterPolicyPrefix begins their names here.
const clusterPolicyPrefix = "[network-policy-api] "

// clusterPolicyImage is what all their pods run.
const clusterPolicyImage = "registry.k8s.io/e2e-test-images/agnhost:2.45"

// clusterPolicyModule has the definition of ClusterNetworkPolicy. All of it is used: tests have fields of the experimental
// channel.
const clusterPolicyModule = "sigs.k8s.io/network-policy-api"

// clusterPolicyProbe is a policy that is told of as soon as the controller knows the kind.
//
//go:embed clusterpolicy-probe.yaml
var clusterPolicyProbe []byte

// knownWithin is how long the controller may take to learn of a kind.
const knownWithin = 2 * time.Minute

// judgeClusterPolicies runs the tests, one after the other.
func (c *cluster) judgeClusterPolicies(ctx context.Context, n network, dir string, list exceptions) (verdict, error) {
	fmt.Fprintf(c.out, "\n== tests of ClusterNetworkPolicy, pods in the %s Network; reports in %s\n", n, dir)
	outcomes, err := c.clusterPolicies(ctx, dir, &partWatcher{out: c.out})
	if err != nil {
		return verdict{}, err
	}
	var names []string
	for _, o := range outcomes {
		names = append(names, o.spec)
	}
	if c.focus.String() != "" {
		// The others are there, too.
		list = slices.DeleteFunc(list, func(e exception) bool { return len(exceptions{e}.unused(names)) > 0 })
	}
	return judge(n, names, names, outcomes, list), nil
}

// clusterPolicies runs the tests that match the focus, with their pods in a Network, and returns what came of each.
func (c *cluster) clusterPolicies(ctx context.Context, dir string, live io.Writer) ([]outcome, error) {
	program := filepath.Join(dir, "suite.test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, ".")
	cmd.Dir = filepath.Join(c.sandbox.Source, "test", "conformance", "clusterpolicy")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build tests of ClusterNetworkPolicy: %w\n%s", err, text)
	}
	if err := c.defineClusterPolicies(ctx); err != nil {
		return nil, err
	}
	if err := c.waitCleared(ctx); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "clusternetpol.log"))
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer log.Close()
	// Where namespaces get the label of a Network, it is by the label that those of the e2e framework have.
	run, err := c.box.Command(ctx, sandbox.Central, program, "-test.v", "-test.timeout="+suiteLimit.String(),
		"-test.run=^TestClusterNetworkPolicy$/("+c.focus.String()+")", "-labels=e2e-run=conformance")
	if err != nil {
		return nil, err
	}
	run.Env = append(run.Env, "KUBECONFIG="+c.box.Kubeconfig())
	var printed bytes.Buffer
	run.Stdout, run.Stderr = io.MultiWriter(log, &printed, live), log
	err = run.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var failed *exec.ExitError // some test did, which its line tells
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("run tests of ClusterNetworkPolicy: %w", err)
	}
	outcomes, whole := parseTests(printed.String())
	if !whole || len(outcomes) == 0 {
		return nil, fmt.Errorf("run tests of ClusterNetworkPolicy: they did not come to their end (%w); %s says more", err, log.Name())
	}
	return outcomes, nil
}

// defineClusterPolicies gives the cluster the definition, and waits until the controller knows it.
func (c *cluster) defineClusterPolicies(ctx context.Context) error {
	found, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", clusterPolicyModule).Output()
	if err != nil {
		return fmt.Errorf("find module %s: %w", clusterPolicyModule, err)
	}
	definition := filepath.Join(strings.TrimSpace(string(found)), "config", "crd",
		"experimental", "policy.networking.k8s.io_clusternetworkpolicies.yaml")
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", definition},
		{"wait", "--for=condition=Established", "--timeout=60s", "-f", definition},
	} {
		if _, err := c.kubectl(ctx, nil, args...); err != nil {
			return err
		}
	}
	if _, err := c.kubectl(ctx, clusterPolicyProbe, "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second/2, knownWithin, true, func(ctx context.Context) (bool, error) {
		reasons, err := c.kubectl(ctx, nil, "get", "events", "-A", "-o", "jsonpath={.items[*].reason}",
			"--field-selector=involvedObject.kind=ClusterNetworkPolicy,involvedObject.name=conformance-probe")
		return strings.Contains(reasons, model.ReasonPolicyInvalid), err
	})
	if err != nil {
		return fmt.Errorf("wait until the controller knows ClusterNetworkPolicies: %w", err)
	}
	_, err = c.kubectl(ctx, clusterPolicyProbe, "delete", "--ignore-not-found", "-f", "-")
	return err
}

// waitCleared waits until the namespaces of an earlier run have gone: it deletes them, and does not wait.
func (c *cluster) waitCleared(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, time.Second/2, knownWithin, true, func(ctx context.Context) (bool, error) {
		left, err := c.kubectl(ctx, nil, "get", "namespaces", "-l", "conformance-house", "-o", "name")
		return left == "", err
	})
	if err != nil {
		return fmt.Errorf("wait until the namespaces of an earlier run have gone: %w", err)
	}
	return nil
}

var (
	// testEnded matches the line that tells how a test of the list ended; its own parts are indented further.
	testEnded = regexp.MustCompile(`(?m)^    --- (PASS|FAIL|SKIP): TestClusterNetworkPolicy/(\S+) \(([0-9.]+s)\)$`)
	// allEnded matches the one that tells how all together did.
	allEnded = regexp.MustCompile(`(?m)^--- (PASS|FAIL): TestClusterNetworkPolicy \(`)
	// partFailed matches the lines of parts that failed.
	partFailed = regexp.MustCompile(`(?m)^ {8}--- FAIL: TestClusterNetworkPolicy/([^/\s]+)/(\S+) \(`)
)

// parseTests reads what Go's tests print; whole tells whether they came to their end.
func parseTests(printed string) (outcomes []outcome, whole bool) {
	parts := map[string][]string{}
	for _, match := range partFailed.FindAllStringSubmatch(printed, -1) {
		parts[match[1]] = append(parts[match[1]], match[2])
	}
	for _, match := range testEnded.FindAllStringSubmatch(printed, -1) {
		o := outcome{spec: clusterPolicyPrefix + match[2], passed: match[1] == "PASS"}
		o.took, _ = time.ParseDuration(match[3])
		switch {
		case match[1] == "SKIP":
			o.failure = "it skipped itself"
		case !o.passed:
			o.failure = strings.Join(parts[match[2]], ", ")
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, allEnded.MatchString(printed)
}

// ofClusterPolicies are the exceptions among the tests of ClusterNetworkPolicy, or all others.
func (list exceptions) ofClusterPolicies(yes bool) exceptions {
	var out exceptions
	for _, e := range list {
		if strings.HasPrefix(e.Spec, clusterPolicyPrefix) == yes {
			out = append(out, e)
		}
	}
	return out
}

// partWatcher shows a line for each part of the tests of ClusterNetworkPolicy when it begins: how it ended is printed when all
// of its test have.
type partWatcher struct {
	out  io.Writer
	rest []byte
}

// Write takes the output in pieces as they come.
func (w *partWatcher) Write(piece []byte) (int, error) {
	w.rest = append(w.rest, piece...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(piece), nil
		}
		w.rest = rest
		if begins, found := strings.CutPrefix(string(line), "=== RUN   TestClusterNetworkPolicy/"); found {
			fmt.Fprintf(w.out, "%s  %s%s\n", time.Now().Format(time.TimeOnly), clusterPolicyPrefix, begins)
		}
	}
}
