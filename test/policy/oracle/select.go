package oracle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	policyv1alpha2 "sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// selects is the meaning that Kubernetes itself gives to selectors; an empty one selects everything, one that cannot be
// read nothing.
func selects(s *metav1.LabelSelector, l map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(l))
}

// selectsNamespace asks for a namespace's labels. One that is not there is not selected.
func (c Cluster) selectsNamespace(s *metav1.LabelSelector, name string) bool {
	ns, ok := c.namespace(name)
	return ok && selects(s, ns.Labels)
}

func (c Cluster) selectsNamespacedPod(s policyv1alpha2.NamespacedPod, pod *Pod) bool {
	return c.selectsNamespace(&s.NamespaceSelector, pod.Namespace) && selects(&s.PodSelector, pod.Labels)
}
