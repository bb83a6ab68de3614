package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// Names of the controller's metrics.
const (
	metricTransactions = "atoll_nb_transactions_total"
	metricOwners       = "atoll_nb_owners"
	metricWrites       = "atoll_kube_writes_total"
	metricAnnotations  = `atoll_kube_writes_total{kind="attachments"`
	metricGoroutines   = "go_goroutines"
	metricHeap         = "go_memstats_heap_inuse_bytes"
)

// startController runs the controller where its metrics and profiles can be asked for.
func (s *scale) startController(ctx context.Context) error {
	var err error
	if s.metricsAt, err = lab.FreeAddress(); err != nil {
		return err
	}
	if s.profilesAt, err = lab.FreeAddress(); err != nil {
		return err
	}
	return s.StartController(ctx, "--metrics-address="+s.metricsAt, "--pprof-address="+s.profilesAt)
}

// metrics asks the controller.
func (s *scale) metrics(ctx context.Context) (harness.Samples, error) {
	return harness.Scrape(ctx, http.DefaultClient, s.metricsAt)
}

// awaitMetric waits until a metric of the controller is at least so much.
func (s *scale) awaitMetric(ctx context.Context, name string, least float64) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	var last float64
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-s.Controller.Done():
			return false, s.Controller.Ended()
		default:
		}
		got, err := s.metrics(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // It may only just have started.
		}
		last = got.Sum(name)
		return last >= least, nil
	})
	if err != nil {
		return fmt.Errorf("wait for %s to be %.0f, it is %.0f: %w", name, least, last, err)
	}
	return nil
}

// settle waits until the controller has written nothing to the API server for a while: what is measured next
// shall not pay for what was measured before.
func (s *scale) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	last, quiet := -1.0, 0
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		got, err := s.metrics(ctx)
		if err != nil {
			return false, err
		}
		if quiet++; got.Sum(metricWrites) != last {
			last, quiet = got.Sum(metricWrites), 0
		}
		return quiet == 5, nil
	})
	if err != nil {
		return fmt.Errorf("wait until the controller is quiet: %w", err)
	}
	return nil
}

// profile keeps a profile of the controller, if profiles are wanted.
func (s *scale) profile(ctx context.Context, name, path string) error {
	if s.o.profiles == "" {
		return nil
	}
	content, err := harness.Get(ctx, http.DefaultClient, "http://"+s.profilesAt+"/debug/pprof/"+path)
	if err != nil {
		return fmt.Errorf("take profile %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(s.o.profiles, name+".pb.gz"), content, 0o644); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}

// profileStart keeps a profile of a controller that has just been started; the channel says when it has been taken.
func (s *scale) profileStart(ctx context.Context, name string) <-chan error {
	taken := make(chan error, 1)
	if s.o.profiles == "" {
		taken <- nil
		return taken
	}
	go func() {
		err := s.awaitMetric(ctx, metricGoroutines, 1)
		taken <- errors.Join(err, s.profile(ctx, name, "profile?seconds=4"))
	}()
	return taken
}
