package main

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/netprobe/wire"
)

// replicas are those of the Deployment that is replaced.
const replicas = 3

// rolling is what came of one way of asking while pods were replaced.
type rolling struct {
	What            string         `json:"what"`
	Answers         int            `json:"answers"`
	Errors          map[string]int `json:"errors,omitempty"`
	MaxMilliseconds float64        `json:"maxMilliseconds"`
	// Lossy: nobody promises an answer to each question.
	Lossy bool `json:"lossy,omitempty"`

	spans    map[string]wire.Span
	failures []wire.Failure
	slowest  time.Time
}

func (r rolling) failed() int {
	sum := 0
	for _, n := range r.Errors {
		sum += n
	}
	return sum
}

// ways of asking while pods are replaced.
func ways() []struct {
	protocol wire.LoadBy
	port     uint16
	what     string
} {
	return []struct {
		protocol wire.LoadBy
		port     uint16
		what     string
	}{
		{wire.LoadTCP, wire.DefaultPort, "a connection for each question"},
		{wire.LoadUDP, wire.DefaultPort, "UDP from one port"},
		{wire.LoadHTTP, wire.HTTPPort, "connections that are kept"},
	}
}

// margin is how long clients ask after the last pod has been replaced.
const margin = 3 * time.Second

// replace replaces all pods of a Deployment, again and again, while clients ask its Service in each way.
func (c *cluster) replace(ctx context.Context, client string, o options, out *packetResults, progress *lab.Progress) error {
	const app = "rolling"
	virtual, err := c.deploy(ctx, app, "", replicas)
	if err != nil {
		return err
	}
	if err := c.serves(ctx, client, netip.AddrPortFrom(virtual, wire.DefaultPort)); err != nil {
		return err
	}
	// The first rollout says how long one takes.
	took, err := c.restart(ctx, app)
	if err != nil {
		return err
	}
	duration := time.Duration(o.rollouts)*took*3/2 + margin
	lives, err := c.watchLives(ctx, app)
	if err != nil {
		return err
	}
	defer lives.stop()
	meter, err := lab.StartMeter(c.Families...)
	if err != nil {
		return err
	}
	start := time.Now()
	came := make(chan []rolling, 1)
	failed := make(chan error, 1)
	go func() {
		all, err := c.askAll(ctx, client, virtual, duration)
		came <- all
		failed <- err
	}()
	for range o.rollouts {
		if _, err := c.restart(ctx, app); err != nil {
			return err
		}
	}
	out.RollingSeconds = time.Since(start).Seconds()
	out.Rolling = <-came
	if err := <-failed; err != nil {
		return err
	}
	others, err := meter.Others()
	if err != nil {
		return err
	}
	out.RollingOthers = others
	gone := lives.lived()
	out.Ended = append(out.Ended, unlisted(gone))
	for _, way := range out.Rolling {
		if e := endedOf(way, gone); e.Pods > 0 {
			out.Ended = append(out.Ended, e)
		}
		if way.Lossy {
			continue
		}
		for _, f := range way.failures {
			progress.Say("%s, asked %.3f s after the start: %s after %.0f ms; %s",
				way.What, f.Asked.Sub(start).Seconds(), f.Error, f.Took.Seconds()*1000, standing(gone, f.Asked))
		}
		progress.Say("%s, asked %.3f s after the start: %.0f ms were the longest; %s",
			way.What, way.slowest.Sub(start).Seconds(), way.MaxMilliseconds, standing(gone, way.slowest))
	}
	if out.RollingSeconds > duration.Seconds() {
		return fmt.Errorf("pods were replaced for %.0f s, and clients asked for %.0f", out.RollingSeconds, duration.Seconds())
	}
	return nil
}

// askAll asks a virtual address in all ways at once.
func (c *cluster) askAll(ctx context.Context, client string, at netip.Addr, duration time.Duration) ([]rolling, error) {
	out, errs := make([]rolling, len(ways())), make([]error, len(ways()))
	var running sync.WaitGroup
	for i, way := range ways() {
		running.Go(func() {
			load, err := c.load(ctx, client, netip.AddrPortFrom(at, way.port), way.protocol, duration, "-workers=4", "-pause=5ms")
			out[i] = rolling{
				What: way.what, Answers: load.Answers, Errors: load.Errors, Lossy: way.protocol == wire.LoadUDP,
				MaxMilliseconds: load.Max.Seconds() * 1000, spans: load.Spans, failures: load.Failures, slowest: load.MaxAsked,
			}
			errs[i] = err
		})
	}
	running.Wait()
	return out, cmp.Or(errs...)
}

// restart replaces all pods of a Deployment, as kubectl rollout restart does, and says how long it took.
func (c *cluster) restart(ctx context.Context, app string) (time.Duration, error) {
	start := time.Now()
	patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"restarted":%q}}}}}`, start.Format(time.RFC3339Nano))
	d, err := c.Kube.AppsV1().Deployments(home).Patch(ctx, app, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("restart Deployment %s: %w", app, err)
	}
	err = c.rolledOut(ctx, d)
	return time.Since(start), err
}

// ended is for how long pods that were told to end were still asked in one way.
type ended struct {
	What string `json:"what"`
	Pods int    `json:"pods"`
	// P50 and Max are from when a pod was told until the last question that it answered was asked.
	P50 float64 `json:"p50Milliseconds"`
	Max float64 `json:"maxMilliseconds"`
}

// endedOf looks at the pods that ended while clients asked.
func endedOf(way rolling, all []life) ended {
	var took []time.Duration
	for _, l := range all {
		if span, asked := way.spans[l.uid]; asked && !l.told.IsZero() {
			took = append(took, max(span.Last.Sub(l.told), 0))
		}
	}
	return newEnded("was asked for, "+way.What, took)
}

// unlisted looks at Kubernetes' own part of that: until the Service's slices do not say any more that a pod is ready.
func unlisted(all []life) ended {
	var took []time.Duration
	for _, l := range all {
		if !l.told.IsZero() && !l.unlisted.IsZero() {
			took = append(took, max(l.unlisted.Sub(l.told), 0))
		}
	}
	return newEnded("was in the Service's slices for", took)
}

func newEnded(what string, took []time.Duration) ended {
	out := ended{What: what, Pods: len(took)}
	if len(took) > 0 {
		slices.Sort(took)
		out.P50, out.Max = lab.Percentile(took, 50), lab.Percentile(took, 100)
	}
	return out
}
