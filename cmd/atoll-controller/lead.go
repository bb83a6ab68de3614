package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/atoll-net/atoll/pkg/controller"
	"github.com/atoll-net/atoll/pkg/controller/decide"
	"github.com/atoll-net/atoll/pkg/controller/defaults"
	"github.com/atoll-net/atoll/pkg/controller/engine"
	"github.com/atoll-net/atoll/pkg/controller/southbound"
	"github.com/atoll-net/atoll/pkg/daemons/central"
	"github.com/atoll-net/atoll/pkg/inspect/inspectapi/announce"
	"github.com/atoll-net/atoll/pkg/kube"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/pkg/kube/config"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/pkg/ovn/ovsdb"
)

// errSteppedDown ends a process that has lost its leadership: its successor starts from a clean slate, and
// so does it.
var errSteppedDown = errors.New("leadership was lost; the process ends so that it starts afresh")

// process is what all terms have in common.
type process struct {
	options  options
	cluster  *rest.Config
	settings dynamic.Interface
	database ovsdb.Config
	// southbound is the other database, with all rights. records say where both are, with --nb-record alone.
	southbound ovsdb.Config
	records    central.Store
	// shown tells of the certificates that their servers show.
	shown    *southbound.Certificates
	learnt   *southbound.Learnt
	claims   *southbound.ClaimMetrics
	log      *slog.Logger
	registry prometheus.Registerer
	metrics  *engine.Metrics
	// signer signs certificates while this process leads; nil: nobody does.
	signer *certs.Signer
	// engine is the newest of this process, once it leads.
	engine atomic.Pointer[controller.Controller]
}

// healthy reports whether the engine works; a process that waits to lead has none, and is well.
func (p *process) healthy() error {
	if e := p.engine.Load(); e != nil {
		return e.Healthy()
	}
	return nil
}

// run reads the cluster, and writes while this process is the leader.
func (p *process) run(ctx context.Context) error {
	first, err := p.open(ctx)
	if err != nil {
		return err
	}
	// The last of them ends with ctx, and with this process.
	return p.lead(ctx, first)
}

// lead reigns while this process is the leader.
func (p *process) lead(ctx context.Context, first *side) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this controller: %w", err)
	}
	if !p.options.leaderElect {
		return p.reign(ctx, host+"_"+uuid.NewString(), first)
	}
	var result error
	err = kube.Lead(ctx, p.cluster, kube.LeadOptions{
		Namespace: p.options.leaseNamespace, Name: "atoll-controller", Identity: host, Logger: p.log,
	}, func(ctx context.Context, epoch string) {
		p.log.Info("leading", "epoch", epoch)
		result = p.reign(ctx, epoch, first)
	})
	if err = errors.Join(result, err); err != nil {
		return err
	}
	return errSteppedDown
}

// reign works with the settings in force. When they change, a new engine starts with the new settings, after its predecessor has
// sent its last transaction. It decides from the cluster as it is, which equals what any history would have led to. So no setting
// changes while an engine runs. Rows that stay the same are not touched.
func (p *process) reign(ctx context.Context, epoch string, first *side) error {
	ctx, stop := context.WithCancel(ctx)
	settings := make(chan decide.Defaults, 1)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer stop()
	if p.signer != nil {
		// The databases' servers need certificates before there is a database to write to.
		keeping.Go(func() { p.signer.Run(ctx) })
		// Without its CAs the API server does not believe atoll-inspect, and ends no deletion of a namespace.
		keeping.Go(func() {
			announce.Run(ctx, announce.Config{Objects: p.settings, Bundle: p.signer.InspectBundle, Log: p.log})
		})
	}
	sampling := controller.NewSampling(p.database, epoch, p.log)
	keeping.Go(func() { sampling.Run(ctx) })
	keeping.Go(func() {
		var last decide.Defaults
		config.Keep(ctx, p.settings, p.log, func(s config.Settings) {
			sampling.Set(s.Flows)
			d := defaults.Of(s)
			if reflect.DeepEqual(d, last) {
				return // What changed is for others.
			}
			last = d
			select { // Those that nobody began with are of no interest any more.
			case <-settings:
			default:
			}
			settings <- d
		})
	})
	var now decide.Defaults
	select {
	case now = <-settings:
	case <-ctx.Done():
		return nil
	}
	for reader := first; ; {
		next, err := p.serve(ctx, epoch, reader, now, settings)
		reader.close()
		if err != nil || next == nil {
			return err
		}
		p.log.Info("settings have changed; everything is decided anew")
		now = *next
		if reader, err = p.open(ctx); err != nil {
			return err
		}
	}
}

// serve runs an engine until ctx ends, or there are next settings.
func (p *process) serve(
	ctx context.Context, epoch string, to *side, now decide.Defaults, settings <-chan decide.Defaults,
) (next *decide.Defaults, err error) {
	e := controller.New(controller.Config{
		Database: p.database, Defaults: now, Source: to.feed, Sink: to.writer,
		Epoch: epoch, Options: p.ownOptions(), Log: p.log, Metrics: p.metrics,
	})
	p.engine.Store(e)
	ctx, stop := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	if p.options.nbRecord {
		opener := southbound.Opener{Records: p.records, Northbound: p.database, Epoch: epoch, Complete: e.Complete, Log: p.log}
		beside.Go(func() { opener.Run(ctx) })
		sweeper := southbound.Sweeper{
			Kube: p.records.Client, Southbound: p.southbound, Learnt: p.learnt, GoneAfter: p.options.goneAfter, Log: p.log,
		}
		beside.Go(func() { sweeper.Run(ctx) })
		claims := southbound.Claims{Kube: p.records.Client, Southbound: p.southbound, Machines: to.feed.Machines, Metrics: p.claims, Log: p.log}
		beside.Go(func() { claims.Run(ctx) })
		beside.Go(func() { p.shown.Run(ctx) })
	}
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	select {
	case err := <-done:
		return nil, err
	case s := <-settings:
		stop()
		return &s, <-done
	}
}

// ownOptions are the options of OVN as a whole of databases that are Atoll's alone: no node turns OVN into another mode by what it says
// of its chassis. Databases of others have
// their own.
func (p *process) ownOptions() map[string]string {
	if !p.options.nbRecord {
		return nil
	}
	return map[string]string{nb.OptionVXLAN: nb.OptionOff}
}

// side is the cluster's side of an engine: what it reads, and where it writes.
type side struct {
	feed   *kube.Feed
	writer *kube.Writer
	close  func()
}

// open begins to read the cluster, for one engine: each takes everything once.
func (p *process) open(ctx context.Context) (*side, error) {
	feed, err := kube.NewFeed(p.cluster, kube.Options{Logger: p.log, Registerer: p.registry, ShutOut: true})
	if err != nil {
		return nil, err
	}
	writer, err := kube.NewWriter(p.cluster, feed, kube.WriterOptions{Logger: p.log, Registerer: p.registry})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) }) // It ends with ctx alone.
	running.Go(func() { writer.Run(ctx) })
	return &side{feed, writer, func() { stop(); running.Wait() }}, nil
}
