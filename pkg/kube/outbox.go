package kube

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
)

// errGone says that the object a write was decided for is no longer there.
var errGone = errors.New("object is gone")

// How long a write that failed waits before it is tried again: doubled each time between these.
const (
	firstRetry = 20 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// outbox holds at most one wanted write per key, the newest, and tries it until it is done, the object is gone
// or nobody wants it any more. Two writes of one key never run at once.
type outbox[K comparable, V any] struct {
	kind    string
	write   func(context.Context, K, V) error
	log     *slog.Logger
	results *prometheus.CounterVec
	queue   workqueue.TypedRateLimitingInterface[K]

	mu     sync.Mutex
	wanted map[K]*V
	empty  chan struct{} // closed while nothing is wanted
}

func newOutbox[K comparable, V any](
	kind string, write func(context.Context, K, V) error, log *slog.Logger, results *prometheus.CounterVec,
) *outbox[K, V] {
	empty := make(chan struct{})
	close(empty)
	return &outbox[K, V]{
		kind:    kind,
		write:   write,
		log:     log,
		results: results,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstRetry, lastRetry)),
		wanted: map[K]*V{},
		empty:  empty,
	}
}

// put wants v written at k after a delay, instead of what was wanted there before.
func (o *outbox[K, V]) put(k K, v V, delay time.Duration) {
	o.mu.Lock()
	if len(o.wanted) == 0 {
		o.empty = make(chan struct{})
	}
	o.wanted[k] = &v
	o.mu.Unlock()
	if delay > 0 {
		o.queue.AddAfter(k, delay)
	} else {
		o.queue.Add(k)
	}
}

// drop wants nothing written at k any more. A write that is under way still ends.
func (o *outbox[K, V]) drop(k K) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v, there := o.wanted[k]; there {
		o.remove(k, v)
	}
}

// remove ends the wish v; a newer one for the same key stays. The caller holds mu.
func (o *outbox[K, V]) remove(k K, v *V) {
	if o.wanted[k] != v {
		return
	}
	delete(o.wanted, k)
	if len(o.wanted) == 0 {
		close(o.empty)
	}
}

func (o *outbox[K, V]) get(k K) *V {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wanted[k]
}

// idle is closed once nothing is wanted.
func (o *outbox[K, V]) idle() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.empty
}

// run writes with so many workers until ctx ends, and ends the queue with itself.
func (o *outbox[K, V]) run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for o.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	o.queue.ShutDown()
	running.Wait()
}

// next does one write; false when the queue has ended.
func (o *outbox[K, V]) next(ctx context.Context) bool {
	k, ended := o.queue.Get()
	if ended {
		return false
	}
	defer o.queue.Done(k)
	v := o.get(k)
	if v == nil || ctx.Err() != nil {
		o.queue.Forget(k)
		return true
	}
	err := o.write(ctx, k, *v)
	switch {
	case err == nil:
		o.finish(k, v, "done")
	case errors.Is(err, errGone):
		o.finish(k, v, "gone")
	case ctx.Err() != nil:
	default:
		o.results.WithLabelValues(o.kind, "failed").Inc()
		level := slog.LevelWarn
		if apierrors.IsConflict(err) {
			level = slog.LevelDebug // somebody else wrote at the same time
		}
		o.log.Log(ctx, level, "write failed, trying again", "kind", o.kind, "key", k, "tries", o.queue.NumRequeues(k)+1, "err", err)
		o.queue.AddRateLimited(k)
	}
	return true
}

func (o *outbox[K, V]) finish(k K, v *V, result string) {
	o.results.WithLabelValues(o.kind, result).Inc()
	o.queue.Forget(k)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(k, v)
}
