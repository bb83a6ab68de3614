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

// retryForbidden is when a write that was forbidden is tried again: it is the cluster's rules that forbid, and
// they may change without a change of the object.
const retryForbidden = 5 * time.Minute

// outbox holds at most one wanted write per key, the newest, and tries it until it is done, the object is gone
// or nobody wants it any more. Two writes of one key never run at once.
//
// Where refused is set, it is told of a write that the API server does not take. Such a write is parked: it is
// not tried again until again says that the object has changed.
type outbox[K comparable, V any] struct {
	kind    string
	workers int
	write   func(context.Context, K, V) error
	log     *slog.Logger
	results *prometheus.CounterVec
	queue   workqueue.TypedRateLimitingInterface[K]
	refused func(K, V, error)

	mu     sync.Mutex
	wanted map[K]*wish[V]
	parked map[K]*wish[V]
	empty  chan struct{} // closed while nothing is wanted
}

type wish[V any] struct {
	value V
	// changed says that the object has changed since the write began, so that a refusal may be out of date.
	changed bool
}

// boxes are all outboxes of a Writer.
type boxes struct {
	log     *slog.Logger
	results *prometheus.CounterVec
	// runs write until the context ends. idle are closed once nothing is wanted.
	runs []func(context.Context)
	idle []func() <-chan struct{}
}

// newOutbox adds an outbox to those of a Writer: so many workers write what is wanted of one kind.
func newOutbox[K comparable, V any](all *boxes, kind string, workers int, write func(context.Context, K, V) error) *outbox[K, V] {
	empty := make(chan struct{})
	close(empty)
	for _, result := range []string{"done", "failed"} {
		// From 0, so that the first one is seen as an increase.
		all.results.WithLabelValues(kind, result)
	}
	o := &outbox[K, V]{
		kind:    kind,
		workers: workers,
		write:   write,
		log:     all.log,
		results: all.results,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[K](firstRetry, lastRetry)),
		wanted: map[K]*wish[V]{},
		parked: map[K]*wish[V]{},
		empty:  empty,
	}
	all.runs, all.idle = append(all.runs, o.run), append(all.idle, o.idle)
	return o
}

// put wants v written at k after a delay, instead of what was wanted there before.
func (o *outbox[K, V]) put(k K, v V, delay time.Duration) {
	o.mu.Lock()
	o.want(k, &wish[V]{value: v})
	o.mu.Unlock()
	if delay > 0 {
		o.queue.AddAfter(k, delay)
	} else {
		o.queue.Add(k)
	}
}

// want makes w the only wish for k. The caller holds mu.
func (o *outbox[K, V]) want(k K, w *wish[V]) {
	if len(o.wanted) == 0 {
		o.empty = make(chan struct{})
	}
	o.wanted[k] = w
	delete(o.parked, k)
}

// drop wants nothing written at k any more. A write that is under way still ends.
func (o *outbox[K, V]) drop(k K) {
	o.mu.Lock()
	if w, there := o.wanted[k]; there {
		o.remove(k, w)
	}
	delete(o.parked, k)
	o.mu.Unlock()
	o.queue.Forget(k)
}

// again says that the object of k has changed: what was refused may be possible now. It is tried the later the
// more often it was refused.
func (o *outbox[K, V]) again(k K) {
	o.mu.Lock()
	w, parked := o.parked[k]
	switch {
	case parked:
		o.want(k, w)
	case o.wanted[k] != nil:
		o.wanted[k].changed = true
	}
	o.mu.Unlock()
	if parked {
		o.queue.AddRateLimited(k)
	}
}

// park keeps a refused wish for later; false when meanwhile it was replaced or dropped, or the object changed.
func (o *outbox[K, V]) park(k K, w *wish[V]) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wanted[k] != w || w.changed {
		return false
	}
	o.remove(k, w)
	o.parked[k] = w
	return true
}

// remove ends the wish w; a newer one for the same key stays. The caller holds mu.
func (o *outbox[K, V]) remove(k K, w *wish[V]) {
	if o.wanted[k] != w {
		return
	}
	delete(o.wanted, k)
	if len(o.wanted) == 0 {
		close(o.empty)
	}
}

// begin is the wish to write now, or nil.
func (o *outbox[K, V]) begin(k K) *wish[V] {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w, parked := o.parked[k]; parked {
		o.want(k, w)
	}
	w := o.wanted[k]
	if w != nil {
		w.changed = false
	}
	return w
}

// idle is closed once nothing is wanted.
func (o *outbox[K, V]) idle() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.empty
}

// run writes until ctx ends, and ends the queue with itself.
func (o *outbox[K, V]) run(ctx context.Context) {
	var running sync.WaitGroup
	for range o.workers {
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
	w := o.begin(k)
	if w == nil || ctx.Err() != nil {
		o.queue.Forget(k)
		return true
	}
	err := o.write(ctx, k, w.value)
	refusal := new(refusedError)
	switch {
	case err == nil:
		o.finish(k, w, "done")
	case errors.Is(err, errGone):
		o.finish(k, w, "gone")
	case ctx.Err() != nil:
	case o.refused != nil && errors.As(err, &refusal) && o.park(k, w):
		o.results.WithLabelValues(o.kind, "refused").Inc()
		o.log.Warn("write refused, waiting for a change", "kind", o.kind, "key", k, "err", err)
		o.refused(k, w.value, err)
		if apierrors.IsForbidden(err) {
			o.queue.AddAfter(k, retryForbidden)
		}
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

func (o *outbox[K, V]) finish(k K, w *wish[V], result string) {
	o.results.WithLabelValues(o.kind, result).Inc()
	o.queue.Forget(k)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.remove(k, w)
}
