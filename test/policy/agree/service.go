package agree

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/test/policy/cases"
	"github.com/atoll-net/atoll/test/policy/oracle"
)

// service is a Service with its endpoints.
type service struct {
	corev1.Service
	slices []discoveryv1.EndpointSlice
}

func newService(namespace, name string) *service {
	return &service{Service: corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: cases.UID("service", namespace+"/"+name),
	}}}
}

// add adds a virtual address and port, and the endpoints behind it: pods of the Service's namespace, or addresses that are
// no pods'.
func (s *service) add(dial netip.AddrPort, protocol corev1.Protocol, port uint16, pods []string, addresses []netip.Addr) {
	s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, dial.Addr().String())
	s.addPort(dial, protocol, port, pods, addresses)
}

// addPort adds a port alone.
func (s *service) addPort(dial netip.AddrPort, protocol corev1.Protocol, port uint16, pods []string, addresses []netip.Addr) {
	name := fmt.Sprintf("p%d", len(s.Spec.Ports))
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: name, Protocol: protocol, Port: int32(dial.Port())})
	number, family := int32(port), discoveryv1.AddressTypeIPv4
	if dial.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	slice := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-" + name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: family, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &number}},
	}
	for _, pod := range pods {
		_, podName, _ := strings.Cut(pod, "/")
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			// The pod counts, whatever its address.
			Addresses: []string{dial.Addr().String()},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: podName, UID: cases.UID("pod", pod)},
		})
	}
	for _, a := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}})
	}
	s.slices = append(s.slices, slice)
}

// into reads the objects as the controller's informers do.
func (s *service) into(out model.Changes) {
	read := intake.Service(&s.Service)
	out.Services[read.Key] = read
	for i := range s.slices {
		slice := intake.Slice(&s.slices[i])
		out.Slices[slice.Key] = slice
	}
}

// serviceOf is the Service that a packet is sent to.
func serviceOf(p cases.Packet) *service {
	namespace, _, _ := strings.Cut(p.To.Pod, "/")
	s := newService(namespace, "s"+strings.NewReplacer(".", "-", ":", "-").Replace(p.Dial.Addr().String()))
	s.add(p.Dial, p.Protocol, p.Port, []string{p.To.Pod}, nil)
	return s
}

// doors are the two Services behind doors: the cluster's DNS and the Kubernetes API.
func doors(c oracle.Cluster) []*service {
	dns, api := newService(cases.DNSNamespace, "dns"), newService("default", "kubernetes")
	var out []*service
	for _, d := range c.Doors {
		dial := netip.AddrPortFrom(d.Address, d.Port)
		if len(d.Pods) > 0 {
			dns.add(dial, d.Protocol, d.TargetPort, d.Pods, nil)
			dns.onNodes(c, d.Pods)
			continue
		}
		var servers []netip.Addr
		for _, server := range d.Servers {
			servers = append(servers, server.Addr())
		}
		api.add(dial, d.Protocol, d.Servers[0].Port(), nil, servers)
	}
	for _, s := range []*service{dns, api} {
		if len(s.Spec.Ports) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// onNodes gives endpoints of the last port that are on their nodes' own network the addresses of these; and the Service a
// selector, of what all pods have in common.
func (s *service) onNodes(c oracle.Cluster, pods []string) {
	last := s.slices[len(s.slices)-1].Endpoints
	for i, name := range pods {
		at := slices.IndexFunc(c.Pods, func(p oracle.Pod) bool { return p.Key() == name })
		if at < 0 {
			continue
		}
		pod := c.Pods[at]
		if pod.Spec.HostNetwork {
			last[i].Addresses = []string{pod.Status.HostIP}
		}
		if s.Spec.Selector == nil {
			s.Spec.Selector = maps.Clone(pod.Labels)
		}
		maps.DeleteFunc(s.Spec.Selector, func(key, value string) bool { return pod.Labels[key] != value })
	}
}

// resolvers are the Services that answer questions for names. Nobody dials them by addresses of their own.
func resolvers(c oracle.Cluster) []*service {
	var out []*service
	for i, r := range c.Resolvers {
		namespace, name, _ := strings.Cut(r.Service, "/")
		at := slices.IndexFunc(out, func(s *service) bool { return s.Namespace == namespace && s.Name == name })
		if at < 0 {
			at = len(out)
			out = append(out, newService(namespace, name))
			out[at].Spec.ClusterIPs = []string{netip.AddrFrom4([4]byte{10, 98, 0, byte(i + 1)}).String()}
		}
		out[at].addPort(netip.AddrPortFrom(netip.MustParseAddr(out[at].Spec.ClusterIPs[0]), 53), r.Protocol, r.TargetPort, r.Pods, nil)
	}
	return out
}
