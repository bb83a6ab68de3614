package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// creators is how many requests are under way at once when objects are made or changed in a burst.
	creators = 32
	// perNode is how many pods a node has; its block of faces has 512.
	perNode = 500
	// perSecond is the steady pace.
	perSecond = 10
)

// measured is how long changes took, and what was written for them.
type measured struct {
	Changes int `json:"changes"`
	// P50 and P99 are from when the change was sent to the API server until its row was seen; AnswerP50 until the API
	// server had answered.
	P50       float64 `json:"p50Milliseconds"`
	P99       float64 `json:"p99Milliseconds"`
	AnswerP50 float64 `json:"answerP50Milliseconds"`
	PerSecond float64 `json:"perSecond"`
	Written   written `json:"written"`
	Others    float64 `json:"others"`
}

// bytes are those of one change.
func (m measured) bytes() float64 { return float64(m.Written.Bytes) / float64(m.Changes) }

// size is what one change of one endpoint writes.
type size struct {
	Endpoints int `json:"endpoints"`
	// Services is how many others there were.
	Services int     `json:"services"`
	Bytes    float64 `json:"bytesPerChange"`
}

// rowResults are those of the part without nodes.
type rowResults struct {
	MakeSeconds  float64  `json:"makeSeconds"`
	Paced        measured `json:"paced"`
	Burst        measured `json:"burst"`
	Sizes        []size   `json:"sizes"`
	ControllerMB float64  `json:"controllerMB"`
}

// rowsBench is a lab with Services.
type rowsBench struct {
	*lab.Lab
	relay    *relay
	seen     *arrivals
	pods     int
	services []*service
}

func measureRows(ctx context.Context, o options, progress *lab.Progress) (out *rowResults, err error) {
	l, err := lab.Start(ctx, lab.Options{Controller: o.controller, Dist: o.dist, WithoutQuotas: true})
	if err != nil {
		return nil, err
	}
	b := &rowsBench{Lab: l}
	defer func() {
		err = errors.Join(err, l.Stop())
		if b.relay != nil {
			err = errors.Join(err, b.relay.Close())
		}
	}()
	if b.relay, err = startRelay(ctx, filepath.Join(l.Dir, "relay.sock"), l.Database.NBAddress()); err != nil {
		return nil, err
	}
	if b.seen, err = watchBalancers(ctx, l.Database.NBAddress()); err != nil {
		return nil, err
	}
	defer b.seen.close()
	if err := l.StartController(ctx, "--metrics-address=", "--nb-address="+b.relay.address()); err != nil {
		return nil, err
	}
	progress.Done("API server, database and controller")
	out = &rowResults{}
	for _, phase := range []struct {
		what string
		run  func(context.Context, options, *rowResults) error
	}{
		{"bytes of one change, few Services", b.fewServices},
		{fmt.Sprintf("%d Services of %d endpoints", o.services, o.endpoints), b.fill},
		{fmt.Sprintf("%d changes per second", perSecond), b.paced},
		{"a change of each Service at once", b.burst},
		{"bytes of one change, many Services", b.manyServices},
	} {
		if err := phase.run(ctx, o, out); err != nil {
			return out, fmt.Errorf("%s: %w", phase.what, err)
		}
		progress.Done(phase.what)
	}
	out.ControllerMB, err = l.Controller.ResidentMB()
	return out, err
}

// networkName is also the name of the namespace whose pods and Services are in the Network.
func networkName(i int) string { return fmt.Sprintf("bench-%03d", i) }

// makeNetworks makes Networks of the same addresses with their namespaces.
func (b *rowsBench) makeNetworks(ctx context.Context, names ...string) error {
	networks := make([]*v1alpha1.Network, 0, len(names))
	for _, name := range names {
		networks = append(networks, lab.Network(name, v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}}))
	}
	if err := b.CreateNetworks(ctx, networks...); err != nil {
		return err
	}
	return b.CreateNamespaces(ctx, names...)
}

// sizes are those whose bytes are compared.
func sizes() []int { return []int{10, 100, 1000} }

// bigName is the namespace of a Service of a size.
func bigName(endpoints int) string { return fmt.Sprintf("size-%d", endpoints) }

// fewServices measures what one change writes while there are hardly any Services.
func (b *rowsBench) fewServices(ctx context.Context, _ options, out *rowResults) error {
	var names []string
	for _, n := range sizes() {
		names = append(names, bigName(n))
	}
	if err := b.makeNetworks(ctx, names...); err != nil {
		return err
	}
	var big []*service
	for _, n := range sizes() {
		big = append(big, newService(model.ServiceKey{Namespace: bigName(n), Name: "web"}, n))
	}
	if err := b.makeServices(ctx, big); err != nil {
		return err
	}
	return b.measureSizes(ctx, out)
}

func (b *rowsBench) manyServices(ctx context.Context, _ options, out *rowResults) error {
	return b.measureSizes(ctx, out)
}

// measureSizes changes the Service of each size, one change at a time.
func (b *rowsBench) measureSizes(ctx context.Context, out *rowResults) error {
	const changes = 10
	// What changes before have left to be written is not these ones'.
	if err := b.quiet(ctx); err != nil {
		return err
	}
	for _, s := range b.services[:len(sizes())] {
		got, err := b.change(ctx, slices.Repeat([]*service{s}, changes), lab.Load{Workers: 1})
		if err != nil {
			return err
		}
		out.Sizes = append(out.Sizes, size{Endpoints: len(s.pods), Services: len(b.services) - 1, Bytes: got.bytes()})
	}
	return nil
}

// fill makes all Services.
func (b *rowsBench) fill(ctx context.Context, o options, out *rowResults) error {
	var names []string
	for i := range o.networks {
		names = append(names, networkName(i))
	}
	if err := b.makeNetworks(ctx, names...); err != nil {
		return err
	}
	var services []*service
	for i := range o.services {
		services = append(services,
			newService(model.ServiceKey{Namespace: networkName(i % o.networks), Name: fmt.Sprintf("web-%d", i)}, o.endpoints))
	}
	start := time.Now()
	err := b.makeServices(ctx, services)
	out.MakeSeconds = time.Since(start).Seconds()
	return err
}

// paced changes Services one after the other at a steady pace, each once at most.
func (b *rowsBench) paced(ctx context.Context, o options, out *rowResults) (err error) {
	all := slices.Clone(b.services[len(sizes()):])
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	out.Paced, err = b.change(ctx, all[:min(o.paced, len(all))], lab.Load{PerSecond: perSecond})
	return err
}

func (b *rowsBench) burst(ctx context.Context, _ options, out *rowResults) (err error) {
	out.Burst, err = b.change(ctx, b.services[len(sizes()):], lab.Load{Workers: creators})
	return err
}

// silence is how long the controller writes nothing when it is done: what it keeps for 3 s has gone by then.
const silence = 5 * time.Second

// quiet waits until the controller writes nothing any more.
func (b *rowsBench) quiet(ctx context.Context) error {
	for before := b.relay.sum(); ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(silence):
		}
		now := b.relay.sum()
		if now == before {
			return nil
		}
		before = now
	}
}

// change has one endpoint of each Service become unready, or ready again, and waits until the database has it. A load of one
// worker waits for each change before it makes the next. What is written counts until the controller is done.
func (b *rowsBench) change(ctx context.Context, services []*service, load lab.Load) (out measured, err error) {
	meter, err := lab.StartMeter()
	if err != nil {
		return out, err
	}
	before := b.relay.sum()
	began := time.Now()
	took, answers := make([]time.Duration, len(services)), make([]time.Duration, len(services))
	sent := make([]time.Time, len(services))
	var mu sync.Mutex
	last := began
	await := func(ctx context.Context, i int) error {
		at, err := b.seen.await(ctx, services[i].balancer(), services[i].ready())
		mu.Lock()
		defer mu.Unlock()
		took[i] = at.Sub(sent[i])
		if at.After(last) {
			last = at
		}
		return err
	}
	load.Count = len(services)
	err = load.Run(ctx, func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		if err := services[i].toggle(ctx, b.Kube); err != nil {
			return err
		}
		answers[i] = time.Since(sent[i])
		if load.Workers == 1 {
			return await(ctx, i)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if load.Workers != 1 {
		for i := range services {
			if err := await(ctx, i); err != nil {
				return out, err
			}
		}
	}
	others, err := meter.Others()
	if err != nil {
		return out, err
	}
	if err := b.quiet(ctx); err != nil {
		return out, err
	}
	slices.Sort(took)
	slices.Sort(answers)
	return measured{
		Changes: len(services), P50: lab.Percentile(took, 50), P99: lab.Percentile(took, 99), AnswerP50: lab.Percentile(answers, 50),
		PerSecond: float64(len(services)) / last.Sub(began).Seconds(),
		Written:   b.relay.sum().since(before), Others: others,
	}, nil
}
