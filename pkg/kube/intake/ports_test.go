package intake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/intake"
)

// TestPortsAreBounded: of a Service with more ports the first ones are kept, and the others counted; a slice has the same ones.
func TestPortsAreBounded(t *testing.T) {
	t.Parallel()
	for _, ports := range []int32{1, model.MaxServicePorts, model.MaxServicePorts + 44} {
		in := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.5"}}}
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
		for i := range ports {
			in.Spec.Ports = append(in.Spec.Ports, corev1.ServicePort{Port: 1000 + i})
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Port: new(1000 + i)})
		}
		kept := min(int(ports), model.MaxServicePorts)
		s, of := intake.Service(in), intake.Slice(slice)
		if len(s.Ports) != kept || s.Beyond != int(ports)-kept || len(of.Ports) != kept {
			t.Errorf("of %d ports the Service has %d, with %d beyond, and the slice %d", ports, len(s.Ports), s.Beyond, len(of.Ports))
		}
		if last := uint16(999 + kept); s.Ports[kept-1].Port != last || of.Ports[kept-1].Port != last {
			t.Errorf("the last of %d ports is %d, and that of the slice %d; want %d", ports, s.Ports[kept-1].Port, of.Ports[kept-1].Port, last)
		}
	}
}

// TestAnotherProxy: a Service with the label service.kubernetes.io/service-proxy-name, whatever its value, is left to whoever set that.
func TestAnotherProxy(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"none": false, "": true, "envoy": true} {
		in := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.5"}}}
		if value != "none" {
			in.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": value}
		}
		if got := intake.Service(in).OfAnotherProxy; got != want {
			t.Errorf("the label %q: of another proxy is %v, want %v", value, got, want)
		}
	}
}
