package lab

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

// Pod is a pod that is bound to a node from its beginning, as if a scheduler had seen it.
type Pod struct {
	Key  model.PodKey
	Node string
	// Network chooses the pod's Network by its label, and Subnet one of its subnets; empty leaves the choice to
	// the namespace and the controller.
	Network, Subnet string
}

// Port is the name of the pod's port.
func (p Pod) Port() string { return p.Key.First().PortName() }

// CreatePod makes a pod, and its node if there is none.
func (l *Lab) CreatePod(ctx context.Context, p Pod) error {
	if err := l.nodes.ensure(ctx, l.Kube, p.Node); err != nil {
		return err
	}
	object := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Key.Name},
		Spec: corev1.PodSpec{
			NodeName:   p.Node,
			Containers: []corev1.Container{{Name: "main", Image: "image"}},
		},
	}
	if p.Network != "" {
		object.Labels = map[string]string{model.LabelNetwork: p.Network}
	}
	if p.Subnet != "" {
		object.Annotations = map[string]string{model.AnnotationNICs: `[{"subnet":"` + p.Subnet + `"}]`}
	}
	// The answer is not looked at: it costs both sides less when it is short.
	return l.Kube.CoreV1().RESTClient().Post().Namespace(p.Key.Namespace).Resource("pods").Body(object).
		SetHeader("Accept", runtime.ContentTypeProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Do(ctx).Error()
}

// DeletePod removes a pod at once: no kubelet has to agree.
func (l *Lab) DeletePod(ctx context.Context, key model.PodKey) error {
	now := int64(0)
	return l.Kube.CoreV1().RESTClient().Delete().Namespace(key.Namespace).Resource("pods").Name(key.Name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &now}).
		SetHeader("Accept", runtime.ContentTypeProtobuf+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Do(ctx).Error()
}
