package kube

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// store is where a reflector leaves its objects of type O: it reads each into a value and gathers that. No
// object is kept.
type store[O metav1.Object, K comparable, V any] struct {
	feed    *Feed
	to      *gathered[K, V]
	key     func(namespace, name string) K
	read    func(O) *V
	trim    func(O)
	early   bool    // objects of a first list are read one by one as they come, and not held until all are there
	changed func(K) // told of every event, news or not; may be nil
	events  prometheus.Counter
}

func newStore[O metav1.Object, K comparable, V any](
	feed *Feed, to *gathered[K, V], key func(namespace, name string) K, read func(O) *V, trim func(O), events prometheus.Counter,
) *store[O, K, V] {
	return &store[O, K, V]{feed: feed, to: to, key: key, read: read, trim: trim, events: events}
}

// Add implements cache.ReflectorStore.
func (s *store[O, K, V]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *store[O, K, V]) Update(obj any) error {
	o, err := s.object(obj)
	if err != nil {
		return err
	}
	s.gather(o, s.read(o))
	return nil
}

// Delete implements cache.ReflectorStore.
func (s *store[O, K, V]) Delete(obj any) error {
	o, err := s.object(obj)
	if err != nil {
		return err
	}
	s.gather(o, nil)
	return nil
}

func (s *store[O, K, V]) gather(o O, v *V) {
	s.events.Inc()
	k := s.key(o.GetNamespace(), o.GetName())
	s.feed.mu.Lock()
	news := s.to.set(k, v)
	s.feed.mu.Unlock()
	if news {
		s.feed.signal()
	}
	if s.changed != nil {
		s.changed(k)
	}
}

// Replace implements cache.ReflectorStore: list is all there is.
func (s *store[O, K, V]) Replace(list []any, _ string) error {
	values := make(map[K]*V, len(list))
	all := make(map[K]struct{}, len(list))
	for _, obj := range list {
		if r, ok := obj.(*received[V]); ok {
			k := s.key(r.Namespace, r.Name)
			all[k], values[k] = struct{}{}, r.value
			continue
		}
		o, err := s.object(obj)
		if err != nil {
			return err
		}
		k := s.key(o.GetNamespace(), o.GetName())
		all[k], values[k] = struct{}{}, s.read(o)
	}
	s.events.Add(float64(len(list)))
	s.feed.mu.Lock()
	s.to.keepOnly(all)
	for k, v := range values {
		s.to.set(k, v)
	}
	s.to.listed = true
	s.feed.mu.Unlock()
	s.feed.signal()
	if s.changed != nil {
		for k := range all {
			s.changed(k)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do again.
func (s *store[O, K, V]) Resync() error { return nil }

// received is what is left of an object that has been read: its name, by which the reflector keeps it until the list
// is complete, and its value.
type received[V any] struct {
	metav1.ObjectMeta
	value *V
}

// Transformer implements cache.TransformingStore. The reflector calls it for the objects of a first list only.
func (s *store[O, K, V]) Transformer() cache.TransformFunc {
	if s.trim == nil && !s.early {
		return nil
	}
	return func(obj any) (any, error) {
		o, ok := obj.(O)
		switch {
		case !ok:
			return obj, nil
		case s.early:
			return &received[V]{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}, s.read(o)}, nil
		}
		s.trim(o)
		return obj, nil
	}
}

func (s *store[O, K, V]) object(obj any) (O, error) {
	o, ok := obj.(O)
	if !ok {
		return o, fmt.Errorf("read watch event: got %T, want %T", obj, o)
	}
	return o, nil
}
