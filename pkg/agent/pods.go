package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/atoll-net/atoll/pkg/agent/attachment"
	"github.com/atoll-net/atoll/pkg/agent/cni"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/process/wake"
)

// pod is what the agent keeps of a pod object.
type pod struct {
	key model.PodKey
	uid string
	// staticUID is the UID by which kubelet knows a static pod, of which the object is only a mirror.
	staticUID string
	// attachments is the annotation as it was found.
	attachments string
	// deleting: the pod is to go, and will not get an attachment that it has not got.
	deleting bool
}

// is reports whether the pod is the one that the runtime means.
func (p pod) is(ref cni.PodRef) bool {
	return p.key == ref.Key() && (p.uid == ref.UID || p.staticUID != "" && p.staticUID == ref.UID)
}

// attachment is the key of an interface of the pod.
func (p pod) attachment(iface string) model.AttachmentKey {
	return model.AttachmentKey{Pod: p.key, Interface: iface}
}

// pods is the node's pods as the API server last reported them. The watch writes, requests read and wait.
type pods struct {
	mu      sync.Mutex
	byKey   map[model.PodKey]pod
	byUID   map[string]model.PodKey
	waiting wake.Waiters[model.PodKey]
	synced  bool
	// known is closed once all pods of the node have been seen.
	known chan struct{}
}

func newPods() *pods {
	return &pods{
		byKey: map[model.PodKey]pod{},
		byUID: map[string]model.PodKey{},
		known: make(chan struct{}),
	}
}

// set records a pod and wakes who waits for it.
func (s *pods) set(p pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.byKey[p.key]; ok {
		delete(s.byUID, old.uid)
	}
	s.byKey[p.key] = p
	s.byUID[p.uid] = p.key
	s.waiting.Wake(p.key)
}

// remove forgets a pod, unless another has its name already.
func (s *pods) remove(key model.PodKey, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byUID, uid)
	if s.byKey[key].uid == uid {
		delete(s.byKey, key)
	}
	s.waiting.Wake(key)
}

func (s *pods) setSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.synced {
		s.synced = true
		close(s.known)
	}
}

// inSync reports whether all pods of the node have been seen once.
func (s *pods) inSync() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

func (s *pods) get(key model.PodKey) (pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.byKey[key]
	return p, ok
}

func (s *pods) getByUID(uid string) (pod, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.byUID[uid]
	return s.byKey[key], ok
}

// all are the pods of the node, in no order.
func (s *pods) all() []pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.byKey))
}

// await waits until the pod that the runtime means has an attachment for an interface that can be configured.
// The error of a context that ends says what was missing and where to look. A pod that goes meanwhile is not
// waited for: the runtime cannot take its sandbox down before the answer.
func (s *pods) await(ctx context.Context, ref cni.PodRef, iface string) (pod, attachment.NIC, error) {
	woken, stop := s.waiting.Watch(ref.Key())
	defer stop()
	for seen := false; ; {
		p, found := s.get(ref.Key())
		var missing error
		switch {
		case seen && (!found || !p.is(ref)):
			return pod{}, attachment.NIC{}, errors.New("the pod was deleted meanwhile")
		case !found:
			missing = errors.New("the API server has not shown this pod to the agent; see the agent's log and metrics")
		case !p.is(ref):
			missing = fmt.Errorf("the API server shows another pod of this name (UID %s, the runtime asks for %s)", p.uid, ref.UID)
		default:
			n, err := attachment.Parse(p.attachments, p.uid, iface)
			if err == nil {
				return p, n, nil
			}
			if seen = true; p.deleting {
				return pod{}, attachment.NIC{}, fmt.Errorf("%w, and the pod is being deleted", err)
			}
			missing = fmt.Errorf("%w; see `kubectl describe pod -n %s %s` and the atoll-controller's log", err, ref.Namespace, ref.Name)
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return pod{}, attachment.NIC{}, fmt.Errorf("%w: %w", missing, context.Cause(ctx))
		}
	}
}
