package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// lookEvery is how often the API server is asked which kinds of Gateway API it has: one small request.
const lookEvery = 5 * time.Second

// annotationBundle on each definition of Gateway API is the version of it that the cluster has. (Gateway API,
// pkg/consts.)
const annotationBundle = "gateway.networking.k8s.io/bundle-version"

// offered is what a cluster has of Gateway API.
type offered struct {
	resources map[string]bool
	version   string
}

// watchGateways watches the kinds of Gateway API that the cluster has, until ctx ends. Kinds may come and go: one that
// goes takes its objects along.
func (f *Feed) watchGateways(ctx context.Context) {
	defer f.stopGateways()
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		has, err := f.lookForGateways(ctx)
		switch {
		case err == nil:
			f.follow(ctx, has)
		case ctx.Err() == nil:
			f.log.Warn("the API server does not say what it has of Gateway API; asking again", "err", err, "in", lookEvery)
		}
	}, lookEvery)
}

// lookForGateways asks the API server. A cluster without Gateway API is no error.
func (f *Feed) lookForGateways(ctx context.Context) (offered, error) {
	out := offered{resources: map[string]bool{}}
	raw, err := f.gateways.client.Get().AbsPath("/apis", gatewayv1.GroupName, gatewayv1.GroupVersion.Version).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("discover Gateway API: %w", err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(raw, &list); err != nil {
		return out, fmt.Errorf("discover Gateway API: %w", err)
	}
	for _, r := range list.APIResources {
		out.resources[r.Name] = true
	}
	raw, err = f.gateways.client.Get().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gatewayclasses."+gatewayv1.GroupName).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	var definition metav1.PartialObjectMetadata
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		// Without, the version is not known; the class says so.
		return out, nil
	case err != nil:
		return out, fmt.Errorf("read the version of Gateway API: %w", err)
	}
	if err := json.Unmarshal(raw, &definition); err != nil {
		return out, fmt.Errorf("read the version of Gateway API: %w", err)
	}
	out.version = definition.Annotations[annotationBundle]
	return out, nil
}

// follow watches what there is and no more.
func (f *Feed) follow(ctx context.Context, has offered) {
	g := f.gateways
	f.mu.Lock()
	renewed := g.version != has.version
	g.version = has.version
	f.mu.Unlock()
	for i := range g.sources {
		s := &g.sources[i]
		want := has.resources[s.Name]
		if s.stop != nil && (!want || renewed) {
			f.end(s, want)
		}
		if s.stop == nil && want {
			f.begin(ctx, s)
		}
	}
	f.mu.Lock()
	first := !g.known
	g.known = true
	f.mu.Unlock()
	if first {
		f.ready.Send()
	}
}

func (f *Feed) begin(ctx context.Context, s *optional) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	f.mu.Lock()
	defer f.mu.Unlock()
	s.stop = func() {
		cancel()
		running.Wait()
	}
}

// end ends a watch. Unless the kind is still there, its objects go with it.
func (f *Feed) end(s *optional, still bool) {
	// What the watch does last needs the lock.
	s.stop()
	f.mu.Lock()
	s.stop = nil
	if !still {
		s.lost()
	}
	f.mu.Unlock()
	f.ready.Send()
}

func (f *Feed) stopGateways() {
	for i := range f.gateways.sources {
		if s := &f.gateways.sources[i]; s.stop != nil {
			s.stop()
		}
	}
}
