package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// attempts bound how often a restart is measured again because the database compacted its file meanwhile.
const attempts = 3

// restart starts the controller again, while nothing has changed, and counts what it writes.
func (s *scale) restart(ctx context.Context) error {
	for range attempts {
		if err := s.restartOnce(ctx); !errors.Is(err, errCompacted) {
			return err
		}
	}
	return errCompacted
}

func (s *scale) restartOnce(ctx context.Context) error {
	had, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	s.Controller.End()
	from, err := s.journal.mark()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := s.startController(ctx); err != nil {
		return err
	}
	if err := s.awaitMetric(ctx, metricOwners, had.Sum(metricOwners)); err != nil {
		return err
	}
	s.out.Restart.AllKnown = time.Since(start).Seconds()
	if err := s.settle(ctx); err != nil {
		return err
	}
	// A new pod is served after all that was there has been compared.
	pods := s.next(1)
	if err := s.CreatePod(ctx, pods[0]); err != nil {
		return fmt.Errorf("create pod: %w", err)
	}
	if err := s.Ports.Await(ctx, portsOf(pods), s.Ports.Seen, s.Controller.Done()); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	records, err := s.journal.since(from)
	if err != nil {
		return err
	}
	counted, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	s.out.Restart.Transactions = -1 // the new pod's
	for _, r := range records {
		if r.about() {
			s.out.Restart.Transactions++
		}
	}
	s.out.Restart.Counted = int(counted.Sum(metricTransactions)) - 1
	s.out.Restart.Annotations = int(counted.Sum(metricAnnotations)) - 1
	return nil
}

// restartWithPod measures how long pods wait when the controller is started again: from its start to the row of
// a pod that was made at that moment.
func (s *scale) restartWithPod(ctx context.Context) error {
	s.Controller.End()
	start := time.Now()
	if err := s.startController(ctx); err != nil {
		return err
	}
	taken := s.profileStart(ctx, "cpu-start")
	pods := s.next(1)
	if err := s.CreatePod(ctx, pods[0]); err != nil {
		return fmt.Errorf("create pod: %w", err)
	}
	if err := s.Ports.Await(ctx, portsOf(pods), s.Ports.Seen, s.Controller.Done()); err != nil {
		return err
	}
	s.out.Restart.FirstPod = time.Since(start).Seconds()
	if err := errors.Join(<-taken, s.settle(ctx)); err != nil {
		return err
	}
	var err error
	s.out.Restart.ControllerMB, err = s.Controller.ResidentMB()
	return err
}
