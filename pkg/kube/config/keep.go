package config

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
)

const (
	// awaitObject is how long a controller that finds no object waits for somebody to apply one, before it makes one with the
	// defaults: some of what comes into force cannot change again.
	awaitObject = 5 * time.Second
	// retryWrite is the pause after a write that failed, and writeTime what one may take.
	retryWrite, writeTime = time.Second, 10 * time.Second
)

// Keep runs in the controller that leads, until ctx ends. It judges each spec, writes the settings in force into the status, and
// calls use with them: first when there are settings in force, and again whenever these change.
//
// Keep creates the object if it is missing. Then kubectl shows what is in force, and the admission policies, which refuse requests
// without the object, find it. An object that no user created gets an empty spec, which the API server fills in: a user who
// applies an AtollConfig later owns each field that it sets. A deleted object is created again with the settings in force, by which
// pods run.
func Keep(ctx context.Context, client dynamic.Interface, log *slog.Logger, use func(Settings)) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	k := &keeper{objects: resourceOf(client), log: log, use: use}
	news := make(chan *v1alpha1.AtollConfig)
	go func() { // ends with ctx
		watch(ctx, client, func(err error) { log.Warn("AtollConfig not read; it is tried again", "error", err) },
			func(object *v1alpha1.AtollConfig) {
				select {
				case news <- object:
				case <-ctx.Done():
				}
			})
	}()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case k.object = <-news:
			due = nil
			if k.object == nil && k.before == nil {
				due = time.After(awaitObject)
				continue
			}
		case <-due:
			due = nil
		}
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			log.Warn("AtollConfig not written; it is tried again", "error", err)
			due = time.After(retryWrite)
		}
	}
}

// keeper belongs to one goroutine.
type keeper struct {
	objects dynamic.ResourceInterface
	log     *slog.Logger
	use     func(Settings)
	// object is the newest that was seen, nil when there is none; before is what is in force, nil when nothing is.
	object *v1alpha1.AtollConfig
	before *v1alpha1.AtollConfigSpec
}

// keep looks at the object as it is now.
func (k *keeper) keep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if k.object == nil {
		return k.make(ctx)
	}
	status := Judge(k.object, k.before)
	if !reflect.DeepEqual(status, k.object.Status) {
		if err := k.write(ctx, status); err != nil {
			if k.before == nil {
				// What was in force before stays, whether the rest can be told or not.
				k.take(lastGood(k.object))
			}
			return err
		}
		for _, c := range status.Conditions {
			k.log.Info("AtollConfig judged", "valid", c.Status, "reason", c.Reason, "message", c.Message)
		}
	}
	k.take(status.Active)
	return nil
}

// take puts a spec in force.
func (k *keeper) take(spec *v1alpha1.AtollConfigSpec) {
	if spec == nil || k.before != nil && reflect.DeepEqual(*spec, *k.before) {
		return
	}
	settings, err := Parse(*spec)
	if err != nil {
		k.log.Error("settings in force not readable", "error", err)
		return
	}
	k.before = spec
	k.use(settings)
}

// make makes the object; the watch brings it back.
func (k *keeper) make(ctx context.Context) error {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	if k.before != nil {
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(k.before)
		if err != nil {
			return fmt.Errorf("render AtollConfig: %w", err)
		}
		u.Object["spec"] = spec
	}
	u.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("AtollConfig"))
	u.SetName(v1alpha1.ConfigName)
	// By an apply, so that the API server's defaults are nobody's. Who made one meanwhile keeps it.
	if _, err := k.objects.Apply(ctx, v1alpha1.ConfigName, u, metav1.ApplyOptions{FieldManager: "atoll-controller"}); err != nil &&
		!apierrors.IsConflict(err) {
		return fmt.Errorf("make AtollConfig: %w", err)
	}
	return nil
}

// write writes the status of exactly the object that was judged. One that has changed meanwhile is on its way.
func (k *keeper) write(ctx context.Context, status v1alpha1.AtollConfigStatus) error {
	object := k.object.DeepCopy()
	object.Status = status
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("render AtollConfig: %w", err)
	}
	if _, err := k.objects.UpdateStatus(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write status of AtollConfig: %w", err)
	}
	return nil
}
