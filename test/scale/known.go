package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/atoll-net/atoll/test/lab"
)

// known measures how fast rows come into the database of pods that the API server holds already, and compares
// that with what the OVSDB library does with the same rows in the same batches:
//
//  1. the controller starts with pods that are new to it, and writes rows and annotations,
//  2. the rows are taken out and written again with the library alone,
//  3. they are taken out and the controller starts with the pods as they are now: it writes rows only.
//
// It leaves the controller running.
func (s *scale) known(ctx context.Context) error {
	s.Controller.End()
	pods := s.next(s.o.known)
	start := time.Now()
	if _, _, err := s.create(ctx, pods, lab.Load{Workers: creators}); err != nil {
		return err
	}
	s.out.Known.APIAlone = float64(len(pods)) / time.Since(start).Seconds()
	fresh, batches, err := s.startWith(ctx, pods, "cpu-known-new")
	if err != nil {
		return err
	}
	s.out.Known.New = fresh
	s.Controller.End()

	c, err := lab.Connect(ctx, s.Database.NBAddress(), tables())
	if err != nil {
		return err
	}
	defer c.Close()
	var uuids []string
	for _, b := range batches {
		uuids = append(uuids, b...)
		s.out.Known.Batches = append(s.out.Known.Batches, len(b))
	}
	if len(uuids) != len(pods) {
		return fmt.Errorf("%d rows came for %d pods", len(uuids), len(pods))
	}
	want, err := s.readRows(ctx, uuids)
	if err != nil {
		return err
	}
	if err := s.takeOut(ctx, want.remove(ctx, c, batches), pods); err != nil {
		return err
	}
	meter, err := lab.StartMeter()
	if err != nil {
		return err
	}
	if s.out.Known.Raw, err = want.write(ctx, c, batches); err != nil {
		return err
	}
	others, err := meter.Others()
	if err != nil {
		return err
	}
	s.out.Known.RawOthers = others
	if got, err := s.readRows(ctx, uuids); err != nil || !got.equal(want) {
		return errors.Join(errors.New("the library alone wrote other rows than the controller"), err)
	}
	if err := s.takeOut(ctx, want.remove(ctx, c, batches), pods); err != nil {
		return err
	}
	if s.out.Known.Annotated, _, err = s.startWith(ctx, pods, "cpu-known"); err != nil {
		return err
	}
	k := s.out.Known
	s.progress.Say("rows/s: %.0f, with annotations %.0f, the library alone %.0f", k.Annotated.RowsPerSecond, k.New.RowsPerSecond, k.Raw)
	return nil
}

// takeOut waits until the rows of pods have gone.
func (s *scale) takeOut(ctx context.Context, err error, pods []lab.Pod) error {
	if err != nil {
		return fmt.Errorf("take rows out: %w", err)
	}
	return s.Ports.Await(ctx, portsOf(pods), s.Ports.Gone, nil)
}

// startWith starts the controller while the API server holds pods whose rows are missing. It returns how fast they
// came, and the batches they came in, and keeps a profile under the name given.
func (s *scale) startWith(ctx context.Context, pods []lab.Pod, profile string) (arrival, [][]string, error) {
	var out arrival
	from, err := s.journal.mark()
	if err != nil {
		return out, nil, err
	}
	meter, err := lab.StartMeter()
	if err != nil {
		return out, nil, err
	}
	start := time.Now()
	if err := s.startController(ctx); err != nil {
		return out, nil, err
	}
	taken := s.profileStart(ctx, profile)
	ports := portsOf(pods)
	if err := s.Ports.Await(ctx, ports, s.Ports.Seen, s.Controller.Done()); err != nil {
		return out, nil, err
	}
	others, err := meter.Others()
	if err != nil {
		return out, nil, err
	}
	if err := errors.Join(<-taken, s.settle(ctx)); err != nil {
		return out, nil, err
	}
	records, err := s.journal.since(from)
	if err != nil {
		return out, nil, err
	}
	var batches [][]string
	for _, r := range records {
		if ports := r.inserted(); len(ports) > 0 {
			batches = append(batches, ports)
		}
	}
	first, last := s.span(ports)
	// The rows of the first batch come as its end is seen: they are not counted, nor the time before it.
	return arrival{
		RowsPerSecond: float64(len(pods)-len(batches[0])) / last.Sub(first).Seconds(),
		Seconds:       last.Sub(start).Seconds(),
		Others:        others,
	}, batches, nil
}
