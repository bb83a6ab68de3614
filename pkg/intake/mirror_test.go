package intake

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/atoll-net/atoll/pkg/model"
)

func TestMirror(t *testing.T) {
	m := model.Mirror{
		Network: "red", Of: model.SliceKey{Namespace: "a", Name: "web-x"}, OfUID: "uid", Service: "web",
		Ports: []model.SlicePort{{Name: "http", Protocol: model.TCP, Port: 80}, {Protocol: model.SCTP, Port: 90}},
		Endpoints: []model.Endpoint{
			{Address: netip.MustParseAddr("10.0.0.5"), Pod: model.PodKey{Namespace: "a", Name: "web-0"}, PodUID: "pod", Ready: true, Serving: true, Hostname: "web-0", Node: "n"},
			{Address: netip.MustParseAddr("10.0.0.6"), Serving: true},
		},
	}
	s := Mirror(m)
	if Slice(s) != nil {
		t.Error("a mirror is read as one of Kubernetes' slices, and would be mirrored again")
	}
	if _, is := s.Labels[discoveryv1.LabelServiceName]; is {
		t.Error("a mirror has the label by which Kubernetes knows a Service's slices")
	}
	if _, is := s.Labels[corev1.IsHeadlessService]; !is {
		t.Error("kube-proxy would ask for mirrors")
	}
	if s.AddressType != discoveryv1.AddressTypeIPv4 || len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != "uid" {
		t.Errorf("%+v", s)
	}
	// Read back under the label that it does not have, it says the same.
	s.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	back := Slice(s)
	for i, want := range m.Endpoints {
		if back.Endpoints[i].Ready {
			t.Errorf("endpoint %d is ready for everybody", i)
		}
		if got := MirrorReady(s.Endpoints[i].Conditions); got != want.Ready {
			t.Errorf("endpoint %d is ready in its Network: %v, want %v", i, got, want.Ready)
		}
		want.Ready = false
		if back.Endpoints[i] != want {
			t.Errorf("endpoint %+v, want %+v", back.Endpoints[i], want)
		}
	}
	if len(back.Ports) != 2 || back.Ports[0] != m.Ports[0] || back.Ports[1] != m.Ports[1] {
		t.Errorf("ports %+v, want %+v", back.Ports, m.Ports)
	}
}

func TestMirrorKey(t *testing.T) {
	m := model.Mirror{Network: "red", Of: model.SliceKey{Namespace: "a", Name: "web-x"}, OfUID: "uid"}
	other, later, long := m, m, m
	other.Network, later.OfUID = "blue", "uid-2"
	keys := map[model.SliceKey]bool{MirrorKey(m): true, MirrorKey(other): true, MirrorKey(later): true}
	if len(keys) != 3 {
		t.Errorf("two mirrors share a name: %v", keys)
	}
	long.Of.Name = strings.Repeat("a", 241) + "." + strings.Repeat("b", 11)
	if name := MirrorKey(long).Name; len(name) > 253 || strings.Contains(name, ".-") {
		t.Errorf("name %q", name)
	}
}
