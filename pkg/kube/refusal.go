package kube

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

func (w *Writer) attachmentsRefused(pod model.PodKey, want decided[[]model.Attachment], err error) {
	message := refusal(err)
	w.Event(model.Pod{Key: pod, UID: want.uid}.Ref(), model.Problem{Reason: model.ReasonAnnotationRefused, Message: message})
	if w.refuse != nil && len(want.value) > 0 {
		w.refuse(pod, want.uid, message, retryForbidden)
	}
}

// refusal says in plain words why a pod's addresses cannot be written on it, and what to do. The API server's own
// words may be long: they come last.
func refusal(err error) string {
	return "Kubernetes refuses to store this pod's addresses in the pod's annotations, so it gets no network. " +
		advice(err) + " Kubernetes says: " + err.Error()
}

func advice(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "A rule of the cluster forbids it: ask its administrator to let atoll-controller patch this pod. " +
			"Atoll tries again every few minutes."
	case annotationsTooLong(err):
		return "The pod's annotations are too long: remove or shorten some, and Atoll tries again."
	}
	return "Change the pod so that Kubernetes accepts it, and Atoll tries again; or ask the cluster's administrator."
}

// annotationsTooLong reports whether all annotations of an object together are more than Kubernetes stores.
func annotationsTooLong(err error) bool {
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeTooLong)
	return found && cause.Field == "metadata.annotations"
}
