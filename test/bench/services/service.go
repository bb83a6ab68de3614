package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/test/bench/harness"
	"github.com/atoll-net/atoll/test/lab"
)

// service is a Service and its endpoints. Nobody but us writes its slices: no controller of Kubernetes runs.
type service struct {
	key  model.ServiceKey
	pods []lab.Pod
	// slices as the API server has them; each holds at most perSlice endpoints.
	slices []*discoveryv1.EndpointSlice
	// unready: the first endpoint is not ready now.
	unready bool
}

// perSlice is how many endpoints Kubernetes puts into a slice.
const perSlice = 100

func newService(key model.ServiceKey, endpoints int) *service {
	return &service{key: key, pods: make([]lab.Pod, endpoints)}
}

// balancer is the name of the load balancer in the Service's own Network, which is called like its namespace.
func (s *service) balancer() string {
	return s.key.Namespace + "/" + s.key.String() + ":" + string(model.TCP)
}

// ready is how many of its endpoints are ready.
func (s *service) ready() int {
	if s.unready {
		return len(s.pods) - 1
	}
	return len(s.pods)
}

// toggle has the first endpoint become unready, or ready again, as Kubernetes does when a pod's readiness changes.
func (s *service) toggle(ctx context.Context, kube kubernetes.Interface) error {
	s.unready = !s.unready
	ready := !s.unready
	slice := s.slices[0].DeepCopy()
	slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready}
	got, err := kube.DiscoveryV1().EndpointSlices(s.key.Namespace).Update(ctx, slice, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("update slice of %s: %w", s.key, err)
	}
	s.slices[0] = got
	return nil
}

// makeServices makes Services with their pods, and waits until the database has all of them.
func (b *rowsBench) makeServices(ctx context.Context, services []*service) error {
	var all []lab.Pod
	for _, s := range services {
		for i := range s.pods {
			s.pods[i] = lab.Pod{
				Key:  model.PodKey{Namespace: s.key.Namespace, Name: fmt.Sprintf("%s-%d", s.key.Name, i)},
				Node: fmt.Sprintf("node%d", b.pods/perNode),
			}
			b.pods++
		}
		all = append(all, s.pods...)
	}
	err := lab.Load{Count: len(all), Workers: creators}.Run(ctx, func(ctx context.Context, i int) error { return b.CreatePod(ctx, all[i]) })
	if err != nil {
		return fmt.Errorf("create pods: %w", err)
	}
	ports := make([]string, 0, len(all))
	for _, p := range all {
		ports = append(ports, p.Port())
	}
	if err := b.Ports.Await(ctx, ports, b.Ports.Seen, b.Controller.Done()); err != nil {
		return err
	}
	load := lab.Load{Count: len(services), Workers: creators}
	if err := load.Run(ctx, func(ctx context.Context, i int) error { return services[i].make(ctx, b.Kube) }); err != nil {
		return err
	}
	for _, s := range services {
		if _, err := b.seen.await(ctx, s.balancer(), s.ready()); err != nil {
			return err
		}
	}
	b.services = append(b.services, services...)
	return nil
}

// make makes the Service and its slices; its pods are there.
func (s *service) make(ctx context.Context, kube kubernetes.Interface) error {
	made, err := kube.CoreV1().Services(s.key.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.key.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Service %s: %w", s.key, err)
	}
	for part := range slices.Chunk(s.pods, perSlice) {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: s.key.Name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: s.key.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: made.Name, UID: made.UID}},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: new(int32(8080))}},
		}
		for _, p := range part {
			e, err := endpointOf(ctx, kube, p)
			if err != nil {
				return err
			}
			slice.Endpoints = append(slice.Endpoints, e)
		}
		got, err := kube.DiscoveryV1().EndpointSlices(s.key.Namespace).Create(ctx, slice, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create slice of %s: %w", s.key, err)
		}
		s.slices = append(s.slices, got)
	}
	return nil
}

// endpointOf is a pod as Kubernetes writes it into a slice, with the face that it was given.
func endpointOf(ctx context.Context, kube kubernetes.Interface, p lab.Pod) (out discoveryv1.Endpoint, err error) {
	pods := kube.CoreV1().Pods(p.Key.Namespace)
	var uid types.UID
	var attachments []model.Attachment
	// Its port may be in the database a moment before the annotation is on the pod.
	err = harness.Await(ctx, "attachment of "+p.Key.String(), func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, p.Key.Name, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil || pod.Annotations[model.AnnotationAttachments] == "" {
			return false, err
		}
		uid = pod.UID
		return true, json.Unmarshal([]byte(pod.Annotations[model.AnnotationAttachments]), &attachments)
	})
	if err != nil {
		return out, err
	}
	return discoveryv1.Endpoint{
		Addresses:  []string{attachments[0].Faces[0].String()},
		NodeName:   &p.Node,
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: p.Key.Namespace, Name: p.Key.Name, UID: uid},
	}, nil
}
