package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// provider is the Network that others use. Each Network is of the tenant of its name.
	provider = "provider"
	// island is a Network that has nothing to do with others.
	island = "island"
	// providerPods are those behind its Service.
	providerPods = 5
)

func consumerName(i int) string { return fmt.Sprintf("consumer-%04d", i) }

// consumers makes Networks with a pod each, has them use the provider at once, and then some more one by one. Three nodes with
// OVN look on: one has a pod of a consumer, one of the provider, and one of a Network that has nothing to do with them.
func (m *measuring) consumers(ctx context.Context) error {
	p := lab.Network(provider, subnet())
	p.Spec.Tenant, p.Spec.ServiceCIDRs, p.Spec.CompatibleWith = provider, []v1alpha1.CIDR{"10.8.0.0/24"}, []v1alpha1.CompatiblePeer{
		{All: true},
	}
	var all []*v1alpha1.Network
	for i := range m.o.consumers + m.o.more {
		n := lab.Network(consumerName(i), subnet())
		// A tenant with all of them would wait: the controller bounds how often one changes its Networks.
		n.Spec.Tenant = n.Name
		all = append(all, n)
	}
	neither := lab.Network(island, subnet())
	neither.Spec.Tenant = island
	if err := errors.Join(m.make(ctx, providerPods, p), m.make(ctx, 1, append(all, neither)...)); err != nil {
		return err
	}
	if err := m.service(ctx); err != nil {
		return err
	}
	out := &m.out.Consumers
	for _, of := range []struct{ what, network string }{{"a consumer", consumerName(0)}, {"the provider", provider}, {"neither", island}} {
		n, err := m.startNode(ctx, of.network)
		if err != nil {
			return err
		}
		if err := m.plug(ctx, n, of.network); err != nil {
			return err
		}
		out.Nodes = append(out.Nodes, held{PodOf: of.what})
	}
	if err := m.settle(ctx); err != nil {
		return err
	}
	watched := m.nodes
	if err := lookAt(ctx, watched, func(i int, use nodeUse) { out.Nodes[i].Before = use }); err != nil {
		return err
	}
	before, err := m.used(ctx)
	if err != nil {
		return err
	}
	m.progress.Done(fmt.Sprintf("%d Networks that could use another", m.o.consumers))
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return err
	}
	start := time.Now()
	load := lab.Load{Count: m.o.consumers, Workers: creators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return m.use(ctx, all[i]) }); err != nil {
		return err
	}
	if err := m.awaitUsers(ctx, m.o.consumers); err != nil {
		return err
	}
	after, err := m.used(ctx)
	if err != nil {
		return err
	}
	out.Consumers, out.Seconds = m.o.consumers, time.Since(start).Seconds()
	if out.Others, err = meter.Others(); err != nil {
		return err
	}
	n := float64(m.o.consumers)
	out.NorthdEach, out.RowsEach, out.FlowsEach = ms(after.northd-before.northd)/n, float64(after.rows-before.rows)/n,
		float64(after.flows-before.flows)/n
	m.progress.Done(fmt.Sprintf("%d consumers", m.o.consumers))
	if err := m.settle(ctx); err != nil {
		return err
	}
	if err := lookAt(ctx, watched, func(i int, use nodeUse) { out.Nodes[i].After = use }); err != nil {
		return err
	}
	for _, of := range out.Nodes {
		m.progress.Say("ovn-controller with a pod of %s: %.1f MB, %.1f before", of.PodOf, of.After.ResidentMB, of.Before.ResidentMB)
	}
	return m.oneByOne(ctx, all[m.o.consumers:])
}

// lookAt reads what the ovn-controllers of some nodes hold.
func lookAt(ctx context.Context, nodes []*node, then func(int, nodeUse)) error {
	for i, n := range nodes {
		use, err := n.look(ctx)
		if err != nil {
			return err
		}
		then(i, use)
	}
	return nil
}

// oneByOne has some more Networks use the provider, each when the one before is done. None has a pod on a node with OVN.
func (m *measuring) oneByOne(ctx context.Context, more []*v1alpha1.Network) error {
	if err := m.awaitNothing(ctx, len(more)); err != nil {
		return err
	}
	before, err := m.used(ctx)
	if err != nil {
		return err
	}
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return err
	}
	out := &m.out.Consumers
	began := make([]time.Duration, len(out.Nodes))
	for i, n := range m.nodes[:len(out.Nodes)] {
		if began[i], err = n.spent(); err != nil {
			return err
		}
	}
	for i, n := range more {
		start := time.Now()
		if err := m.use(ctx, n); err != nil {
			return err
		}
		if err := m.awaitUsers(ctx, m.o.consumers+i+1); err != nil {
			return err
		}
		if err := m.synced(ctx); err != nil {
			return err
		}
		out.MoreSeconds = append(out.MoreSeconds, time.Since(start).Seconds())
	}
	after, err := m.used(ctx)
	if err != nil {
		return err
	}
	if out.MoreOthers, err = meter.Others(); err != nil {
		return err
	}
	count := float64(len(more))
	out.MoreNorthd, out.MoreFlows = ms(after.northd-before.northd)/count, float64(after.flows-before.flows)/count
	if err := m.carried(ctx); err != nil {
		return err
	}
	for i, n := range m.nodes[:len(out.Nodes)] {
		spent, err := n.spent()
		if err != nil {
			return err
		}
		out.Nodes[i].MoreMilliseconds = ms(spent-began[i]) / count
	}
	m.progress.Done(fmt.Sprintf("%d more, one by one", len(more)))
	return nil
}

// awaitNothing measures what ovn-northd spends on being awaited as often as that, where nothing changes.
func (m *measuring) awaitNothing(ctx context.Context, times int) error {
	before, err := m.used(ctx)
	if err != nil {
		return err
	}
	for range times {
		if err := m.synced(ctx); err != nil {
			return err
		}
	}
	after, err := m.used(ctx)
	if err != nil {
		return err
	}
	m.out.Consumers.SyncNorthd = ms(after.northd-before.northd) / float64(times)
	return nil
}

// use has a Network use the provider.
func (m *measuring) use(ctx context.Context, n *v1alpha1.Network) error {
	n.Spec.Uses = []string{provider}
	return m.Apply(ctx, n)
}

// awaitUsers waits until so many switches have what the provider offers.
func (m *measuring) awaitUsers(ctx context.Context, want int) error {
	return m.await(ctx, fmt.Sprintf("%d Networks use the provider", want), func(ctx context.Context, rows *follower) (bool, error) {
		users, err := rows.users(ctx, provider)
		return len(users) >= want, err
	})
}

// service makes a Service of the provider with its pods behind it, by the faces that Kubernetes knows.
func (m *measuring) service(ctx context.Context) error {
	_, err := m.Kube.CoreV1().Services(provider).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make Service: %w", err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(80))}},
	}
	if err := harness.Await(ctx, "faces of the provider's pods", func(ctx context.Context) (bool, error) {
		pods, err := m.Kube.CoreV1().Pods(provider).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		slice.Endpoints = nil
		for _, p := range pods.Items {
			written := p.Annotations[model.AnnotationAttachments]
			if written == "" {
				return false, nil
			}
			var attachments []model.Attachment
			if err := json.Unmarshal([]byte(written), &attachments); err != nil {
				return false, fmt.Errorf("read face of pod %s: %w", p.Name, err)
			}
			if len(attachments) != 1 || len(attachments[0].Faces) == 0 {
				return false, fmt.Errorf("read face of pod %s: there is none in %s", p.Name, written)
			}
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{attachments[0].Faces[0].String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: provider, Name: p.Name, UID: p.UID},
			})
		}
		return len(slice.Endpoints) == providerPods, nil
	}); err != nil {
		return err
	}
	if _, err := m.Kube.DiscoveryV1().EndpointSlices(provider).Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make slice: %w", err)
	}
	return nil
}
