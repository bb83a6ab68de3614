package kube

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

// statuses holds the newest status that the API server is known to hold of each Network: from the watch, or
// from the answer to our own write when that came first.
type statuses struct {
	mu     sync.Mutex
	byName map[string]held
}

type held struct {
	uid     string
	version string
	status  v1alpha1.NetworkStatus
}

func newStatuses() *statuses { return &statuses{byName: map[string]held{}} }

// observe takes note of a Network as the API server has it, unless something newer of it is known.
func (s *statuses) observe(n *v1alpha1.Network) {
	h := held{uid: string(n.UID), version: n.ResourceVersion, status: n.Status}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, there := s.byName[n.Name]; there && old.uid == h.uid {
		if order, err := resourceversion.CompareResourceVersion(h.version, old.version); err == nil && order < 0 {
			return
		}
	}
	s.byName[n.Name] = h
}

// get returns the status of the Network with that name and UID; the zero value when none is known.
func (s *statuses) get(name, uid string) (v1alpha1.NetworkStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, there := s.byName[name]; there && h.uid == uid {
		return h.status, true
	}
	return v1alpha1.NetworkStatus{}, false
}

// forget drops what is known of a Network that has gone.
func (s *statuses) forget(name, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name].uid == uid {
		delete(s.byName, name)
	}
}
