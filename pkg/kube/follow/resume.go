package follow

import (
	"context"
	"sync"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// watchedAhead is how many events of a watch are read off the connection before somebody takes them.
	watchedAhead = 1000
	// firstResume and lastResume bound how long a watch that ended without any event waits until it is resumed: the first time not at all.
	firstResume, lastResume = 10 * time.Millisecond, time.Second
)

// resumed makes watches of a lister go on where the API server ends them. It does so whenever one falls behind by more events
// than fit into its buffer, which in a young API server holds ten: in each burst. The reflector takes an end without an event for
// a fault, waits about a second and lists everything anew. What the API server says for a reason, as that it has forgotten a
// version, does end the watch. Whether first lists can come by watches is as the lister says.
func resumed(lister cache.ListerWatcher) cache.ListerWatcher {
	from := cache.ToListerWatcherWithContext(lister)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: from.ListWithContext,
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			first, err := from.WatchWithContext(ctx, options)
			if err != nil {
				return nil, err
			}
			ctx, stop := context.WithCancel(ctx)
			w := &resumedWatch{events: make(chan watch.Event, watchedAhead), stop: stop}
			w.running.Go(func() {
				defer close(w.events)
				w.run(ctx, first, options, from)
			})
			return w, nil
		},
	}, lister)
}

// resumedWatch is one such watch. Its goroutine ends with Stop, with the context, or with the watch.
type resumedWatch struct {
	events  chan watch.Event
	stop    context.CancelFunc
	running sync.WaitGroup
}

// ResultChan implements watch.Interface.
func (w *resumedWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *resumedWatch) Stop() {
	w.stop()
	w.running.Wait()
}

// run hands on events of one watch after the other until one says why it ends or cannot be had.
func (w *resumedWatch) run(ctx context.Context, from watch.Interface, options metav1.ListOptions, lister cache.WatcherWithContext) {
	var pause time.Duration
	for {
		seen, ends := w.handOn(ctx, from, &options)
		from.Stop()
		// While a first list is under way there is no version from which it could go on.
		if ends || options.SendInitialEvents != nil && *options.SendInitialEvents {
			return
		}
		if seen {
			pause = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(max(2*pause, firstResume), lastResume)
		var err error
		if from, err = lister.WatchWithContext(ctx, options); err != nil {
			return // the reflector asks again, and hears why
		}
	}
}

// handOn hands on what a watch tells, and keeps in options from where the next one goes on. It reports whether there was an event, and
// whether nothing may follow.
func (w *resumedWatch) handOn(ctx context.Context, from watch.Interface, options *metav1.ListOptions) (seen, ends bool) {
	for {
		select {
		case event, open := <-from.ResultChan():
			if !open {
				return seen, ctx.Err() != nil
			}
			seen = true
			ends = event.Type == watch.Error || !goOn(options, event)
			select {
			case w.events <- event:
			case <-ctx.Done():
				return seen, true
			}
			if ends {
				return seen, true
			}
		case <-ctx.Done():
			return seen, true
		}
	}
}

// goOn has options begin after an event; false when that has no version.
func goOn(options *metav1.ListOptions, event watch.Event) bool {
	object, err := apimeta.Accessor(event.Object)
	if err != nil {
		return false
	}
	switch {
	case options.SendInitialEvents == nil:
	case event.Type == watch.Bookmark && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true":
		options.SendInitialEvents, options.ResourceVersionMatch = nil, ""
	default:
		return true // the objects of a list come in any order
	}
	options.ResourceVersion = object.GetResourceVersion()
	return true
}
