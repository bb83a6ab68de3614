// Package follow runs informers for processes that follow the cluster's objects: an informer in, calls of typed handlers out. What is
// followed may be behind, but never stays so: a watch that fails is begun again, forever.
package follow

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
)

// Watch is one kind of objects and what is done with them.
type Watch struct {
	Informer cache.SharedIndexInformer
	// Trim drops what nobody reads before it is kept; nil keeps objects as they are.
	Trim cache.TransformFunc
	// Handler is called for each object, one at a time.
	Handler cache.ResourceEventHandler
	// Failed is told each time the watch fails, before it is begun again.
	Failed func(error)
	// Synced is called once Handler has seen all that there was at the beginning.
	Synced func()
}

// Run follows until ctx ends.
func Run(ctx context.Context, w Watch) error {
	if w.Trim != nil {
		if err := w.Informer.SetTransform(w.Trim); err != nil {
			return fmt.Errorf("set transform: %w", err)
		}
	}
	if err := w.Informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { w.Failed(err) }); err != nil {
		return fmt.Errorf("set error handler: %w", err)
	}
	handled, err := w.Informer.AddEventHandler(w.Handler)
	if err != nil {
		return fmt.Errorf("add handler: %w", err)
	}
	// Ends with ctx at the latest.
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
			w.Synced()
		}
	}()
	w.Informer.RunWithContext(ctx)
	return nil
}

// Handle makes handlers of functions for one type of object.
func Handle[T any](seen func(T), gone func(T)) cache.ResourceEventHandler {
	call := func(f func(T), object any) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		if o, ok := object.(T); ok {
			f(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(seen, object) },
		UpdateFunc: func(_, object any) { call(seen, object) },
		DeleteFunc: func(object any) { call(gone, object) },
	}
}

// WithoutStatus drops the status of objects, and who wrote what: what is asked for is what counts.
func WithoutStatus(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
		delete(u.Object, "status")
	}
	return object, nil
}
