package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// namespace holds the pods that are measured, rawNamespace those of the API server alone.
	namespace    = "default"
	rawNamespace = "bench-raw"
	// nodes is how many nodes the pods name; none of them exists. A node has faces for 510 pods, so that these have room for 10,200.
	nodes = 20
	// creators is how many pods of a burst are made at once.
	creators = 32
	// burst500 is how many pods the small burst has.
	burst500 = 500
)

// bench is a lab in which pods are made.
type bench struct {
	*lab.Lab
	// networks are those that pods are spread over.
	networks []string
	made     int
}

// createNetworks makes Networks and waits until pods may attach to them.
func (b *bench) createNetworks(ctx context.Context, n int) error {
	var networks []*v1alpha1.Network
	for i := range n {
		name := networkName(i)
		b.networks = append(b.networks, name)
		network := lab.Network(name, v1alpha1.Subnet{Name: "a", CIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}})
		// The pods of one namespace are in all of them.
		network.Spec.AllowedNamespaces = &metav1.LabelSelector{}
		networks = append(networks, network)
	}
	return b.CreateNetworks(ctx, networks...)
}

// apply makes pods and measures, for each, the time from when its creation was sent to the API server until
// its row was seen in the database. A load of one worker waits for the row of each pod before it makes the next.
func (b *bench) apply(ctx context.Context, load lab.Load) (series, error) {
	pods, ports := make([]lab.Pod, load.Count), make([]string, load.Count)
	for i := range pods {
		pods[i] = lab.Pod{
			Key:  model.PodKey{Namespace: namespace, Name: fmt.Sprintf("pod-%06d", b.made)},
			Node: nodeName(i), Network: b.networks[i%len(b.networks)],
		}
		ports[i] = pods[i].Port()
		b.made++
	}
	sent := make([]time.Time, load.Count)
	err := load.Run(ctx, func(ctx context.Context, i int) error {
		sent[i] = time.Now()
		if err := b.CreatePod(ctx, pods[i]); err != nil || load.Workers != 1 {
			return err
		}
		return b.Ports.Await(ctx, ports[i:i+1], b.Ports.Seen, b.Controller.Done())
	})
	if err != nil {
		return series{}, err
	}
	if err := b.Ports.Await(ctx, ports, b.Ports.Seen, b.Controller.Done()); err != nil {
		return series{}, err
	}
	annotated, err := b.annotated(ctx, pods)
	if err != nil {
		return series{}, err
	}
	took := make([]time.Duration, load.Count)
	first, last := slices.MinFunc(sent, time.Time.Compare), time.Time{}
	for i, name := range ports {
		at, _ := b.Ports.Seen(name)
		took[i] = at.Sub(sent[i])
		if at.After(last) {
			last = at
		}
	}
	return newSeries(took, last.Sub(first), annotated.Sub(first)), nil
}

func nodeName(i int) string { return fmt.Sprintf("node%d", i%nodes) }

func networkName(i int) string { return fmt.Sprintf("bench-%d", i) }

// annotated waits until the last pods made have their annotation too, which the controller writes in about the
// order in which they came, and returns when that was.
func (b *bench) annotated(ctx context.Context, pods []lab.Pod) (time.Time, error) {
	const last = 64
	for _, p := range pods[max(0, len(pods)-last):] {
		err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			pod, err := b.Kube.CoreV1().Pods(namespace).Get(ctx, p.Key.Name, metav1.GetOptions{})
			return err == nil && pod.Annotations[model.AnnotationAttachments] != "", err
		})
		if err != nil {
			return time.Time{}, fmt.Errorf("wait for annotation of %s: %w", p.Key, err)
		}
	}
	return time.Now(), nil
}

// restart measures how long pods wait when the controller is started again: from its start to the row of a
// pod that was made while it was away.
func (b *bench) restart(ctx context.Context) (float64, error) {
	b.Controller.End()
	start := time.Now()
	if err := b.StartController(ctx, "--metrics-address="); err != nil {
		return 0, err
	}
	if _, err := b.apply(ctx, lab.Load{Count: 1, Workers: 1}); err != nil {
		return 0, err
	}
	return time.Since(start).Seconds(), nil
}
