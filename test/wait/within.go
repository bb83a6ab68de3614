package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// measurements is how often Within measures at the most.
	measurements = 5
	// calmFor is how long the machine has to keep time before Within measures again, and calmPatience how long Within waits for that.
	calmFor, calmPatience = time.Second, time.Minute
)

// Within judges a promised time: from the return of act until check returns nil. A measurement that keeps the promise by the wall
// clock passes. One that breaks it by the time that the machine gave fails. Between the two the machine was too busy to judge:
// Within waits until it is calm, and calls act again. A machine that is too busy each time fails the test as "not known".
func Within(t testing.TB, promise time.Duration, what string, act func(), check func(ctx context.Context) error) {
	t.Helper()
	if err := here.within(t.Context(), promise, t.Logf, act, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (m machine) within(
	ctx context.Context, promise time.Duration, logf func(string, ...any), act func(), check func(ctx context.Context) error,
) error {
	for i := range measurements {
		if i > 0 {
			m.calm(ctx)
		}
		act()
		wall, given, err := m.measure(ctx, promise, check)
		switch {
		case err == nil && wall <= promise:
			return nil
		case given > promise:
			return fmt.Errorf("promised in %s, took %s, of which the machine gave %s: %w", promise, round(wall), round(given), orSlow(err))
		case err != nil && (ctx.Err() != nil || !errors.Is(err, errPatience)):
			return err
		}
		logf("promised in %s: measured %s, but the machine gave only %s; measurement %d of %d is not judged",
			promise, round(wall), round(given), i+1, measurements)
	}
	return fmt.Errorf("not known whether it takes %s: the machine was too busy in each of %d measurements", promise, measurements)
}

func orSlow(err error) error {
	if err == nil {
		return errors.New("it came too late")
	}
	return err
}

// measure looks until check returns nil. It gives up when the promise is broken by the time that the machine gave.
func (m machine) measure(
	ctx context.Context, promise time.Duration, check func(context.Context) error,
) (wall, given time.Duration, err error) {
	ctx, h, stop := m.begin(ctx, promise+beat)
	defer stop()
	for {
		began := time.Now()
		err = check(ctx)
		wall, given = time.Since(h.began), h.time()
		if err == nil {
			return wall, given, nil
		}
		select {
		case <-ctx.Done():
			return wall, h.time(), fmt.Errorf("%w; the last look: %w", context.Cause(ctx), err)
		case <-time.After(max(shortestPause, time.Since(began))):
		}
	}
}

// calm waits until the machine has kept time for a while, or until it has waited long enough for that.
func (m machine) calm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, calmPatience)
	defer cancel()
	for ctx.Err() == nil {
		ctx, h, stop := m.begin(ctx, time.Hour)
		select {
		case <-ctx.Done():
		case <-time.After(calmFor):
		}
		given := h.time()
		stop()
		if given >= calmFor*9/10 {
			return
		}
	}
}
