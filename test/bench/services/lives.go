package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// life is when things happened to a pod, by the clock of whoever watched; zero: not yet.
type life struct {
	name, uid string
	// told: to end. listed and unlisted: its Service's slices said that it is ready, and that it is not any more.
	ready, listed, told, unlisted, stopped, gone time.Time
}

// lives follows the pods of a Deployment and what the slices of its Service say of them.
type lives struct {
	watches []watch.Interface
	running sync.WaitGroup

	mu  sync.Mutex
	all map[string]*life
}

// watchLives follows an app until stop is called.
func (c *cluster) watchLives(ctx context.Context, app string) (*lives, error) {
	pods, err := c.Kube.CoreV1().Pods(home).Watch(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	endpoints, err := c.Kube.DiscoveryV1().EndpointSlices(home).Watch(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + app,
	})
	if err != nil {
		pods.Stop()
		return nil, fmt.Errorf("watch slices: %w", err)
	}
	l := &lives{watches: []watch.Interface{pods, endpoints}, all: map[string]*life{}}
	for _, w := range l.watches {
		l.running.Go(func() {
			for event := range w.ResultChan() {
				l.saw(event, time.Now())
			}
		})
	}
	return l, nil
}

func (l *lives) stop() {
	for _, w := range l.watches {
		w.Stop()
	}
	l.running.Wait()
}

// of is the life of a pod; the caller holds the lock.
func (l *lives) of(uid string) *life {
	if l.all[uid] == nil {
		l.all[uid] = &life{uid: uid}
	}
	return l.all[uid]
}

func (l *lives) saw(event watch.Event, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	once := func(when *time.Time, holds bool) {
		if holds && when.IsZero() {
			*when = at
		}
	}
	switch object := event.Object.(type) {
	case *corev1.Pod:
		p := l.of(string(object.UID))
		p.name = object.Name
		once(&p.ready, slices.ContainsFunc(object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}))
		once(&p.told, object.DeletionTimestamp != nil)
		once(&p.stopped,
			slices.ContainsFunc(object.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Terminated != nil }))
		once(&p.gone, event.Type == watch.Deleted)
	case *discoveryv1.EndpointSlice:
		ready := map[string]bool{}
		for _, e := range object.Endpoints {
			if e.TargetRef != nil && e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready[string(e.TargetRef.UID)] = true
				once(&l.of(string(e.TargetRef.UID)).listed, true)
			}
		}
		for _, p := range l.all {
			once(&p.unlisted, !p.listed.IsZero() && !ready[p.uid])
		}
	}
}

// lived are the pods so far, those that came first first.
func (l *lives) lived() []life {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []life
	for _, p := range l.all {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b life) int { return cmp.Or(a.ready.Compare(b.ready), strings.Compare(a.name, b.name)) })
	return out
}

// forgotten is how long after its end a pod has no part in what happens.
const forgotten = 5 * time.Second

// standing says what had happened to each pod at a moment, and how long before.
func standing(all []life, at time.Time) string {
	var out []string
	for _, p := range all {
		if !p.gone.IsZero() && p.gone.Add(forgotten).Before(at) {
			continue
		}
		var said []string
		for _, step := range []struct {
			what string
			when time.Time
		}{
			{"ready", p.ready}, {"listed", p.listed}, {"told to end", p.told}, {"not listed", p.unlisted}, {"stopped", p.stopped}, {"gone", p.gone},
		} {
			if !step.when.IsZero() && !step.when.After(at) {
				said = append(said, fmt.Sprintf("%s for %.3f s", step.what, at.Sub(step.when).Seconds()))
			}
		}
		if len(said) > 0 {
			out = append(out, p.name+": "+strings.Join(said, ", "))
		}
	}
	return strings.Join(out, "; ")
}
