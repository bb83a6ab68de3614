package kube

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// upkeep keeps objects of one kind as they are wanted: it sees what the API server holds, and writes the difference. One that is wanted and
// there already is not written; one that somebody changes or deletes comes back. One that nobody wants is deleted once all that are wanted
// are known.
//
// O is a pointer to the kind's type, W what is wanted of one, H what is held of one to tell whether it is as it is wanted.
type upkeep[O object, K comparable, W, H any] struct {
	client   rest.Interface
	resource string
	// object makes what the API server is to hold, and hold what is held of what it does.
	object func(K, *W) O
	hold   func(O) H
	same   func(want O, have H) bool
	// unlike reports that one cannot be made the other: it is deleted first. Nil where there is no such thing.
	unlike func(want O, have H) bool
	// arrived is told of each object that the API server holds when it is seen; nil where nobody waits for it.
	arrived func(K)

	box *outbox[K, struct{}]

	mu     sync.Mutex
	wanted map[K]*W
	// there is what the API server holds. It is known once it was listed.
	there  map[K]*present[H]
	listed bool
	// complete: all that is wanted is known.
	complete bool
}

// present is an object at the API server.
type present[H any] struct {
	name    types.NamespacedName
	uid     types.UID
	version string
	value   H
}

// want stores the wanted objects that changed, nil for none, and queues them. The first call names all that is wanted: any other
// object at the API server is deleted.
func (u *upkeep[O, K, W, H]) want(changed map[K]*W) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, w := range changed {
		if w == nil {
			delete(u.wanted, key)
		} else {
			u.wanted[key] = w
		}
		u.look(key)
	}
	if !u.complete {
		u.complete = true
		for key := range u.there {
			u.look(key)
		}
	}
}

// look queues one object for comparison.
func (u *upkeep[O, K, W, H]) look(key K) { u.box.put(key, struct{}{}, 0) }

// step is what has to be done about one object: nothing when idle. One that nobody wants has no name in want.
func (u *upkeep[O, K, W, H]) step(key K) (want O, wanted bool, there *present[H], idle bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	w, there := u.wanted[key], u.there[key]
	if w == nil {
		return want, false, there, there == nil || !u.listed || !u.complete
	}
	want = u.object(key, w)
	return want, true, there, !u.listed || there != nil && u.same(want, there.value)
}

// write brings one object to what is wanted. It names the very object that it was decided for: one that has changed meanwhile is looked at
// again.
func (u *upkeep[O, K, W, H]) write(ctx context.Context, key K, _ struct{}) error {
	want, wanted, there, idle := u.step(key)
	var err error
	switch {
	case idle:
		return nil
	case !wanted, there != nil && u.unlike != nil && u.unlike(want, there.value):
		if err = u.client.Delete().NamespaceIfScoped(there.name.Namespace, there.name.Namespace != "").Resource(u.resource).Name(there.name.Name).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &there.uid}}).Do(ctx).Error(); err == nil {
			u.gone(key, there.uid)
		}
	default:
		request := u.client.Post()
		if there != nil {
			want.SetUID(there.uid)
			want.SetResourceVersion(there.version)
			request = u.client.Put().Name(want.GetName())
		}
		made := follow.Empty[O]()
		request = request.NamespaceIfScoped(want.GetNamespace(), want.GetNamespace() != "").Resource(u.resource)
		if err = request.Param("fieldManager", component).Body(want).Do(ctx).Into(made); err == nil {
			u.see(key, u.read(made))
		}
	}
	switch {
	case err == nil:
		return nil
	// The watch tells of it, and then it is looked at again; and nobody sees anything in a namespace that goes.
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errGone
	}
	return fmt.Errorf("write %s: %w", u.resource, err)
}

func (u *upkeep[O, K, W, H]) read(o O) *present[H] {
	return &present[H]{types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, o.GetUID(), o.GetResourceVersion(), u.hold(o)}
}

// see takes over what the API server holds, unless something newer has been seen.
func (u *upkeep[O, K, W, H]) see(key K, now *present[H]) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if old := u.there[key]; old == nil || older(old.version, now.version) {
		u.there[key] = now
	}
	if u.arrived != nil {
		u.arrived(key)
	}
}

// older reports whether b comes after a; versions of one kind of object can be compared (KEP-5504).
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }

// gone takes over that the API server holds an object no more.
func (u *upkeep[O, K, W, H]) gone(key K, uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := u.there[key]; now != nil && now.uid == uid {
		delete(u.there, key)
	}
}

// Set implements follow.Sink.
func (u *upkeep[O, K, W, H]) Set(key K, now *present[H]) {
	u.see(key, now)
	u.look(key)
}

// Remove implements follow.Sink.
func (u *upkeep[O, K, W, H]) Remove(key K, uid types.UID) {
	u.gone(key, uid)
	u.look(key)
}

// Replace implements follow.Sink.
func (u *upkeep[O, K, W, H]) Replace(all map[K]*present[H]) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.there, u.listed = all, true
	for key := range all {
		u.look(key)
	}
	for key := range u.wanted {
		u.look(key)
	}
}

// start adds to a Writer what lists and watches the objects, and the outbox that writes them.
func (u *upkeep[O, K, W, H]) start(all *boxes, kind string, workers int, key func(namespace, name string) K, labels string) {
	u.wanted, u.there = map[K]*W{}, map[K]*present[H]{}
	u.box = newOutbox(all, kind, workers, u.write)
	lister := cache.NewFilteredListWatchFromClient(u.client, u.resource, metav1.NamespaceAll,
		func(o *metav1.ListOptions) { o.LabelSelector = labels })
	all.runs = append(all.runs, follow.Kind[O, K, present[H]]{Name: kind, Lister: lister, Key: named(key), Read: u.read, Sink: u}.Source().Run)
}
