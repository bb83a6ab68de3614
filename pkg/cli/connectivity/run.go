package connectivity

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/cli/connectivity/probe"
)

const (
	// startWithin is how long pods may take to become Ready: an image may have to be pulled.
	startWithin = 2 * time.Minute
	// removeWithin is how long it is waited until what was made has gone.
	removeWithin = 2 * time.Minute
	// stepCount is how many steps a run takes when it removes what it made.
	stepCount = 7
)

// Steps shows a person what is done.
type Steps interface {
	// Do runs a step, and returns its error.
	Do(title string, step func() error) error
	// Note says what the running step is at.
	Note(format string, args ...any)
}

// Options are what people set.
type Options struct {
	// Image has atoll-probe; empty: the one that the agents run.
	Image string
	// CIDR is the subnet of both Networks.
	CIDR netip.Prefix
	// External is HOST:PORT outside of the cluster that takes TCP connections; empty: egress is not tried.
	External string
	// Keep leaves what was made.
	Keep bool
	// Timeout bounds all but the removal.
	Timeout time.Duration
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	if err := checkCIDR(o.CIDR); err != nil {
		return err
	}
	if o.External != "" {
		if host, port, err := net.SplitHostPort(o.External); err != nil || host == "" || port == "" {
			return fmt.Errorf("address %q: it must be HOST:PORT, such as www.example.com:443", o.External)
		}
	}
	if o.Timeout <= 0 {
		return errors.New("the time must be more than nothing")
	}
	return nil
}

// StepCount is how many steps Run takes.
func (o Options) StepCount() int {
	if o.Keep {
		return stepCount - 1
	}
	return stepCount
}

// Run tests, and removes what it has created unless it is to be kept, also when ctx ends. An error means that it could not test,
// or could not remove; the report then has what was found before.
func Run(ctx context.Context, c *Cluster, o Options, steps Steps) (r Report, err error) {
	began := time.Now()
	defer func() { r.Seconds = time.Since(began).Seconds() }()
	bounded, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	t := &test{cluster: c, options: o, steps: steps, report: &r}
	if err := t.look(bounded); err != nil {
		return r, err
	}
	if err := steps.Do("remove what an earlier test left", func() error { return c.remove(bounded, steps) }); err != nil {
		return r, err
	}
	err = t.run(bounded)
	if o.Keep {
		r.Kept = true
		return r, err
	}
	return r, errors.Join(err, steps.Do("remove what was made", func() error {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeWithin)
		defer cancel()
		return c.remove(after, steps)
	}))
}

// Clean removes what an earlier test has left.
func Clean(ctx context.Context, c *Cluster, steps Steps) error {
	ctx, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	return steps.Do("remove what a test left", func() error { return c.remove(ctx, steps) })
}

// test is one run.
type test struct {
	cluster *Cluster
	options Options
	steps   Steps
	report  *Report
	scene   scene
	image   image
}

// look reads what the test needs to know of the cluster. It writes nothing.
func (t *test) look(ctx context.Context) error {
	return t.steps.Do("look at the cluster", func() (err error) {
		t.scene.external = t.options.External
		if err := t.cluster.settings(ctx, &t.scene); err != nil {
			return err
		}
		if err := t.cluster.nodes(ctx, &t.scene); err != nil {
			return err
		}
		t.image, err = t.cluster.image(ctx, t.options.Image)
		t.report.Image, t.report.Nodes = t.image.name, t.scene.nodes
		return err
	})
}

// run makes all, and asks.
func (t *test) run(ctx context.Context) error {
	if err := t.steps.Do("make Networks, namespaces, pods and Services", func() error { return t.make(ctx) }); err != nil {
		return err
	}
	err := t.steps.Do("wait until pods are Ready, by an HTTP probe", func() error {
		within, cancel := context.WithTimeout(ctx, min(startWithin, t.options.Timeout*2/3))
		defer cancel()
		return t.wait(within)
	})
	if err != nil {
		return err
	}
	for _, n := range t.scene.withoutNetwork {
		t.report.Results = append(t.report.Results, nodeResult(n))
	}
	for _, p := range t.scene.pods {
		t.report.Results = append(t.report.Results, started(p))
	}
	err = t.steps.Do("try each path", func() error {
		if err := t.try(ctx, pathsOf(t.scene)); err != nil {
			return err
		}
		return t.tryOutside(ctx)
	})
	if err != nil {
		return err
	}
	return t.steps.Do("try a policy that denies, and one that allows", func() error {
		if err := t.cluster.apply(ctx, denyPolicy()); err != nil {
			return err
		}
		if err := t.settle(ctx, redNear); err != nil {
			return err
		}
		if err := t.try(ctx, denyingPaths(t.scene)); err != nil {
			return err
		}
		if err := t.cluster.apply(ctx, allowPolicy()); err != nil {
			return err
		}
		return t.try(ctx, allowingPaths(t.scene))
	})
}

// policyWithin is how long a policy may take until it counts, on the nodes too.
const policyWithin = 15 * time.Second

// settle waits until red's pod far is not heard from any more, or the time for it is over: the paths that follow say which.
func (t *test) settle(ctx context.Context, from podName) error {
	if !t.scene.pod(from).running || !t.scene.pod(redFar).running {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyWithin)
	defer cancel()
	for ctx.Err() == nil {
		answers, err := t.cluster.ask(ctx, from, []probe.Question{{Kind: probe.HTTP, Target: t.scene.addressOf(redFar), Patience: time.Second}})
		if err != nil || !answers[0].Answered {
			return nil // the paths that follow say what is the matter
		}
	}
	return nil
}

// tryOutside tries an address outside of the cluster: first from red, which has a way out, then the address that red reached from
// blue, which has none.
func (t *test) tryOutside(ctx context.Context) error {
	paths := outsidePaths(t.scene, netip.Addr{})
	before := len(t.report.Results)
	found, err := t.tryAll(ctx, paths)
	if err != nil || t.scene.external == "" {
		return err
	}
	if len(found[0].Addresses) == 0 || t.report.Results[before].Verdict != OK {
		return nil // what nobody reaches proves nothing of blue
	}
	return t.try(ctx, outsidePaths(t.scene, found[0].Addresses[0]))
}

func (t *test) try(ctx context.Context, paths []path) error {
	_, err := t.tryAll(ctx, paths)
	return err
}

// tryAll asks each pod all of its questions, all pods at once, and adds results in the paths' order. It returns the answers.
func (t *test) tryAll(ctx context.Context, paths []path) ([]probe.Answer, error) {
	answers := make([]probe.Answer, len(paths))
	failed := make([]error, len(paths))
	senders := map[podName][]int{}
	for i, p := range paths {
		if p.skipped == "" {
			senders[p.from] = append(senders[p.from], i)
		}
	}
	var all sync.WaitGroup
	for from, mine := range senders {
		all.Go(func() {
			var questions []probe.Question
			for _, i := range mine {
				questions = append(questions, paths[i].question)
			}
			got, err := t.cluster.ask(ctx, from, questions)
			for k, i := range mine {
				if failed[i] = err; err == nil {
					answers[i] = got[k]
				}
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("try paths: %w", ctx.Err())
	}
	for i, p := range paths {
		result := skip(p)
		switch {
		case p.skipped != "":
		case failed[i] != nil:
			result.Verdict, result.Seen, result.Next = Failed, failed[i].Error(), "kubectl describe pod -n "+prefix+p.from.namespace+" "+p.from.name
		default:
			result = judge(t.scene, p, answers[i])
		}
		t.report.Results = append(t.report.Results, result)
	}
	return answers, nil
}
