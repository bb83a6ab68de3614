package kube

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// gather follows a kind into what a Feed gathers. changed is told of every event, news or not; it may be nil.
func gather[O metav1.Object, K comparable, V any](
	f *Feed, events *prometheus.CounterVec, name string, lister cache.ListerWatcher, to *gathered[K, V],
	key func(namespace, name string) K, read func(O) *V, changed func(K),
) follow.Source {
	sink := sink[K, V]{f, to, events.WithLabelValues(name), changed}
	return follow.Kind[O, K, V]{Name: name, Lister: lister, Key: named(key), Read: read, Sink: sink}.Source()
}

// named is the key of objects by their names.
func named[K any](key func(namespace, name string) K) func(metav1.Object) K {
	return func(o metav1.Object) K { return key(o.GetNamespace(), o.GetName()) }
}

// sink gathers what is followed.
type sink[K comparable, V any] struct {
	feed    *Feed
	to      *gathered[K, V]
	events  prometheus.Counter
	changed func(K)
}

// Set implements follow.Sink.
func (s sink[K, V]) Set(k K, v *V) {
	s.events.Inc()
	s.feed.mu.Lock()
	news := s.to.set(k, v)
	s.feed.mu.Unlock()
	if news {
		s.feed.ready.Send()
	}
	if s.changed != nil {
		s.changed(k)
	}
}

// Remove implements follow.Sink.
func (s sink[K, V]) Remove(k K, _ types.UID) { s.Set(k, nil) }

// Replace implements follow.Sink.
func (s sink[K, V]) Replace(all map[K]*V) {
	s.events.Add(float64(len(all)))
	s.feed.mu.Lock()
	s.to.keepOnly(all)
	for k, v := range all {
		s.to.set(k, v)
	}
	s.to.listed = true
	s.feed.mu.Unlock()
	s.feed.ready.Send()
	if s.changed != nil {
		for k := range all {
			s.changed(k)
		}
	}
}
