package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

const (
	// leaseName is the Lease that the controller holds which leads. It renews it every two seconds.
	leaseName = "atoll-controller"
	// leaseAge is how old an answer about it may be that is given again.
	leaseAge = time.Second
	// leaseStale is how long it may stay as it is before its holder is taken for dead, by this node's clock alone.
	leaseStale = 5 * time.Second
)

// leader watches over the controller that leads, when somebody asks.
type leader struct {
	leases coordinationv1client.LeasesGetter
	// namespace of the Lease.
	namespace string

	mu    sync.Mutex
	lease *coordinationv1.Lease
	err   error
	read  time.Time
	// renewed is what the Lease said when it was last seen to change, which was at since.
	renewed metav1.MicroTime
	since   time.Time
}

// away says in words that no controller leads, as far as this node can tell: false while one does, or nobody can tell.
func (l *leader) away(ctx context.Context) (words string, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.leases == nil {
		return "", false
	}
	if now.Sub(l.read) > leaseAge {
		ctx, cancel := context.WithTimeout(ctx, eventTime)
		defer cancel()
		// What the API server remembers will do: the question costs etcd nothing.
		l.lease, l.err = l.leases.Leases(l.namespace).Get(ctx, leaseName, metav1.GetOptions{ResourceVersion: "0"})
		l.read = time.Now()
	}
	say := func(format string, args ...any) (string, bool) { return fmt.Sprintf(format, args...), true }
	switch {
	case apierrors.IsNotFound(l.err):
		return say("no atoll-controller has led yet: there is no Lease %s/%s", l.namespace, leaseName)
	case l.err != nil || l.lease.Spec.RenewTime == nil:
		return "", false
	}
	renewed := *l.lease.Spec.RenewTime
	if l.since.IsZero() || !renewed.Equal(&l.renewed) {
		l.renewed, l.since = renewed, now
	}
	holder := ptr.Deref(l.lease.Spec.HolderIdentity, "")
	// Clocks differ; that much, hardly.
	expired := l.lease.Spec.LeaseDurationSeconds != nil &&
		now.Sub(renewed.Time) > time.Duration(*l.lease.Spec.LeaseDurationSeconds)*time.Second
	switch at := renewed.UTC().Format(time.RFC3339); {
	case holder == "":
		return say("no atoll-controller leads: the last one gave up its Lease at %s", at)
	case expired || now.Sub(l.since) >= leaseStale:
		return say("no atoll-controller leads: the last one, %s, was heard of at %s", holder, at)
	}
	return "", false
}

// without is the problem of somebody for whom something is so while no controller leads; false when one does.
func (l *leader) without(ctx context.Context, so string) (model.Problem, bool) {
	words, is := l.away(ctx)
	return model.Problemf(model.ReasonControllerAway,
		"%s; %s: see `kubectl get pods,lease -n %s` and the controller's log", words, so, l.namespace), is
}
