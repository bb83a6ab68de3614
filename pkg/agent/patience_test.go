package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPatience: an ADD gives up when nothing has moved for a minute, later where many wait, goes on while others get on, and ends
// in any case before kubelet does.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// others get beyond a phase every so often.
		others string
		every  time.Duration
		// own is when the ADD itself gets beyond its first phase; 0: never.
		own time.Duration
		// beside are other ADDs that begin before it, and do not get on.
		beside int
		want   time.Duration
	}{
		{name: "nothing moves", want: addPatience},
		{name: "others get beyond its phase", others: phaseAttachment, every: 50 * time.Second, want: addLongest},
		{name: "others get beyond another phase", others: phaseInstalled, every: 10 * time.Second, want: addPatience},
		{name: "others are slower than its patience", others: phaseAttachment, every: 70 * time.Second, want: addPatience},
		{name: "it gets beyond its phase itself", own: 40 * time.Second, want: 40*time.Second + addPatience},
		{name: "some wait", beside: 30, want: addPatience + 30*addTurn},
		{name: "very many wait", beside: 500, want: addLongest},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := newMetrics(prometheus.NewRegistry())
				if err != nil {
					t.Fatal(err)
				}
				for range test.beside {
					_, done := m.progress.patience(t.Context(), m.watchAdd().now)
					defer done()
				}
				watch, began := m.watchAdd(), time.Now()
				ctx, cancel := m.progress.patience(t.Context(), watch.now)
				defer cancel()
				if test.others != "" {
					go func() {
						for {
							select {
							case <-time.After(test.every):
								m.progress.passed(test.others, time.Now())
							case <-ctx.Done():
								return
							}
						}
					}()
				}
				if test.own > 0 {
					time.AfterFunc(test.own, func() { watch.phase(phaseAttachment) })
				}
				<-ctx.Done()
				if took := time.Since(began); took != test.want {
					t.Errorf("gave up after %s, want %s", took, test.want)
				}
				var why *tookTooLongError
				if err := context.Cause(ctx); !errors.As(err, &why) || err.Error() != "gave up after "+test.want.String() {
					t.Errorf("cause: %v", err)
				}
			})
		})
	}
}

// TestPatienceEndsWithTheADD: an ADD that ends leaves nothing behind that waits.
func TestPatienceEndsWithTheADD(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := newMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := m.progress.patience(t.Context(), m.watchAdd().now)
		cancel()
		// What goes on would keep this test from ending.
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("cause: %v", context.Cause(ctx))
		}
	})
}
