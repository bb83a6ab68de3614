package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/pkg/sandbox"
	"github.com/atoll-net/atoll/test/lab"
)

// cluster is the sandbox that is measured.
type cluster struct {
	box      *sandbox.Sandbox
	kube     kubernetes.Interface
	networks dynamic.ResourceInterface
	progress *lab.Progress
	// agents are their processes by node, and roots those whose descendants take part.
	agents map[string]int
	roots  []int
	others others
}

func newCluster(ctx context.Context, box *sandbox.Sandbox, progress *lab.Progress) (*cluster, error) {
	config, err := box.RESTConfig()
	if err != nil {
		return nil, err
	}
	c := &cluster{box: box, progress: progress, agents: map[string]int{}}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	config.ContentType = runtime.ContentTypeProtobuf
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	c.networks = dyn.Resource(v1alpha1.SchemeGroupVersion.WithResource("networks"))
	for _, place := range box.Places() {
		daemons, err := box.Daemons(ctx, place)
		if err != nil {
			return nil, err
		}
		for _, d := range daemons {
			if d.PID != 0 && d.Name == "atoll-agent" {
				c.agents[place] = d.PID
			}
		}
	}
	if c.roots, err = lab.Families(ctx, box); err != nil {
		return nil, err
	}
	// The cluster's own pods come now: they are not to come in between.
	if err := c.await(ctx, "the cluster's own pods", c.ownPodsReady); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cluster) ownPodsReady(ctx context.Context) (bool, error) {
	list, err := c.kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
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

// others measures how many processors those used who do not take part, and what those used who do.
type others struct {
	start lab.Usage
	// programs is the processor time of those who take part, in seconds.
	programs map[string]float64
}

func (c *cluster) watchOthers() (err error) {
	c.others.start, err = lab.ReadUsage(c.roots...)
	return err
}

func (c *cluster) usedByOthers() (float64, error) {
	end, err := lab.ReadUsage(c.roots...)
	if err != nil {
		return 0, err
	}
	c.others.programs = map[string]float64{}
	for name, used := range end.Programs {
		if used > c.others.start.Programs[name] {
			c.others.programs[name] = (used - c.others.start.Programs[name]).Seconds()
		}
	}
	programs, machines := c.others.start.Foreign(end)
	return programs + machines, nil
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
		if _, err := c.networks.Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = c.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
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
	return c.await(ctx, "Networks Ready", func(ctx context.Context) (bool, error) {
		list, err := c.networks.List(ctx, metav1.ListOptions{})
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
		accounts, err := c.kube.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
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

// lookEvery is how often a condition is looked at.
const lookEvery = 100 * time.Millisecond

// await waits until a condition holds.
func (c *cluster) await(ctx context.Context, what string, holds func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, lookEvery, lab.Patience, true, holds); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}
