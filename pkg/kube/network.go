package kube

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// countsEvery is how often a Network's counts are written at most while they change with every pod, and how
// late they are: so they are never written in the moment in which a pod starts.
const countsEvery = time.Second

// countsApart is how far the writes of different Networks' counts are apart at least. Pods of a thousand Networks
// would otherwise cause nearly as many writes of counts as there are pods, and the pods would wait for them.
const countsApart = 20 * time.Millisecond

// WriteNetworkStatus shows a status on the Network with that UID. A change of the phase, of the observed
// generation or of what a condition says goes at once; counts go once per second, or
// later when those of many Networks change. What the API server
// holds already is not written.
func (w *Writer) WriteNetworkStatus(name, uid string, s model.NetworkStatus) {
	w.networks.put(name, decided[model.NetworkStatus]{uid, s}, w.pace.delay(name, uid, s, time.Now()))
}

func (w *Writer) patchStatus(ctx context.Context, name string, want decided[model.NetworkStatus]) error {
	old, known := w.statuses.get(name, want.uid)
	status := intake.NetworkStatus(old, want.value, metav1.Now())
	if known && equality.Semantic.DeepEqual(old, status) {
		return nil
	}
	body, err := statusPatch(want.uid, status)
	if err != nil {
		return err
	}
	t := w.networkTarget(name, want.uid)
	var answer v1alpha1.Network
	err = t.outcome(ctx, t.patch(types.JSONPatchType, "status", body).Do(ctx).Into(&answer))
	if err == nil {
		w.statuses.observe(answer.Name, &answer, answer.Status)
	}
	return err
}

// WriteFinalizer puts our finalizer on the Network with that UID, or takes it away. On a Network that is being
// deleted it is not put: the API server would refuse.
func (w *Writer) WriteFinalizer(name, uid string, present bool) {
	w.finalizers.put(name, decided[bool]{uid, present}, 0)
}

func (w *Writer) patchFinalizer(ctx context.Context, name string, want decided[bool]) error {
	return setFinalizer(ctx, w.networkTarget(name, want.uid), &v1alpha1.Network{}, model.Finalizer, want.value)
}

// setFinalizer puts a finalizer on an object, or takes it away; into is what it is read into.
func setFinalizer(ctx context.Context, t target, into object, finalizer string, present bool) error {
	err := t.client.Get().Resource(t.resource).Name(t.name).Do(ctx).Into(into)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(into.GetUID()) != t.uid:
		return errGone
	case err != nil:
		return err
	case slices.Contains(into.GetFinalizers(), finalizer) == present:
		return nil
	case present && into.GetDeletionTimestamp() != nil:
		return errGone
	}
	finalizers := slices.DeleteFunc(slices.Clone(into.GetFinalizers()), func(f string) bool { return f == finalizer })
	if present {
		finalizers = append(finalizers, finalizer)
	}
	body, err := finalizersPatch(into, finalizers)
	if err != nil {
		return err
	}
	return t.outcome(ctx, t.patch(types.MergePatchType, "", body).Do(ctx).Error())
}

func (w *Writer) networkTarget(name, uid string) target {
	return target{client: w.clients.network, resource: "networks", name: name, uid: uid}
}

// pace spreads the writes of counts: it holds, per Network, the status that was last handed over and when
// that is written.
type pace struct {
	mu     sync.Mutex
	byName map[string]paced
	// last is when the latest of all counts is written.
	last time.Time
}

type paced struct {
	uid    string
	status model.NetworkStatus
	next   time.Time // when it is written
}

// paceSize is when Networks that are not pressed for time are forgotten.
const paceSize = 4096

func newPace() *pace { return &pace{byName: map[string]paced{}} }

// delay says how long a status has to wait.
func (p *pace) delay(name, uid string, s model.NetworkStatus, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, there := p.byName[name]
	if !there && len(p.byName) >= paceSize {
		p.prune(now)
	}
	entry := paced{uid: uid, status: s, next: now}
	if there && last.uid == uid && sameWords(last.status, s) {
		if entry.next = last.next; !now.Before(last.next) {
			entry.next = later(now.Add(countsEvery), p.last.Add(countsApart))
			p.last = entry.next
		}
	}
	p.byName[name] = entry
	return entry.next.Sub(now)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *pace) prune(now time.Time) {
	for name, e := range p.byName {
		if !now.Before(e.next) {
			delete(p.byName, name)
		}
	}
}

// sameWords reports whether two statuses differ in counts at most. Messages may hold counts too.
func sameWords(a, b model.NetworkStatus) bool {
	return a.Phase == b.Phase && a.ObservedGeneration == b.ObservedGeneration && sameConditions(a.Conditions, b.Conditions) &&
		a.Joined == b.Joined && slices.Equal(a.Compatibility, b.Compatibility) && reflect.DeepEqual(a.Isolation, b.Isolation)
}

// sameConditions reports whether conditions differ in their messages at most.
func sameConditions(a, b []model.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y model.Condition) bool {
		return x.Type == y.Type && x.Status == y.Status && x.Unknown == y.Unknown && x.Reason == y.Reason
	})
}
