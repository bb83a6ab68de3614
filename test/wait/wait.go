package wait

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// Patience is for what takes a moment on a quiet machine. It is used up only by what never comes.
	Patience = time.Minute

	shortestPause = 5 * time.Millisecond
	longestPause  = 500 * time.Millisecond
)

// pause returns how long to wait after a look. It is at least as long as the look took, so that looking leaves the processors to
// what is waited for, and grows with the wait, which becomes at most a tenth longer by it.
func pause(look, waited time.Duration) time.Duration {
	return min(longestPause, max(shortestPause, look, waited/10))
}

// Eventually waits until check returns nil. The test ends with check's last error when the machine has given patience, or after a
// multiple of it by the wall clock. The context that check gets ends then, too.
func Eventually(t testing.TB, patience time.Duration, what string, check func(ctx context.Context) error) {
	t.Helper()
	if err := here.eventually(t.Context(), patience, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Until is Eventually for a condition that has no error to tell.
func Until(t testing.TB, patience time.Duration, what string, is func() bool) {
	t.Helper()
	Eventually(t, patience, what, func(context.Context) error {
		if !is() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// For is Eventually for fixtures that have no test, and for commands: it returns the error.
func For(ctx context.Context, patience time.Duration, check func(ctx context.Context) error) error {
	return here.eventually(ctx, patience, check)
}

func (m machine) eventually(ctx context.Context, patience time.Duration, check func(ctx context.Context) error) error {
	ctx, h, stop := m.begin(ctx, patience)
	defer stop()
	var last error
	for {
		began := time.Now()
		err := check(ctx)
		if err == nil {
			return nil
		}
		// A look that was cut off tells less than the one before.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the last look: %w", context.Cause(ctx), last)
		case <-time.After(pause(time.Since(began), time.Since(h.began))):
		}
	}
}
