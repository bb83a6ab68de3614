package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

const (
	// provider is the Network that others use, of the tenant of its name, and market the tenant of those.
	provider = "provider"
	market   = "market"
	// providerPods are those behind its Service.
	providerPods = 5
)

func consumerName(i int) string { return fmt.Sprintf("consumer-%04d", i) }

// consumers makes Networks with a pod each, has them use the provider at once, and then some more one by one.
func (m *measuring) consumers(ctx context.Context) error {
	p := lab.Network(provider, subnet())
	p.Spec.Tenant, p.Spec.ServiceCIDRs, p.Spec.CompatibleWith = provider, []v1alpha1.CIDR{"10.8.0.0/24"}, []v1alpha1.CompatiblePeer{{Tenant: market}}
	all := []*v1alpha1.Network{p}
	names := []string{provider}
	for i := range m.o.consumers + m.o.more {
		n := lab.Network(consumerName(i), subnet())
		n.Spec.Tenant = market
		all, names = append(all, n), append(names, n.Name)
	}
	if err := m.CreateNetworks(ctx, all...); err != nil {
		return err
	}
	for i, name := range names {
		tenant := market
		if i == 0 {
			tenant = provider
		}
		if err := m.namespace(ctx, name, homeOf(name, tenant)); err != nil {
			return err
		}
	}
	if err := errors.Join(m.pods(ctx, providerPods, provider), m.pods(ctx, 1, names[1:]...)); err != nil {
		return err
	}
	if err := m.service(ctx); err != nil {
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
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return m.use(ctx, all[i+1]) }); err != nil {
		return err
	}
	if err := m.awaitUsers(ctx, m.o.consumers); err != nil {
		return err
	}
	after, err := m.used(ctx)
	if err != nil {
		return err
	}
	out := &m.out.Consumers
	out.Consumers, out.Seconds = m.o.consumers, time.Since(start).Seconds()
	if out.Others, err = meter.Others(); err != nil {
		return err
	}
	n := float64(m.o.consumers)
	out.NorthdEach, out.RowsEach, out.FlowsEach = ms(after.northd-before.northd)/n, float64(after.rows-before.rows)/n, float64(after.flows-before.flows)/n
	m.progress.Done(fmt.Sprintf("%d consumers", m.o.consumers))
	return m.oneByOne(ctx, all[m.o.consumers+1:], after)
}

// oneByOne has some more Networks use the provider, each when the one before is done.
func (m *measuring) oneByOne(ctx context.Context, more []*v1alpha1.Network, before usage) error {
	meter, err := lab.StartMeter(m.Database.PID("northd"))
	if err != nil {
		return err
	}
	out := &m.out.Consumers
	for i, n := range more {
		start := time.Now()
		if err := m.use(ctx, n); err != nil {
			return err
		}
		if err := m.awaitUsers(ctx, m.o.consumers+i+1); err != nil {
			return err
		}
		if _, err := m.Database.NBCtl(ctx, "--timeout=600", "--wait=sb", "sync"); err != nil {
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
	m.progress.Done(fmt.Sprintf("%d more, one by one", len(more)))
	return nil
}

// use has a Network use the provider.
func (m *measuring) use(ctx context.Context, n *v1alpha1.Network) error {
	n.Spec.Uses = []string{provider}
	return m.Apply(ctx, n)
}

// awaitUsers waits until so many switches have the load balancers of what the provider offers: they come with all else.
func (m *measuring) awaitUsers(ctx context.Context, want int) error {
	return harness.Await(ctx, fmt.Sprintf("%d Networks use the provider", want), func(ctx context.Context) (bool, error) {
		groups, err := m.Database.NBCtl(ctx, "--format=csv", "--no-headings", "--columns=_uuid,name", "list", "Load_Balancer_Group")
		if err != nil {
			return false, err
		}
		for line := range strings.Lines(groups) {
			uuid, name, _ := strings.Cut(line, ",")
			if !strings.Contains(name, provider+":offered/") {
				continue
			}
			switches, err := m.Database.NBCtl(ctx, "--bare", "--columns=_uuid", "find", "Logical_Switch", "load_balancer_group{>=}"+uuid)
			return len(strings.Fields(switches)) >= want, err
		}
		return false, nil
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
