// Package follow follows kinds of objects in the API server: lists and watches in, values out.
//
//	Lister ──▶ reflector ──▶ Store: reads each object as it comes ──▶ Sink
//
// What must stay true:
//
//   - No object is kept, nor a list of them: each is read into a value at once.
//   - A watch that ends goes on from the version that was seen last. One that cannot is begun again, forever, with all that there is; what
//     has gone meanwhile is told then.
//   - A Sink is called by one goroutine.
package follow

import (
	"context"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Sink is where values of one kind go.
type Sink[K comparable, V any] interface {
	// Set takes an object's value as it is now; nil where Read gave none.
	Set(key K, value *V)
	// Remove takes away an object, which had a UID.
	Remove(key K, uid types.UID)
	// Replace takes all that there is: first what was there at the beginning, and again whenever a watch could not go on.
	Replace(all map[K]*V)
}

// Kind is one kind of objects. O is a pointer to its type.
type Kind[O metav1.Object, K comparable, V any] struct {
	// Name is for people.
	Name   string
	Lister cache.ListerWatcher
	Key    func(metav1.Object) K
	// Read reads an object into a value. It may be called again for the same version.
	Read func(O) *V
	Sink Sink[K, V]
}

// Source is a Kind of any type.
type Source struct {
	Name   string
	Lister cache.ListerWatcher
	Store  cache.ReflectorStore
	object any
}

// Source prepares what follows a kind.
func (k Kind[O, K, V]) Source() Source {
	return Source{k.Name, k.Lister, store[O, K, V]{k}, Empty[O]()}
}

// Empty is an object without any content. O is a pointer to its type.
func Empty[O any]() O { return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O) }

// Run follows until ctx ends.
func (s Source) Run(ctx context.Context) {
	cache.NewReflectorWithOptions(resumed(s.Lister), s.object, s.Store, cache.ReflectorOptions{Name: s.Name}).RunWithContext(ctx)
}

// store is where a reflector leaves objects.
type store[O metav1.Object, K comparable, V any] struct{ Kind[O, K, V] }

// received is what is left of an object that has been read: its name, by which the reflector keeps it until the first list is complete, and
// its value.
type received[K comparable, V any] struct {
	metav1.ObjectMeta
	key   K
	value *V
}

// Transformer implements cache.TransformingStore. The reflector calls it for the objects of a first list only.
func (s store[O, K, V]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		o, ok := obj.(O)
		if !ok {
			return obj, nil
		}
		return s.receive(o), nil
	}
}

func (s store[O, K, V]) receive(o O) *received[K, V] {
	return &received[K, V]{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}, s.Key(o), s.Read(o)}
}

// Add implements cache.ReflectorStore.
func (s store[O, K, V]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s store[O, K, V]) Update(obj any) error {
	o, err := s.object(obj)
	if err == nil {
		s.Sink.Set(s.Key(o), s.Read(o))
	}
	return err
}

// Delete implements cache.ReflectorStore.
func (s store[O, K, V]) Delete(obj any) error {
	o, err := s.object(obj)
	if err == nil {
		s.Sink.Remove(s.Key(o), o.GetUID())
	}
	return err
}

// Replace implements cache.ReflectorStore.
func (s store[O, K, V]) Replace(list []any, _ string) error {
	all := make(map[K]*V, len(list))
	for _, obj := range list {
		r, ok := obj.(*received[K, V])
		if !ok {
			o, err := s.object(obj)
			if err != nil {
				return err
			}
			r = s.receive(o)
		}
		all[r.key] = r.value
	}
	s.Sink.Replace(all)
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do again.
func (s store[O, K, V]) Resync() error { return nil }

func (s store[O, K, V]) object(obj any) (O, error) {
	o, ok := obj.(O)
	if !ok {
		return o, fmt.Errorf("read watch event of %s: got %T, want %T", s.Name, obj, o)
	}
	return o, nil
}

// Each is a Sink that hands each value on by itself: first what has gone, then what is there.
type Each[K comparable, V any] struct {
	// Seen is called with each value, and Gone with the key of each that was seen. What could not be read is as it was.
	Seen func(*V)
	Gone func(K)
	// Synced is called once, after all that there was at the beginning.
	Synced func()

	known map[K]struct{}
}

// Set implements Sink.
func (e *Each[K, V]) Set(key K, value *V) {
	if value == nil {
		return
	}
	e.known[key] = struct{}{}
	e.Seen(value)
}

// Remove implements Sink.
func (e *Each[K, V]) Remove(key K, _ types.UID) {
	if _, has := e.known[key]; has {
		delete(e.known, key)
		e.Gone(key)
	}
}

// Replace implements Sink.
func (e *Each[K, V]) Replace(all map[K]*V) {
	first := e.known == nil
	if first {
		e.known = map[K]struct{}{}
	}
	for key := range e.known {
		if _, has := all[key]; !has {
			e.Remove(key, "")
		}
	}
	for key, value := range all {
		e.Set(key, value)
	}
	if first {
		e.Synced()
	}
}
