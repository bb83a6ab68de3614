package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/intake"
	"github.com/atoll-net/atoll/pkg/model"
)

// viewWorkers is how many views are written at once. Nobody waits for them: pods' addresses come first.
const viewWorkers = 2

// viewResource is where NetworkViews are.
const viewResource = "networkviews"

// views keeps NetworkViews as they are wanted: it sees what the API server holds, and writes the difference. One that is wanted and there
// already is not written; one that somebody changes or deletes comes back. One that nobody wants is deleted once all that are wanted are known.
type views struct {
	client rest.Interface
	box    *outbox[model.ViewKey, struct{}]

	mu     sync.Mutex
	wanted map[model.ViewKey]*model.View
	// there is what the API server holds, as far as it takes to tell whether it is what is wanted. It is known once it was listed.
	there  map[model.ViewKey]heldView
	listed bool
	// complete: all that is wanted is known.
	complete bool
}

// heldView is a NetworkView at the API server; sum is of its status.
type heldView struct {
	uid     types.UID
	version string
	sum     [sha256.Size]byte
}

// WriteViews shows namespaces what they see of Networks; nil takes a view away. The first call names all that are wanted: what the API
// server holds beside them is deleted.
func (w *Writer) WriteViews(changed map[model.ViewKey]*model.View) {
	for _, key := range w.views.want(changed) {
		w.views.box.put(key, struct{}{}, 0)
	}
}

// want takes over what is wanted, and returns what has to be looked at.
func (v *views) want(changed map[model.ViewKey]*model.View) []model.ViewKey {
	v.mu.Lock()
	defer v.mu.Unlock()
	var touched []model.ViewKey
	for key, view := range changed {
		if view == nil {
			delete(v.wanted, key)
		} else {
			v.wanted[key] = view
		}
		touched = append(touched, key)
	}
	if !v.complete {
		v.complete = true
		for key := range v.there {
			touched = append(touched, key)
		}
	}
	return touched
}

// step is what has to be done about one view: nothing while what there is, or is wanted, is not known.
func (v *views) step(key model.ViewKey) (want *v1alpha1.NetworkView, there *heldView) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.listed || !v.complete {
		return nil, nil
	}
	if held, has := v.there[key]; has {
		there = &held
	}
	view := v.wanted[key]
	if view == nil {
		return nil, there
	}
	want = &v1alpha1.NetworkView{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Network}, Status: intake.View(*view)}
	if there != nil && there.sum == sumOf(want.Status) {
		return nil, nil
	}
	return want, there
}

// sumOf tells statuses apart.
func sumOf(status v1alpha1.NetworkViewStatus) [sha256.Size]byte {
	text, err := json.Marshal(status)
	if err != nil {
		return [sha256.Size]byte{} // strings and numbers always marshal
	}
	return sha256.Sum256(text)
}

// write brings one view to what is wanted. It names the very object that it was decided for: one that has changed meanwhile is
// looked at again.
func (v *views) write(ctx context.Context, key model.ViewKey, _ struct{}) error {
	want, there := v.step(key)
	made := &v1alpha1.NetworkView{}
	var err error
	switch {
	case want == nil && there == nil:
		return nil
	case want == nil:
		err = v.client.Delete().Namespace(key.Namespace).Resource(viewResource).Name(key.Network).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.uid}}).Do(ctx).Error()
		if err == nil {
			v.gone(key, there.uid)
		}
	case there == nil:
		err = v.client.Post().Namespace(key.Namespace).Resource(viewResource).
			Param("fieldManager", component).Body(want).Do(ctx).Into(made)
	default:
		want.UID, want.ResourceVersion = there.uid, there.version
		err = v.client.Put().Namespace(key.Namespace).Resource(viewResource).Name(key.Network).
			Param("fieldManager", component).Body(want).Do(ctx).Into(made)
	}
	switch {
	case err == nil:
		if want != nil {
			v.see(key, made)
		}
		return nil
	// The watch tells of it, and then it is looked at again; and nobody sees anything in a namespace that goes.
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errGone
	}
	return fmt.Errorf("write NetworkView: %w", err)
}

// see takes over what the API server holds. Of what it held before, the watch may tell late: then the view is written once more.
func (v *views) see(key model.ViewKey, now *v1alpha1.NetworkView) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.there[key] = heldView{now.UID, now.ResourceVersion, sumOf(now.Status)}
}

// gone takes over that the API server holds an object no more.
func (v *views) gone(key model.ViewKey, uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.there[key].uid == uid {
		delete(v.there, key)
	}
}

// run watches and writes until ctx ends.
func (v *views) run(ctx context.Context) {
	lister := cache.NewListWatchFromClient(v.client, viewResource, metav1.NamespaceAll, fields.Everything())
	r := cache.NewReflectorWithOptions(lister, &v1alpha1.NetworkView{}, viewStore{v}, cache.ReflectorOptions{Name: "NetworkViews"})
	var running sync.WaitGroup
	running.Go(func() { r.RunWithContext(ctx) })
	running.Go(func() { v.box.run(ctx, viewWorkers) })
	running.Wait()
}

// viewStore is where the reflector leaves what it sees.
type viewStore struct{ *views }

// Add implements cache.ReflectorStore.
func (s viewStore) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s viewStore) Update(obj any) error {
	view, key, err := asView(obj)
	if err != nil {
		return err
	}
	s.see(key, view)
	s.box.put(key, struct{}{}, 0)
	return nil
}

// Delete implements cache.ReflectorStore.
func (s viewStore) Delete(obj any) error {
	view, key, err := asView(obj)
	if err != nil {
		return err
	}
	s.gone(key, view.UID)
	s.box.put(key, struct{}{}, 0)
	return nil
}

// Replace implements cache.ReflectorStore.
func (s viewStore) Replace(list []any, _ string) error {
	there := make(map[model.ViewKey]heldView, len(list))
	for _, obj := range list {
		view, key, err := asView(obj)
		if err != nil {
			return err
		}
		there[key] = heldView{view.UID, view.ResourceVersion, sumOf(view.Status)}
	}
	s.mu.Lock()
	touched := make(map[model.ViewKey]struct{}, len(there))
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
func (s viewStore) Resync() error { return nil }

func asView(obj any) (*v1alpha1.NetworkView, model.ViewKey, error) {
	view, ok := obj.(*v1alpha1.NetworkView)
	if !ok {
		return nil, model.ViewKey{}, fmt.Errorf("read watch event: got %T, want a NetworkView", obj)
	}
	return view, model.ViewKey{Namespace: view.Namespace, Network: view.Name}, nil
}

// viewsFor prepares the views of a Writer.
func (w *Writer) viewsFor(results *prometheus.CounterVec) *views {
	v := &views{client: w.clients.network, wanted: map[model.ViewKey]*model.View{}, there: map[model.ViewKey]heldView{}}
	v.box = newOutbox("view", v.write, w.log, results)
	return v
}
