package main

import (
	"context"
	"slices"
	"time"

	"github.com/atoll-net/atoll/test/lab"
)

// churn deletes pods, each followed by another that is made at once.
func (s *scale) churn(ctx context.Context) error {
	// The first that were made, one after the other, are of all Networks.
	made := s.made
	s.made = 0
	old := s.next(s.o.churn)
	s.made = made
	young := s.next(s.o.churn)

	meter, err := lab.StartMeter()
	if err != nil {
		return err
	}
	deleted, sent := make([]time.Time, s.o.churn), make([]time.Time, s.o.churn)
	load := lab.Load{Count: s.o.churn, Workers: creators}
	err = load.Run(ctx, func(ctx context.Context, i int) error {
		deleted[i] = time.Now()
		if err := s.DeletePod(ctx, old[i].Key); err != nil {
			return err
		}
		sent[i] = time.Now()
		return s.CreatePod(ctx, young[i])
	})
	if err != nil {
		return err
	}
	came, err := s.waited(ctx, portsOf(young), s.Ports.Seen, sent)
	if err != nil {
		return err
	}
	went, err := s.waited(ctx, portsOf(old), s.Ports.Gone, deleted)
	if err != nil {
		return err
	}
	others, err := meter.Others()
	if err != nil {
		return err
	}
	_, last := s.span(portsOf(young))
	all := last.Sub(slices.MinFunc(deleted, time.Time.Compare))
	s.out.Came = newSeries(came, all, others)
	s.out.Went = newSeries(went, all, others)
	return s.settle(ctx)
}

// waited is how long it took from each start until when knew the port.
func (s *scale) waited(
	ctx context.Context, ports []string, when func(string) (time.Time, bool), start []time.Time,
) ([]time.Duration, error) {
	if err := s.Ports.Await(ctx, ports, when, s.Controller.Done()); err != nil {
		return nil, err
	}
	took := make([]time.Duration, len(ports))
	for i, name := range ports {
		at, _ := when(name)
		took[i] = at.Sub(start[i])
	}
	return took, nil
}
