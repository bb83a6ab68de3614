package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/model"
)

const (
	// namespace holds the pods that are measured, rawNamespace those of the API server alone.
	namespace    = "default"
	rawNamespace = "bench-raw"
	// nodes is how many nodes the pods name; none of them exists.
	nodes = 10
	// loadTimeout bounds each measurement.
	loadTimeout = 5 * time.Minute
)

// load is how pods are made: by so many creators as fast as they can, or so many per second.
type load struct {
	pods      int
	creators  int
	perSecond int
	// wait makes a creator wait for the row of its pod before it makes the next.
	wait bool
}

// apply makes pods and measures, for each, the time from when its creation was sent to the API server until
// its row was seen in the database.
func (l *lab) apply(ctx context.Context, how load) (series, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	names := make([]string, how.pods)
	for i := range names {
		names[i] = fmt.Sprintf("pod-%06d", l.made)
		l.made++
	}
	keys := make([]string, how.pods)
	for i, name := range names {
		keys[i] = model.PortName(model.PodKey{Namespace: namespace, Name: name}, "")
	}
	sent := make([]time.Time, how.pods)
	create := func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		if err := l.createPod(ctx, namespace, names[i], i, l.namesOfNetworks[i%len(l.namesOfNetworks)]); err != nil {
			return err
		}
		if how.wait {
			return l.ports.await(ctx, keys[i:i+1], l.controller.done)
		}
		return nil
	}
	if err := how.run(ctx, create); err != nil {
		return series{}, err
	}
	if err := l.ports.await(ctx, keys, l.controller.done); err != nil {
		return series{}, err
	}
	annotated, err := l.annotated(ctx, names)
	if err != nil {
		return series{}, err
	}
	took := make([]time.Duration, how.pods)
	first, last := slices.MinFunc(sent, time.Time.Compare), time.Time{}
	for i, key := range keys {
		at, _ := l.ports.when(key)
		took[i] = at.Sub(sent[i])
		if at.After(last) {
			last = at
		}
	}
	return newSeries(took, last.Sub(first), annotated.Sub(first)), nil
}

// annotated waits until the last pods made have their annotation too, which the controller writes in about the
// order in which they came, and returns when that was.
func (l *lab) annotated(ctx context.Context, names []string) (time.Time, error) {
	const last = 64
	for _, name := range names[max(0, len(names)-last):] {
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			pod, err := l.kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && pod.Annotations[model.AnnotationAttachments] != "", err
		})
		if err != nil {
			return time.Time{}, fmt.Errorf("wait for annotation of %s: %w", name, err)
		}
	}
	return time.Now(), nil
}

// run calls create for 0 to pods-1.
func (how load) run(ctx context.Context, create func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	if how.perSecond > 0 {
		tick := time.NewTicker(time.Second / time.Duration(how.perSecond))
		defer tick.Stop()
		for i := range how.pods {
			group.Go(func() error { return create(ctx, i) })
			select {
			case <-tick.C:
			case <-ctx.Done():
				return group.Wait()
			}
		}
		return group.Wait()
	}
	var mu sync.Mutex
	next := 0
	for range how.creators {
		group.Go(func() error {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= how.pods {
					return nil
				}
				if err := create(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func (l *lab) createPod(ctx context.Context, namespace, name string, i int, network string) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:   fmt.Sprintf("node%d", i%nodes),
			Containers: []corev1.Container{{Name: "main", Image: "image"}},
		},
	}
	if network != "" {
		pod.Labels = map[string]string{model.LabelNetwork: network}
	}
	// The answer is not looked at: it costs both sides less when it is short.
	return l.kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Body(pod).
		SetHeader("Accept", runtime.ContentTypeProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Do(ctx).Error()
}
