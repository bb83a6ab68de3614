package status

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/snapshot"
)

// Pods are those of a namespace, or of all if it is empty.
func Pods(ctx context.Context, s snapshot.Sources, namespace string) ([]api.Pod, error) {
	held, err := s.HeldFor(ctx)
	if err != nil {
		return nil, err
	}
	return listPods(held, namespace), snapshot.Ended(ctx)
}

// Pod is one with all its layers; false when there is none.
func Pod(ctx context.Context, s snapshot.Sources, key model.PodKey) (api.Pod, bool, error) {
	held, err := s.Held()
	if err != nil {
		return api.Pod{}, false, err
	}
	object, err := s.Client.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Pod{}, false, nil
	}
	if err != nil {
		return api.Pod{}, false, fmt.Errorf("read pod %s: %w", key, err)
	}
	facts := podFacts{object: object}
	facts.events, facts.told = snapshot.Warnings(ctx, s.Client, object)
	if s.Northbound != nil && s.Southbound != nil {
		ctx, cancel := context.WithTimeout(ctx, snapshot.DatabaseTime)
		defer cancel()
		name := key.First().PortName()
		if p := held.Objects.Pods[key]; held.Attachment(p) != nil {
			name = model.AttachmentKey{Pod: key, Interface: held.Attachment(p).Interface}.PortName()
		}
		rows := readPodRows(ctx, s.Northbound, s.Southbound, name)
		facts.rows = &rows
	}
	return podLayers(held, facts), true, nil
}
