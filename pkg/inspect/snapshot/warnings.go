package snapshot

import (
	"context"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// Warnings are the Events that warn of a pod, the newest first.
func Warnings(ctx context.Context, client kubernetes.Interface, pod *core.Pod) ([]core.Event, error) {
	list, err := client.CoreV1().Events(pod.Namespace).List(ctx, meta.ListOptions{FieldSelector: fields.Set{
		"involvedObject.kind": "Pod", "involvedObject.uid": string(pod.UID), "type": core.EventTypeWarning,
	}.String()})
	if err != nil {
		return nil, err
	}
	latest := func(e core.Event) time.Time {
		last := e.LastTimestamp.Time
		if e.Series != nil && e.Series.LastObservedTime.After(last) {
			last = e.Series.LastObservedTime.Time
		}
		if e.EventTime.After(last) {
			last = e.EventTime.Time
		}
		return last
	}
	slices.SortStableFunc(list.Items, func(a, b core.Event) int { return latest(b).Compare(latest(a)) })
	return list.Items, nil
}
