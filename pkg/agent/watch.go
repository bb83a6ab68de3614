package agent

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/atoll-net/atoll/pkg/follow"
	"github.com/atoll-net/atoll/pkg/model"
)

// annotationMirror is set by kubelet on the API object of a static pod: the UID by which kubelet and the
// runtime know the pod, while the object has another.
const annotationMirror = "kubernetes.io/config.mirror"

// watchPods follows the pods of a node until ctx ends. Only their metadata is read, and of that only what the
// agent needs is kept.
func (a *Agent) watchPods(ctx context.Context, client metadata.Interface, node string) error {
	informer := metadatainformer.NewFilteredMetadataInformer(client,
		schema.GroupVersionResource{Version: "v1", Resource: "pods"}, metav1.NamespaceAll, 0, cache.Indexers{},
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}).Informer()
	return a.follow(ctx, "pods", follow.Watch{Informer: informer, Trim: trim, Handler: follow.Handle(a.podSeen, a.podGone)}, func() {
		a.pods.setSynced()
		a.log.Info("pods of this node are known")
	})
}

// trim drops what the agent does not read, before it is kept.
func trim(object any) (any, error) {
	meta, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := metav1.ObjectMeta{
		Name:            meta.Name,
		Namespace:       meta.Namespace,
		UID:             meta.UID,
		ResourceVersion: meta.ResourceVersion,
		// Whether it is there is what counts.
		DeletionTimestamp: meta.DeletionTimestamp,
	}
	for _, key := range []string{model.AnnotationAttachments, annotationMirror} {
		if value, has := meta.Annotations[key]; has {
			metav1.SetMetaDataAnnotation(&kept, key, value)
		}
	}
	return &metav1.PartialObjectMetadata{TypeMeta: meta.TypeMeta, ObjectMeta: kept}, nil
}

func (a *Agent) podSeen(meta *metav1.PartialObjectMetadata) {
	a.pods.set(pod{
		key:         model.PodKey{Namespace: meta.Namespace, Name: meta.Name},
		uid:         string(meta.UID),
		staticUID:   meta.Annotations[annotationMirror],
		attachments: meta.Annotations[model.AnnotationAttachments],
		deleting:    meta.DeletionTimestamp != nil,
	})
}

func (a *Agent) podGone(meta *metav1.PartialObjectMetadata) {
	a.pods.remove(model.PodKey{Namespace: meta.Namespace, Name: meta.Name}, string(meta.UID))
}
