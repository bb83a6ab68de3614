package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// paper is what an outbox writes to: it holds the last value of each key.
type paper struct {
	mu     sync.Mutex
	values map[string]int
	writes int
	err    error
	took   time.Duration
}

func (p *paper) write(_ context.Context, k string, v int) error {
	time.Sleep(p.took) // a write takes its time; in a synctest bubble it is not waited for
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	if p.err != nil {
		return p.err
	}
	p.values[k] = v
	return nil
}

func (p *paper) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// written is what p holds now, and after how many tries.
func (p *paper) written() (values map[string]int, writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.values), p.writes
}

// withOutbox runs a test in a bubble with an outbox of two workers that writes to p.
func withOutbox(t *testing.T, p *paper, test func(o *outbox[string, int])) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p.values = map[string]int{}
		counter, err := writeCounter(nil)
		if err != nil {
			t.Fatal(err)
		}
		o := newOutbox(&boxes{log: slog.New(slog.DiscardHandler), results: counter}, "test", 2, p.write)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.run(ctx) })
		test(o)
		stop()
		running.Wait()
	})
}

func TestOutboxNewestWins(t *testing.T) {
	p := &paper{took: time.Second}
	withOutbox(t, p, func(o *outbox[string, int]) {
		for i := range 100 {
			o.put("a", i, 0)
		}
		synctest.Wait() // the first write is under way
		o.put("a", 1000, 0)
		o.put("a", 1001, 0)
		o.put("b", 7, 0)
		<-o.idle()
		values, writes := p.written()
		if diff := cmp.Diff(map[string]int{"a": 1001, "b": 7}, values); diff != "" {
			t.Error(diff)
		}
		if writes > 3 {
			t.Errorf("%d writes; what was overtaken must not be written", writes)
		}
	})
}

func TestOutboxTriesAgainUntilDone(t *testing.T) {
	p := &paper{err: errors.New("no answer")}
	withOutbox(t, p, func(o *outbox[string, int]) {
		start := time.Now()
		o.put("a", 1, 0)
		time.Sleep(10 * time.Minute)
		if _, tries := p.written(); tries < 20 || tries > 40 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		p.fail(nil)
		<-o.idle()
		if values, _ := p.written(); values["a"] != 1 || time.Since(start) > 10*time.Minute+lastRetry {
			t.Errorf("wrote %v after %s", values, time.Since(start))
		}
	})
}

func TestOutboxStopsTrying(t *testing.T) {
	for name, stop := range map[string]func(*outbox[string, int], *paper){
		"when the object is gone": func(_ *outbox[string, int], p *paper) { p.fail(errGone) },
		"when nobody wants it":    func(o *outbox[string, int], _ *paper) { o.drop("a") },
	} {
		t.Run(name, func(t *testing.T) {
			p := &paper{err: errors.New("no answer")}
			withOutbox(t, p, func(o *outbox[string, int]) {
				o.put("a", 1, 0)
				time.Sleep(time.Second)
				stop(o, p)
				<-o.idle()
				time.Sleep(2 * lastRetry)
				_, before := p.written()
				time.Sleep(time.Hour)
				if values, after := p.written(); after != before || len(values) != 0 {
					t.Errorf("%d more tries, wrote %v", after-before, values)
				}
			})
		})
	}
}

func TestOutboxNewWishDoesNotWaitForTheOldOne(t *testing.T) {
	p := &paper{err: errors.New("no answer")}
	withOutbox(t, p, func(o *outbox[string, int]) {
		o.put("a", 1, 0)
		time.Sleep(10 * time.Minute)
		p.fail(nil)
		o.put("a", 2, 0)
		start := time.Now()
		<-o.idle()
		if values, _ := p.written(); values["a"] != 2 || time.Since(start) > 0 {
			t.Errorf("wrote %v after %s", values, time.Since(start))
		}
	})
}

func TestOutboxDelay(t *testing.T) {
	p := &paper{}
	withOutbox(t, p, func(o *outbox[string, int]) {
		start := time.Now()
		o.put("a", 1, time.Second)
		<-o.idle()
		if took := time.Since(start); took < time.Second || took > 2*time.Second {
			t.Errorf("written after %s, want 1s", took)
		}
		o.put("b", 1, time.Hour)
		o.put("b", 2, 0)
		<-o.idle()
		if values, _ := p.written(); values["b"] != 2 || time.Since(start) > time.Minute {
			t.Errorf("wrote %v after %s", values, time.Since(start))
		}
	})
}

// withRefusals runs a test with an outbox whose writes are refused, and counts what it tells of that.
func withRefusals(t *testing.T, refusal error, test func(o *outbox[string, int], p *paper, told func() int)) {
	t.Helper()
	p := &paper{err: &refusedError{cause: refusal}, took: time.Second}
	withOutbox(t, p, func(o *outbox[string, int]) {
		var told atomic.Int32
		o.refused = func(string, int, error) { told.Add(1) }
		test(o, p, func() int { return int(told.Load()) })
	})
}

func wantNothingKept(t *testing.T, o *outbox[string, int]) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.wanted)+len(o.parked)+o.queue.Len() != 0 || o.queue.NumRequeues("a") != 0 {
		t.Errorf("kept %v and %v, %d in the queue, %d tries counted", o.wanted, o.parked, o.queue.Len(), o.queue.NumRequeues("a"))
	}
}

var errTooLong = apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", field.ErrorList{
	field.TooLong(field.NewPath("metadata", "annotations"), "", 262144),
})

func TestOutboxParksWhatIsRefused(t *testing.T) {
	for name, step := range map[string]struct {
		do   func(o *outbox[string, int])
		want map[string]int
	}{
		"until the object changes":    {func(o *outbox[string, int]) { o.again("a") }, map[string]int{"a": 1}},
		"until something else is due": {func(o *outbox[string, int]) { o.put("a", 2, 0) }, map[string]int{"a": 2}},
		"until nobody wants it": {func(o *outbox[string, int]) {
			o.drop("a")
			o.again("a")
		}, map[string]int{}},
	} {
		t.Run(name, func(t *testing.T) {
			withRefusals(t, errTooLong, func(o *outbox[string, int], p *paper, told func() int) {
				o.put("a", 1, 0)
				<-o.idle()
				time.Sleep(24 * time.Hour)
				if _, tries := p.written(); tries != 1 || told() != 1 {
					t.Errorf("%d tries, told %d times; want one of each", tries, told())
				}
				p.fail(nil)
				step.do(o)
				time.Sleep(time.Minute)
				if values, _ := p.written(); !maps.Equal(values, step.want) {
					t.Errorf("wrote %v, want %v", values, step.want)
				}
				wantNothingKept(t, o)
			})
		})
	}
}

func TestOutboxSeesAChangeDuringTheWrite(t *testing.T) {
	withRefusals(t, errTooLong, func(o *outbox[string, int], p *paper, told func() int) {
		o.put("a", 1, 0)
		synctest.Wait() // the write is under way
		o.again("a")
		time.Sleep(1100 * time.Millisecond) // it was refused, and is tried once more
		p.fail(nil)
		<-o.idle()
		if values, tries := p.written(); values["a"] != 1 || tries != 2 || told() != 0 {
			t.Errorf("wrote %v after %d tries, told %d times", values, tries, told())
		}
	})
}

func TestOutboxTriesTheForbiddenNowAndThen(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("not here"))
	withRefusals(t, forbidden, func(o *outbox[string, int], p *paper, told func() int) {
		o.put("a", 1, 0)
		time.Sleep(time.Hour)
		if _, tries := p.written(); tries < 11 || tries > 13 || told() != tries {
			t.Errorf("%d tries in an hour, told %d times", tries, told())
		}
		p.fail(nil)
		time.Sleep(2 * retryForbidden)
		if values, _ := p.written(); values["a"] != 1 {
			t.Error("not written when it was allowed")
		}
	})
}

func TestOutboxLimitsTriesOfAnObjectThatChangesAllTheTime(t *testing.T) {
	withRefusals(t, errTooLong, func(o *outbox[string, int], p *paper, _ func() int) {
		o.put("a", 1, 0)
		for range 6000 {
			time.Sleep(100 * time.Millisecond)
			o.again("a")
		}
		if _, tries := p.written(); tries < 20 || tries > 40 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		o.drop("a")
		time.Sleep(time.Hour)
	})
}

// TestOutboxDropRaces drops while all else happens; the race detector reads along.
func TestOutboxDropRaces(t *testing.T) {
	for name, refusal := range map[string]error{
		"written": nil, "refused": &refusedError{cause: errTooLong}, "failed": errors.New("no answer"),
	} {
		t.Run(name, func(t *testing.T) {
			p := &paper{err: refusal}
			withOutbox(t, p, func(o *outbox[string, int]) {
				o.refused = func(string, int, error) {}
				var running sync.WaitGroup
				for _, step := range []func(string, int){
					func(k string, v int) { o.put(k, v, 0) },
					func(k string, _ int) { o.again(k) },
					func(k string, _ int) { o.drop(k) },
				} {
					running.Go(func() {
						for i := range 1000 {
							step(string(rune('a'+i%3)), i)
						}
					})
				}
				running.Wait()
				for _, k := range []string{"a", "b", "c"} {
					o.drop(k)
				}
				<-o.idle()
				time.Sleep(2 * lastRetry)
				_, before := p.written()
				time.Sleep(time.Hour)
				if _, after := p.written(); after != before {
					t.Errorf("%d tries after all was dropped", after-before)
				}
				wantNothingKept(t, o)
			})
		})
	}
}
