package lab

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodes are the nodes that pods were bound to so far. No kubelet runs on them.
type nodes struct{ made sync.Map }

// ensure makes a node unless it was made before.
func (n *nodes) ensure(ctx context.Context, kube kubernetes.Interface, name string) error {
	if _, there := n.made.Load(name); there {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	n.made.Store(name, struct{}{})
	return nil
}
