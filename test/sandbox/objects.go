package sandbox

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// labelNodes makes nodes of the control plane's kind, on which the databases and the controller run: all of them, or the first
// where the databases have one member. It cannot be kubelet's doing, which may not give itself such a label.
func (s *Sandbox) labelNodes(ctx context.Context) error {
	clients, err := s.clients()
	if err != nil {
		return err
	}
	nodes := s.Nodes()
	if s.record.Options.Overlay == OverlaySingle {
		nodes = nodes[:1]
	}
	for _, node := range nodes {
		patch := []byte(`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
		if _, err := clients.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("label node %s: %w", node, err)
		}
	}
	return nil
}

func (s *Sandbox) clients() (*kubernetes.Clientset, error) {
	config, err := s.RESTConfig()
	if err != nil {
		return nil, err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return clients, nil
}

// registered and ready are what nodes are waited for to be.
func registered(*corev1.Node) (bool, string) { return true, "" }

func ready(node *corev1.Node) (bool, string) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, c.Message
		}
	}
	return false, "it has not reported yet"
}

// waitNodes waits until all nodes are in the API and pass.
func (s *Sandbox) waitNodes(ctx context.Context, passes func(*corev1.Node) (bool, string)) error {
	clients, err := s.clients()
	if err != nil {
		return err
	}
	missing := map[string]string{}
	err = poll(ctx, nodesLimit, "the nodes", func(ctx context.Context) (bool, error) {
		for _, name := range s.Nodes() {
			missing[name] = "not registered"
		}
		list, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the API may be starting anew; the limit decides
		}
		for i := range list.Items {
			node := &list.Items[i]
			if ok, why := passes(node); ok {
				delete(missing, node.Name)
			} else {
				missing[node.Name] = why
			}
		}
		return len(missing) == 0, nil
	})
	if err == nil || ctx.Err() != nil {
		return err
	}
	var reasons []string
	for _, name := range sortedKeys(missing) {
		reasons = append(reasons, name+": "+missing[name])
	}
	return fmt.Errorf("%w; %s%s", err, strings.Join(reasons, "; "), s.logTail(sortedKeys(missing)[0], "kubelet"))
}
