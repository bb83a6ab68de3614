package kube

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
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
		o := newOutbox("test", p.write, slog.New(slog.DiscardHandler), counter)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.run(ctx, 2) })
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
