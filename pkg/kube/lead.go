package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// A leader that stops answering is followed by another after leaseDuration; one that stops properly, at once.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second

	// maxReleaseTries is more than one, since a renewal that was given up can be repeated by the transport.
	maxReleaseTries = 3
)

// LeadOptions name the Lease to hold, and who holds it (a readable name; Lead makes it unique).
type LeadOptions struct {
	Namespace, Name string
	Identity        string
	Logger          *slog.Logger
}

// Lead waits until the Lease is ours, then calls run with an epoch that no other term of anyone has. The ctx
// of run ends with ctx or when the Lease is lost. The Lease is given back only after run has returned, and Lead
// returns after that: ctx's error, an error that says that the Lease was lost, or nil when run returned by itself.
func Lead(ctx context.Context, cfg *rest.Config, opts LeadOptions, run func(ctx context.Context, epoch string)) error {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	client, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("make lease client: %w", err)
	}
	identity := opts.Identity + "_" + uuid.NewString()
	lock := &termLock{Interface: &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: opts.Namespace, Name: opts.Name},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}}

	// The elector outlives ctx, so that the Lease is renewed until run has returned.
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	holding = klog.NewContext(holding, logr.FromSlogHandler(opts.Logger.Handler()))
	term, endTerm := context.WithCancel(ctx)
	defer endTerm()

	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            opts.Name,
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: endTerm,
		},
	})
	if err != nil {
		return fmt.Errorf("prepare leader election: %w", err)
	}

	var elections sync.WaitGroup
	elections.Go(func() { elector.Run(holding) })
	select {
	case <-started:
		run(term, fmt.Sprintf("%s/%d", identity, lock.transitions()))
	case <-ctx.Done():
	}
	lost := ctx.Err() == nil && term.Err() != nil
	release()
	elections.Wait()
	switch {
	case lost:
		return errors.New("lead: the lease was lost")
	default:
		return ctx.Err()
	}
}

// termLock remembers how many terms the Lease has seen, as of our last write to it.
type termLock struct {
	resourcelock.Interface

	mu    sync.Mutex
	terms int
}

// Create implements resourcelock.Interface.
func (l *termLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.remember(r, l.Interface.Create(ctx, r))
}

// Update implements resourcelock.Interface. To give the Lease back is tried again after a conflict: the last renewal may arrive at the
// API server when we have already given up waiting for it, and without a second try the next leader waits for leaseDuration.
func (l *termLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, r)
	for tries := 0; r.HolderIdentity == "" && apierrors.IsConflict(err) && tries < maxReleaseTries; tries++ {
		held, _, getErr := l.Get(ctx)
		if getErr != nil {
			return getErr
		}
		if held.HolderIdentity != l.Identity() {
			return nil // somebody else's already
		}
		err = l.Interface.Update(ctx, r)
	}
	return l.remember(r, err)
}

func (l *termLock) remember(r resourcelock.LeaderElectionRecord, err error) error {
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.terms = r.LeaderTransitions
	}
	return err
}

func (l *termLock) transitions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms
}
