package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestWhereTheAPIIs(t *testing.T) {
	t.Parallel()
	tcp, udp, port := corev1.ProtocolTCP, corev1.ProtocolUDP, int32(6443)
	ready, unready := true, false
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIPs: []string{"10.96.0.1", "fd00::1", "None"},
		Ports:      []corev1.ServicePort{{Port: 443, Protocol: tcp}, {Port: 53, Protocol: udp}},
	}}
	if got := clusterAddresses(service); !slices.Equal(got, []netip.AddrPort{
		netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("[fd00::1]:443"),
	}) {
		t.Errorf("got %v", got)
	}
	slice := &discoveryv1.EndpointSlice{
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}},
			{Addresses: []string{"192.0.2.2"}, Conditions: discoveryv1.EndpointConditions{Ready: &unready}},
			{Addresses: []string{"192.0.2.3"}},
		},
		Ports: []discoveryv1.EndpointPort{{Port: &port, Protocol: &tcp}, {Port: &port, Protocol: &udp}, {}},
	}
	if got := endpointAddresses(slice); !slices.Equal(got, []netip.AddrPort{
		netip.MustParseAddrPort("192.0.2.1:6443"), netip.MustParseAddrPort("192.0.2.3:6443"),
	}) {
		t.Errorf("got %v", got)
	}
	// Whoever is not ready is no less a machine of the control plane.
	if got := fmt.Sprint(machineAddresses(slice)); got != "[192.0.2.1 192.0.2.2 192.0.2.3]" {
		t.Errorf("machines are %s", got)
	}
}
