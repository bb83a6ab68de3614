package kube

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// mirrorWorkers is how many mirrors are written at once: a rollout changes those of its own Service, one after the other.
const mirrorWorkers = 8

// mirrors keeps the EndpointSlices of Mirrors as they are wanted: it sees what the API server holds, and writes the
// difference. A slice that is wanted and there already is not written; one that somebody changes or deletes comes back.
// One that nobody wants is deleted once all that is wanted is known.
type mirrors struct {
	client discoveryclient.DiscoveryV1Interface
	box    *outbox[model.SliceKey, struct{}]

	mu sync.Mutex
	// wanted by the slice's key, and what keys each Service has.
	wanted map[model.SliceKey]*model.Mirror
	of     map[model.ServiceKey][]model.SliceKey
	// there is what the API server holds. It is known once it was listed.
	there  map[model.SliceKey]*discoveryv1.EndpointSlice
	listed bool
	// complete: all that is wanted is known.
	complete bool
}

func newMirrors(client discoveryclient.DiscoveryV1Interface) *mirrors {
	return &mirrors{
		client: client,
		wanted: map[model.SliceKey]*model.Mirror{},
		of:     map[model.ServiceKey][]model.SliceKey{},
		there:  map[model.SliceKey]*discoveryv1.EndpointSlice{},
	}
}

// WriteMirrors wants the mirrors of each of the Services to be these. The first call names all that are wanted: what
// the API server holds beside them is deleted.
func (w *Writer) WriteMirrors(of map[model.ServiceKey][]model.Mirror) {
	for _, key := range w.mirrors.want(of) {
		w.mirrors.box.put(key, struct{}{}, 0)
	}
}

// want takes over what is wanted, and returns what has to be looked at.
func (m *mirrors) want(of map[model.ServiceKey][]model.Mirror) []model.SliceKey {
	m.mu.Lock()
	defer m.mu.Unlock()
	var touched []model.SliceKey
	for service, list := range of {
		old := m.of[service]
		var now []model.SliceKey
		before := map[model.SliceKey]*model.Mirror{}
		for _, key := range old {
			before[key] = m.wanted[key]
			delete(m.wanted, key)
		}
		for i := range list {
			key := intake.MirrorKey(list[i])
			now = append(now, key)
			m.wanted[key] = &list[i]
			if was := before[key]; was == nil || !reflect.DeepEqual(*was, list[i]) {
				touched = append(touched, key)
			}
			delete(before, key)
		}
		for key := range before {
			touched = append(touched, key)
		}
		if m.of[service] = now; len(now) == 0 {
			delete(m.of, service)
		}
	}
	if !m.complete {
		m.complete = true
		for key := range m.there {
			if m.wanted[key] == nil {
				touched = append(touched, key)
			}
		}
	}
	return touched
}

// step is what has to be done about one slice.
func (m *mirrors) step(key model.SliceKey) (want, there *discoveryv1.EndpointSlice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if there = m.there[key]; !m.listed {
		return nil, nil
	}
	if wanted := m.wanted[key]; wanted != nil {
		want = intake.Mirror(*wanted)
	}
	switch {
	case want == nil && !m.complete, want != nil && there != nil && sameMirror(want, there):
		return nil, nil
	}
	return want, there
}

func sameMirror(a, b *discoveryv1.EndpointSlice) bool {
	return a.AddressType == b.AddressType &&
		equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		equality.Semantic.DeepEqual(a.Endpoints, b.Endpoints)
}

// write brings one slice to what is wanted. It names the very object that it was decided for: one that has changed
// meanwhile is looked at again.
func (m *mirrors) write(ctx context.Context, key model.SliceKey, _ struct{}) error {
	want, there := m.step(key)
	slices := m.client.EndpointSlices(key.Namespace)
	var err error
	switch {
	case want == nil && there == nil:
		return nil
	case want == nil:
		err = slices.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}})
		if err == nil {
			m.gone(key, there)
		}
	case there == nil:
		var made *discoveryv1.EndpointSlice
		if made, err = slices.Create(ctx, want, metav1.CreateOptions{FieldManager: component}); err == nil {
			m.see(key, made)
		}
	// What a slice is of cannot be changed, nor can its owner's end be told from the end of a later one's.
	case want.AddressType != there.AddressType:
		err = slices.Delete(ctx, key.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.UID}})
	default:
		want.UID, want.ResourceVersion = there.UID, there.ResourceVersion
		var made *discoveryv1.EndpointSlice
		if made, err = slices.Update(ctx, want, metav1.UpdateOptions{FieldManager: component}); err == nil {
			m.see(key, made)
		}
	}
	switch {
	case err == nil:
		return nil
	// The watch tells of it, and then it is looked at again.
	case apierrors.IsNotFound(err):
		return errGone
	}
	return fmt.Errorf("write mirrored endpoints: %w", err)
}

// see takes over what the API server holds, unless something newer has been seen.
func (m *mirrors) see(key model.SliceKey, now *discoveryv1.EndpointSlice) {
	now.ManagedFields = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.there[key]; old == nil || older(old, now) {
		m.there[key] = now
	}
}

// older reports whether b comes after a; versions of one kind of object can be compared (KEP-5504).
func older(a, b *discoveryv1.EndpointSlice) bool {
	if len(a.ResourceVersion) != len(b.ResourceVersion) {
		return len(a.ResourceVersion) < len(b.ResourceVersion)
	}
	return a.ResourceVersion < b.ResourceVersion
}

// gone takes over that the API server holds an object no more.
func (m *mirrors) gone(key model.SliceKey, was *discoveryv1.EndpointSlice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.there[key]; now != nil && now.UID == was.UID {
		delete(m.there, key)
	}
}

// run watches and writes until ctx ends.
func (m *mirrors) run(ctx context.Context) {
	lister := cache.NewFilteredListWatchFromClient(m.client.RESTClient(), "endpointslices", metav1.NamespaceAll,
		func(o *metav1.ListOptions) {
			o.LabelSelector = labels.Set{discoveryv1.LabelManagedBy: intake.ManagedBy}.String()
		})
	r := cache.NewReflectorWithOptions(lister, &discoveryv1.EndpointSlice{}, mirrorStore{m}, cache.ReflectorOptions{Name: "mirrors"})
	var running sync.WaitGroup
	running.Go(func() { r.RunWithContext(ctx) })
	running.Go(func() { m.box.run(ctx, mirrorWorkers) })
	running.Wait()
}

// mirrorStore is where the reflector leaves what it sees.
type mirrorStore struct{ *mirrors }

// Add implements cache.ReflectorStore.
func (s mirrorStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s mirrorStore) Update(obj any) error {
	slice, key, err := asSlice(obj)
	if err != nil {
		return err
	}
	s.see(key, slice)
	s.box.put(key, struct{}{}, 0)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s mirrorStore) Delete(obj any) error {
	slice, key, err := asSlice(obj)
	if err != nil {
		return err
	}
	s.gone(key, slice)
	s.box.put(key, struct{}{}, 0)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s mirrorStore) Replace(list []any, _ string) error {
	there := make(map[model.SliceKey]*discoveryv1.EndpointSlice, len(list))
	for _, obj := range list {
		slice, key, err := asSlice(obj)
		if err != nil {
			return err
		}
		slice.ManagedFields = nil
		there[key] = slice
	}
	s.mu.Lock()
	touched := make(map[model.SliceKey]struct{}, len(there))
	for key := range there {
		touched[key] = struct{}{}
	}
	for key := range s.wanted {
		touched[key] = struct{}{}
	}
	s.there, s.listed = there, true
	s.mu.Unlock()
	for key := range touched {
		s.box.put(key, struct{}{}, 0)
	}
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to do again.
func (s mirrorStore) Resync() error { return nil }

func asSlice(obj any) (*discoveryv1.EndpointSlice, model.SliceKey, error) {
	slice, ok := obj.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, model.SliceKey{}, fmt.Errorf("read watch event: got %T, want an EndpointSlice", obj)
	}
	return slice, model.SliceKey{Namespace: slice.Namespace, Name: slice.Name}, nil
}

// mirrorsFor prepares the mirrors of a Writer.
func (w *Writer) mirrorsFor(results *prometheus.CounterVec) *mirrors {
	m := newMirrors(w.clients.discovery)
	m.box = newOutbox("mirror", m.write, w.log, results)
	return m
}
