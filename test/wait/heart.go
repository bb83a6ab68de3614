// Package wait is how tests wait. It does not trust the wall clock, because a test shares its machine with builds and other tests: a
// heartbeat measures how much time the machine gave, and only that time is charged to what is tested.
//
//   - Eventually waits for a condition that no time is promised for.
//   - Within judges a promised time, and repeats a measurement that the machine disturbed.
//   - Never judges that an attack does not arrive, when a marker that was sent after it has arrived.
package wait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// beat is the time from one heartbeat to the next.
	beat = 20 * time.Millisecond
	// tolerance is how late a beat may come and still counts. On a machine whose processors are free it is late by less than a millisecond.
	tolerance = 10 * time.Millisecond
	// grace limits the wall-clock time that the patience may be stretched by.
	grace = 5 * time.Minute
)

// errPatience is the cause with which the context of a wait ends.
var errPatience = errors.New("patience is used up")

// machine is what tests run on.
type machine struct {
	// share returns which part of a processor one more process would get, from 0 to 1.
	share func() float64
}

var here = machine{share: processorShare}

// processorShare compares the processors with the threads that want to run, of all processes: the fourth field of /proc/loadavg
// (proc_loadavg(5)), less the thread that reads it. Lateness alone does not show this load: Linux prefers a thread that mostly
// sleeps, as the heartbeat's does, to those that work. Without the file the share is 1.
func processorShare() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 4 {
		return 1
	}
	running, _, _ := strings.Cut(fields[3], "/")
	others, err := strconv.Atoi(running)
	if err != nil {
		return 1
	}
	return min(1, float64(runtime.NumCPU())/float64(max(1, others-1)))
}

// heart beats during one wait. Its goroutine ends with the wait, so that checks for leaked goroutines need no exception.
type heart struct {
	began time.Time
	given atomic.Int64
}

// time returns how much of the time since the wait began the machine gave. A beat that is late counts nothing, one that is on time
// by the share of a processor.
func (h *heart) time() time.Duration { return time.Duration(h.given.Load()) }

// begin starts a heart and returns a context that ends with errPatience when the patience is used up: by beats, or by the wall
// clock's ceiling. The caller calls stop, which returns when the goroutine has ended.
func (m machine) begin(parent context.Context, patience time.Duration) (ctx context.Context, h *heart, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	h = &heart{began: time.Now()}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		timer := time.NewTimer(beat)
		defer timer.Stop()
		for last := h.began; ; {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			now := time.Now()
			share := m.share()
			if now.Sub(last) <= beat+tolerance {
				h.given.Add(int64(float64(beat) * share))
			}
			last = now
			timer.Reset(beat)
			if wall := now.Sub(h.began); h.time() >= patience || wall >= ceiling(patience) {
				cancel(fmt.Errorf("%w: %s in %s of wall-clock time", errPatience, round(h.time()), round(wall)))
			}
		}
	}()
	return ctx, h, func() {
		close(quit)
		<-ended
		cancel(nil)
	}
}

func ceiling(patience time.Duration) time.Duration { return min(10*patience, patience+grace) }

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

// Context returns a context for calls that end by themselves when their context does. It ends with the test, or when the machine has
// given patience.
func Context(t testing.TB, patience time.Duration) context.Context {
	t.Helper()
	ctx, _, stop := here.begin(t.Context(), patience)
	t.Cleanup(stop)
	return ctx
}

// AfterTest returns a context for what is cleaned up when the test's own context has ended. It ends when the machine has given patience.
func AfterTest(patience time.Duration) (context.Context, context.CancelFunc) {
	ctx, _, stop := here.begin(context.Background(), patience)
	return ctx, stop
}
