package agent

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
)

// annotationMirror is set by kubelet on the API object of a static pod: the UID by which kubelet and the
// runtime know the pod, while the object has another.
const annotationMirror = "kubernetes.io/config.mirror"

// failed tells of a watch that fails.
func (a *Agent) failed(what string) func(error) {
	// From 0, so that the first one is seen as an increase.
	a.metrics.watches.WithLabelValues(what)
	return func(err error) {
		a.metrics.watches.WithLabelValues(what).Inc()
		a.log.Warn("watch failed; it is tried again", "of", what, "error", err)
	}
}

// podID tells a pod from others of its name.
type podID struct {
	key model.PodKey
	uid string
}

func idOf(o metav1.Object) podID {
	return podID{model.PodKey{Namespace: o.GetNamespace(), Name: o.GetName()}, string(o.GetUID())}
}

// watchPods follows the pods of a node until ctx ends. Only their metadata is read.
func (a *Agent) watchPods(ctx context.Context, client metadata.Interface, node string) error {
	const what = "pods"
	follow.Kind[*metav1.PartialObjectMetadata, podID, pod]{
		Name: what,
		Lister: follow.List(client, client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}),
			follow.Options{Fields: fields.OneTermEqualSelector("spec.nodeName", node).String(), Failed: a.failed(what)}),
		Key: idOf, Read: readPod, Sink: a.seesPods(),
	}.Source().Run(ctx)
	return nil
}

// seesPods is what follows pods.
func (a *Agent) seesPods() *follow.Each[podID, pod] {
	return &follow.Each[podID, pod]{
		Seen: func(p *pod) { a.pods.set(*p) },
		Gone: func(id podID) { a.pods.remove(id.key, id.uid) },
		Synced: func() {
			a.pods.setSynced()
			a.log.Info("pods of this node are known")
			a.sweepSoon()
		},
	}
}

// readPod reads what the agent needs of a pod.
func readPod(meta *metav1.PartialObjectMetadata) *pod {
	id := idOf(meta)
	return &pod{
		key: id.key, uid: id.uid,
		staticUID:   meta.Annotations[annotationMirror],
		attachments: meta.Annotations[model.AnnotationAttachments],
		deleting:    meta.DeletionTimestamp != nil,
	}
}
