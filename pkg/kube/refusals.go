package kube

import (
	"time"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// refusals are the pods on which the API server let nothing be written. Until it is worth another try they are reported as pods
// that nothing can be written on, so that they hold no port and no address meanwhile. Feed.mu guards them.
type refusals map[model.PodKey]*refusedPod

type refusedPod struct {
	uid, message string
	tries        int
	// active: the pod is reported so. lift ends that.
	active bool
	lift   *time.Timer
}

// refusePod takes note of a refusal. It is tried again after some time, or when the pod has changed.
func (f *Feed) refusePod(key model.PodKey, uid, message string, again time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.pods.known[key]
	if known == nil || known.UID != uid || len(known.Assigned) > 0 {
		return
	}
	r := f.refusals[key]
	if r == nil || r.uid != uid {
		f.forgiveLocked(key)
		r = &refusedPod{uid: uid}
		f.refusals[key] = r
	}
	r.message, r.active = message, true
	r.tries++
	f.liftAfter(key, r, again)
	f.reportLocked(key, message)
}

// liftAfter ends a refusal after some time. The caller holds mu.
func (f *Feed) liftAfter(key model.PodKey, r *refusedPod, delay time.Duration) {
	if r.lift != nil {
		r.lift.Stop()
	}
	r.lift = time.AfterFunc(delay, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.refusals[key] == r && r.active {
			r.active = false
			f.reportLocked(key, "")
		}
	})
}

// reportLocked reports a pod with why nothing can be written on it. The caller holds mu.
func (f *Feed) reportLocked(key model.PodKey, why string) {
	known := f.pods.known[key]
	if known == nil {
		return
	}
	p := *known
	p.Unwritable = why
	if f.pods.set(key, &p) {
		f.ready.Send()
	}
}

// refused is a pod as it is reported while the API server refuses. The caller does not hold mu.
func (f *Feed) refused(p *model.Pod) *model.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.refusals[p.Key]
	switch {
	case r == nil:
	case r.uid != p.UID, len(p.Assigned) > 0:
		f.forgiveLocked(p.Key)
	case r.active && p.Unwritable == "":
		p.Unwritable = r.message
	}
	return p
}

// changedRefused has a pod that has changed tried again: the later, the more often it was refused.
func (f *Feed) changedRefused(key model.PodKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.refusals[key]; r != nil && r.active {
		f.liftAfter(key, r, min(lastRetry, firstRetry<<min(r.tries, 16)))
	}
}

// forgiveLocked forgets a refusal. The caller holds mu.
func (f *Feed) forgiveLocked(key model.PodKey) {
	if r := f.refusals[key]; r != nil {
		r.lift.Stop()
		delete(f.refusals, key)
	}
}
