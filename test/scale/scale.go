package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/atoll-net/atoll/test/lab"
	"github.com/atoll-net/atoll/test/ovn"
)

// bursts is how many bursts there are at each size; the one in the middle counts.
const bursts = 3

// scale is a run.
type scale struct {
	*lab.Lab
	o        options
	out      results
	progress *lab.Progress
	journal  journal
	// chassis is the node with an ovn-controller; nil without northd.
	chassis *ovn.Chassis
	// carried is what was measured elsewhere, where OVN runs.
	carried []census
	// bare are the rows while there was neither pod nor node.
	bare owned
	// made is how many pods have been made.
	made int
	// metricsAt and profilesAt are where the controller serves them.
	metricsAt, profilesAt string
}

// measure starts everything, measures and ends everything.
func measure(ctx context.Context, o options) (_ results, err error) {
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return results{}, fmt.Errorf("make directory of profiles: %w", err)
		}
	}
	s := &scale{o: o, progress: lab.NewProgress(os.Stderr), out: results{
		Pods: o.pods, Networks: o.networks, Nodes: o.nodes, BurstOf: o.burst, Processors: runtime.NumCPU(),
	}}
	if o.ovn && !o.northd {
		if s.carried, err = s.elsewhere(ctx); err != nil {
			return s.out, err
		}
	}
	if s.Lab, err = lab.Start(ctx, o.lab()); err != nil {
		return s.out, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	s.journal = journal{filepath.Join(s.Dir, "nb.db")}
	s.progress.Done("start API server and database")
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{fmt.Sprintf("make %d Networks", o.networks), s.networks},
		{"pods onto an empty database", s.atSize},
		{"objects known, rows missing", s.known},
		{fmt.Sprintf("fill to %d pods", o.middle()), func(ctx context.Context) error { return s.fill(ctx, o.middle()) }},
		{fmt.Sprintf("pods onto %d", o.middle()), s.atSize},
		{fmt.Sprintf("fill to %d pods", o.pods), s.fillUp},
		{fmt.Sprintf("pods onto %d", o.pods), s.atSize},
		{"pods that follow others", s.churn},
		{"memory", s.memory},
		{"memory of inspection", s.inspection},
		{"restart, nothing changed", s.restart},
		{"restart, a pod waits", s.restartWithPod},
		{"rows of Networks and nodes", s.lastCensus},
		{"soak", s.soak},
	} {
		if err := phase.run(ctx); err != nil {
			return s.out, fmt.Errorf("%s: %w", phase.name, err)
		}
		s.progress.Done(phase.name)
	}
	return s.out, nil
}

// atSize measures pods at a steady pace and in bursts, onto those that are there.
func (s *scale) atSize(ctx context.Context) error {
	at := size{Ports: s.made}
	var err error
	if at.Paced, err = s.apply(ctx, s.o.pacedPods(), lab.Load{PerSecond: perSecond}); err != nil {
		return err
	}
	s.progress.Say("onto %d ports, %d pods/s: %s", at.Ports, perSecond, ms(at.Paced))
	for range bursts {
		if err := s.settle(ctx); err != nil {
			return err
		}
		got, err := s.apply(ctx, s.o.burst, lab.Load{Workers: creators})
		if err != nil {
			return err
		}
		at.Bursts = append(at.Bursts, got)
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	s.out.Sizes = append(s.out.Sizes, at)
	s.progress.Say("onto %d ports, burst: %.0f pods/s", at.Ports, at.burst().PodsPerSecond)
	return nil
}

// fillUp fills to the full size, and keeps a profile of it.
func (s *scale) fillUp(ctx context.Context) error {
	taken := make(chan error, 1)
	go func() { taken <- s.profile(ctx, "cpu-fill", "profile?seconds=8") }()
	if err := s.fill(ctx, s.o.pods); err != nil {
		return err
	}
	return <-taken
}

// memory asks what the controller holds.
func (s *scale) memory(ctx context.Context) error {
	got, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	s.out.Goroutines, s.out.HeapMB = got.Sum(metricGoroutines), got.Sum(metricHeap)/1e6
	if s.out.ControllerMB, err = s.Controller.ResidentMB(); err != nil {
		return err
	}
	if err := s.profile(ctx, "allocations", "allocs"); err != nil {
		return err
	}
	return s.profile(ctx, "heap", "heap?gc=1")
}
