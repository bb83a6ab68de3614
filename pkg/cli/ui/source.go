package ui

import (
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/client"
	"github.com/atoll-net/atoll/pkg/inspect/explain"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
	"github.com/atoll-net/atoll/pkg/inspect/question"
)

// Source answers with the rights of the page's user. A note says what an answer is without. client.Remote is one.
type Source interface {
	Cluster(ctx context.Context) (api.Cluster, string, error)
	Networks(ctx context.Context) ([]api.Network, string, error)
	Network(ctx context.Context, name string) (api.Network, string, error)
	Topologies(ctx context.Context) ([]api.Topology, string, error)
	Topology(ctx context.Context, name string) (api.Topology, string, error)
	IPAMs(ctx context.Context) ([]api.IPAM, string, error)
	IPAM(ctx context.Context, name string) (api.IPAM, string, error)
	Pods(ctx context.Context, namespace string) ([]api.Pod, string, error)
	Pod(ctx context.Context, key model.PodKey) (api.Pod, string, error)
	// Namespaces returns the namespaces that the user may list. It is empty when the user may list none.
	Namespaces(ctx context.Context) []string
	// Flows calls each for every flow in scope that the user may see, as it arrives.
	Flows(
		ctx context.Context, scope client.FlowScope, q flows.Question, each func(api.Flow) error, missing func(api.SilentNode),
	) (api.FlowStatus, error)
	Explain(ctx context.Context, spec api.ExplanationSpec) (explain.Explanation, error)
}

var _ Source = (*client.Remote)(nil)

// maxBeside bounds the requests that one page sends at the same time, maxNamespaces the namespaces whose pods it lists.
const (
	maxBeside     = 8
	maxNamespaces = 64
)

// podsSeen returns all pods that the user may see. If the user may not list the cluster's pods, it lists those of the given
// namespaces; if these are nil, those of the Source's namespaces.
func podsSeen(ctx context.Context, from Source, namespaces []string) ([]api.Pod, string, error) {
	all, note, err := from.Pods(ctx, "")
	if err == nil || !apierrors.IsForbidden(err) {
		return all, note, err
	}
	if namespaces == nil {
		namespaces = from.Namespaces(ctx)
	}
	namespaces = namespaces[:min(len(namespaces), maxNamespaces)]
	lists, notes, errs := make([][]api.Pod, len(namespaces)), make([]string, len(namespaces)), make([]error, len(namespaces))
	each(len(namespaces), func(i int) { lists[i], notes[i], errs[i] = from.Pods(ctx, namespaces[i]) })
	for i, err := range errs {
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, "", err
		}
		if notes[i] != "" {
			note = notes[i]
		}
	}
	return slices.Concat(lists...), note, nil
}

// podsIn returns the pods of a Network that the user may see.
func podsIn(ctx context.Context, from Source, n api.Network) ([]api.Pod, string, error) {
	namespaces := []string{}
	if n.Status.Detail != nil {
		namespaces = append(namespaces, n.Status.Detail.Namespaces...)
	}
	all, note, err := podsSeen(ctx, from, namespaces)
	return slices.DeleteFunc(all, func(p api.Pod) bool { return p.Status.Network != n.Name }), note, err
}

// each calls f with 0 to n-1, some at a time, and returns when all have ended.
func each(n int, f func(int)) { someAtATime(n, maxBeside, f) }

func someAtATime(n, beside int, f func(int)) {
	var asking sync.WaitGroup
	slots := make(chan struct{}, beside)
	for i := range n {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	asking.Wait()
}

// isAbsent reports that what was asked for is not there.
func isAbsent(err error) bool {
	_, absent := errors.AsType[*question.AbsentError](err)
	return absent || apierrors.IsNotFound(err)
}
