package install

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/atoll-net/atoll/pkg/domain/model"
)

var (
	networkKind = schema.GroupKind{Group: "atoll.dev", Kind: "Network"}
	tenantKind  = schema.GroupKind{Group: "atoll.dev", Kind: "Tenant"}
)

// Hanging is something that would lose its network, or its meaning, with Atoll.
type Hanging struct{ Object, Why string }

// hangs is what is in the way of an uninstallation, and the pods among it.
type hangs struct {
	all  []Hanging
	pods []corev1.Pod
}

// hanging finds what depends on Atoll: users' Networks and Tenants, and pods that Atoll connects. Pods of Atoll's own
// installation do not count.
func (c *Cluster) hanging(ctx context.Context, own []unstructured.Unstructured) (h hangs, err error) {
	for _, gk := range []schema.GroupKind{tenantKind, networkKind} {
		found, err := c.list(ctx, gk, "", "")
		if err != nil {
			return h, err
		}
		for _, o := range found {
			if o.GetLabels()[partOfLabel] != partOf {
				h.all = append(h.all, Hanging{nameOf(&o), "a user made it"})
			}
		}
	}
	pods, err := listAs[corev1.Pod](ctx, c, podKind, "", "")
	if err != nil {
		return h, err
	}
	for _, p := range connected(pods, own) {
		why := "it has its network from Atoll"
		if n := p.Spec.NodeName; n != "" {
			why += ", on " + n
		}
		h.all = append(h.all, Hanging{"Pod " + p.Namespace + "/" + p.Name, why})
		h.pods = append(h.pods, p)
	}
	return h, nil
}

// connected are the pods that Atoll connects, without those of workloads among own.
func connected(pods []corev1.Pod, own []unstructured.Unstructured) []corev1.Pod {
	ours := func(p corev1.Pod) bool {
		return slices.ContainsFunc(own, func(o unstructured.Unstructured) bool {
			match, found, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
			return isWorkload(&o) && found && o.GetNamespace() == p.Namespace && labels.SelectorFromSet(match).Matches(labels.Set(p.Labels))
		})
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		return p.Spec.HostNetwork || ended || p.Annotations[model.AnnotationAttachments] == "" || ours(p)
	})
}

// decided are annotations that the controller writes on objects of others.
func decided(annotations map[string]string) (keys []string) {
	for key := range annotations {
		switch {
		case key == model.AnnotationNode, key == model.AnnotationServiceAddresses, key == model.AnnotationAttachments,
			key == model.AnnotationAddresses, strings.HasPrefix(key, model.Group+"/") && key == model.AnnotationFaces:
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
