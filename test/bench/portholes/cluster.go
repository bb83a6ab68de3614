package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// cluster is the sandbox that is measured.
type cluster struct {
	*harness.Cluster
	progress *lab.Progress
}

func newCluster(ctx context.Context, sandbox *harness.Cluster, progress *lab.Progress) (*cluster, error) {
	c := &cluster{Cluster: sandbox, progress: progress}
	// The cluster's own pods come now: they are not to come in between.
	return c, harness.Await(ctx, "the cluster's own pods", c.ownPodsReady)
}

func (c *cluster) ownPodsReady(ctx context.Context) (bool, error) {
	list, err := c.Kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	for i := range list.Items {
		if !isReady(&list.Items[i]) {
			return false, nil
		}
	}
	return len(list.Items) > 0, nil
}

// networkName is also the name of the namespace whose pods are in the Network.
func networkName(i int) string { return fmt.Sprintf("tenant-%03d", i) }

// network has the addresses that all others have, too.
func network(name string) *v1alpha1.Network {
	return lab.Network(name, v1alpha1.Subnet{Name: "main", CIDRs: []v1alpha1.CIDR{"10.0.0.0/24", "fd00:10::/64"}})
}

// makeNetworks makes Networks and their namespaces, and waits until pods may come.
func (c *cluster) makeNetworks(ctx context.Context, count int) error {
	load := lab.Load{Count: count, Workers: 8}
	err := load.Run(ctx, func(ctx context.Context, i int) error {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(network(networkName(i)))
		if err != nil {
			return err
		}
		delete(object, "status")
		if _, err := c.Networks.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: networkName(i), Labels: map[string]string{model.LabelNetwork: networkName(i)},
		}}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier run, of a sandbox that was kept, made it
		}
		return err
	})
	if err != nil {
		return err
	}
	return harness.Await(ctx, "Networks Ready", func(ctx context.Context) (bool, error) {
		list, err := c.Networks.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := 0
		for i := range list.Items {
			phase, _, err := unstructured.NestedString(list.Items[i].Object, "status", "phase")
			if err == nil && phase == string(v1alpha1.NetworkReady) && strings.HasPrefix(list.Items[i].GetName(), "tenant-") {
				ready++
			}
		}
		accounts, err := c.Kube.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			FieldSelector: "metadata.name=default",
		})
		if err != nil {
			return false, err
		}
		for _, a := range accounts.Items {
			if strings.HasPrefix(a.Namespace, "tenant-") {
				ready++
			}
		}
		return ready >= 2*count, nil
	})
}
