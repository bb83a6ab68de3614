package kube

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lateLock is a Lease to which renewals arrive after their senders have given up: each write but the last of them meets a conflict.
type lateLock struct {
	resourcelock.Interface
	holder    string
	conflicts int
}

func (l *lateLock) Identity() string { return "us" }

func (l *lateLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: l.holder}, nil, nil
}

func (l *lateLock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if l.conflicts > 0 {
		l.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "atoll-controller", nil)
	}
	l.holder = r.HolderIdentity
	return nil
}

func TestALeaseIsGivenBackAfterALateRenewal(t *testing.T) {
	for _, test := range []struct {
		name, holder, record string
		conflicts            int
		wantConflict         bool
		wantHolder           string
	}{
		{name: "no renewal is late", holder: "us"},
		{name: "one is late", holder: "us", conflicts: 1},
		{name: "too many are late", holder: "us", conflicts: maxReleaseTries + 1, wantConflict: true, wantHolder: "us"},
		{name: "another has it already", holder: "another", conflicts: 1, wantHolder: "another"},
		{name: "a renewal is not repeated", holder: "another", record: "us", conflicts: 1, wantConflict: true, wantHolder: "another"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lease := &lateLock{holder: test.holder, conflicts: test.conflicts}
			lock := &termLock{Interface: lease}
			err := lock.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: test.record})
			if apierrors.IsConflict(err) != test.wantConflict || (err != nil && !test.wantConflict) {
				t.Errorf("got %v", err)
			}
			if lease.holder != test.wantHolder {
				t.Errorf("%q holds the Lease, want %q", lease.holder, test.wantHolder)
			}
		})
	}
}
