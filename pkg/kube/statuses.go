package kube

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// statuses holds the newest status that the API server is known to hold of each object of one kind: from the watch, or
// from the answer to our own write when that came first.
type statuses[K comparable, S any] struct {
	mu    sync.Mutex
	byKey map[K]held[S]
}

type held[S any] struct {
	uid     string
	version string
	status  S
}

func newStatuses[K comparable, S any]() *statuses[K, S] {
	return &statuses[K, S]{byKey: map[K]held[S]{}}
}

// observe takes note of an object as the API server has it, unless something newer of it is known.
func (s *statuses[K, S]) observe(key K, of metav1.Object, status S) {
	h := held[S]{uid: string(of.GetUID()), version: of.GetResourceVersion(), status: status}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, there := s.byKey[key]; there && old.uid == h.uid {
		if order, err := resourceversion.CompareResourceVersion(h.version, old.version); err == nil && order < 0 {
			return
		}
	}
	s.byKey[key] = h
}

// get returns the status of the object with that key and UID; the zero value when none is known.
func (s *statuses[K, S]) get(key K, uid string) (S, bool) {
	h, known := s.held(key, uid)
	return h.status, known
}

// held is all that is known of the object with that key and UID.
func (s *statuses[K, S]) held(key K, uid string) (held[S], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, there := s.byKey[key]
	if !there || h.uid != uid {
		return held[S]{}, false
	}
	return h, true
}

// forget drops what is known of an object that has gone.
func (s *statuses[K, S]) forget(key K, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey[key].uid == uid {
		delete(s.byKey, key)
	}
}
